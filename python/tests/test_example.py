"""The example exchange of docs/protocol_example.txt, byte for byte."""

import json
import os
import unittest
from random import Random
from subprocess import DEVNULL
from threading import Thread

from support import ROOT, TESTS, Client


class ExampleTest(unittest.TestCase):
    def test_every_line_is_answered_as_written(self):
        with open(os.path.join(ROOT, "docs", "protocol_example.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        names = ["example_module:" + name for name in ("GuessNumber", "add", "exact", "brief")]
        answers = 0
        with Client(names, folder=TESTS) as client:
            for number, line in enumerate(lines, 1):
                if line.startswith("> "):
                    client.write_line(line[2:].encode() + b"\n")
                elif line.startswith("< "):
                    self.assertEqual(client.read_line(), line[2:], "line %d" % number)
                    answers += 1
                else:
                    self.assertTrue(not line or line.startswith("#"), "line %d" % number)
            self.assertEqual(client.close(), 0)
        self.assertGreater(answers, 30)

    def test_requests_with_anything_in_them_do_not_end_the_process(self):
        random = Random(1)
        with open(os.path.join(ROOT, "docs", "protocol_example.txt"), encoding="utf-8") as file:
            lines = [line[2:].strip() for line in file if line.startswith("> ") and line.rstrip().endswith("}")]
        values = [None, True, 0, -1, 1.5, 2**63, "", "x", "0.0", [], [1], {}, {"a": 1}, "\ud800", [{"role": "user"}]]

        def changed(value):
            if random.random() < 0.12:
                return random.choice(values)
            if isinstance(value, dict):
                return {key: changed(inner) for key, inner in value.items() if random.random() > 0.05}
            return [changed(inner) for inner in value] if isinstance(value, list) else value

        with Client(["example_module:GuessNumber", "example_module:exact"], folder=TESTS, stderr=DEVNULL) as client:
            client.hello()
            requests = []
            for number in range(1000, 1600):
                message = changed(json.loads(random.choice(lines)))
                if isinstance(message, dict) and "id" in message:
                    message["id"] = number
                requests.append(json.dumps(message).encode() + b"\n")
            requests.append(b'{"id":2000,"method":"ping"}\n')
            # Beside the reading, since pipes hold only so much.
            Thread(target=lambda: [client.write_line(line) for line in requests], daemon=True).start()
            answered = {}
            while 2000 not in answered:
                message = client.read_message()
                if message.get("id") is not None:
                    self.assertNotIn(message["id"], answered)
                    answered[message["id"]] = message
            self.assertIn("result", answered[2000])
            self.assertGreater(len(answered), 300)
            self.assertEqual(client.close(), 0)


if __name__ == "__main__":
    unittest.main()
