"""The GSM8K reward: the shared table of hard forms, and the reference answers of the whole test set."""

import importlib.util
import json
import os
import unittest

from support import EXAMPLES, ROOT, Client
from stoker_env import Episode, Task

FOLDER = os.path.join(EXAMPLES, "gsm8k")
DATA = os.path.join(ROOT, "..", "shared", "data", "gsm8k")


def load_reward():
    spec = importlib.util.spec_from_file_location("gsm8k_reward", os.path.join(FOLDER, "reward.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gsm8k = load_reward()


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class AnswerTest(unittest.TestCase):
    def test_hard_forms(self):
        cases = rows(os.path.join(FOLDER, "answer_cases.jsonl"))
        self.assertGreater(len(cases), 80)
        for case in cases:
            with self.subTest(text=case["text"]):
                self.assertEqual(gsm8k.extract_answer(case["text"]), case["answer"])

    def test_issue_7_forms(self):
        for text in ("18", "$18.00", "#### 18", "\\boxed{18}", "36/2", "The answer is 18. It took 2 days."):
            self.assertEqual(gsm8k.extract_answer(text), "18")
        self.assertEqual(gsm8k.extract_answer("1,234"), "1234")

    @unittest.skipUnless(os.path.isdir(DATA), "the GSM8K files are not here")
    def test_reference_answers(self):
        for name in ("test.jsonl", "train_head500.jsonl"):
            for row in rows(os.path.join(DATA, name)):
                reference = row["answer"].rsplit("####", 1)[1].strip().replace(",", "")
                self.assertEqual(gsm8k.extract_answer(row["answer"]), reference)

    def test_long_texts_take_linear_time(self):
        self.assertEqual(gsm8k.extract_answer("1,234 " * 50000), "1234")
        self.assertEqual(gsm8k.extract_answer("{" * 100000 + "\\boxed{" * 1000 + "7"), "7")
        self.assertEqual(gsm8k.extract_answer("1" * 100000), "1" * 100000)


class RewardTest(unittest.TestCase):
    def score(self, answer, reference="so 9 * 2 = 18\n#### 18", outcome="done"):
        messages = [{"role": "user", "content": "How much?"}, {"role": "assistant", "content": answer}]
        return gsm8k.correct(Episode(messages, Task("", {}), outcome), reference)

    def test_reward(self):
        self.assertEqual(self.score("She makes $18.00 a day."), 1.0)
        self.assertEqual(self.score("I do not know."), 0.0)
        self.assertEqual(self.score("17"), 0.0)
        self.assertEqual(self.score("18", outcome="limit.tokens"), 0.0)
        self.assertIsNone(self.score("18", reference="none"))

    def test_served(self):
        with Client(["reward:correct"], folder=FOLDER) as client:
            client.hello()
            messages = [{"role": "user", "content": "How much?"}, {"role": "assistant", "content": "#### 18"}]
            task = {"id": "0", "fields": {"question": "How much?", "answer": "#### 18"}}
            result = client.request("score", {"reward": "correct", "task": task, "messages": messages})
            self.assertEqual(result, {"reward": 1.0})


if __name__ == "__main__":
    unittest.main()
