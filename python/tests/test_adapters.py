"""The adapters, by the examples in examples/attach: code in the form that the other libraries document."""

import asyncio
import json
import math
import sys
import types
import unittest
from types import SimpleNamespace

from support import ATTACH, Client, RequestError, ServedTest
from stoker_env import Episode, Task
from stoker_env.adapters import gymnasium, trl, tunix, verl
from stoker_env.definitions import BadResult, DefinitionError, reward_of
from stoker_env.loading import Catalogue, load


def conversation(said, prompt="What is 2 + 2?", outcome="done", **fields):
    messages = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": said}]
    return Episode(messages, Task("row", {"prompt": prompt, **fields}), outcome)


class AttachTest(unittest.TestCase):
    def connect(self, *names):
        client = Client(names, folder=ATTACH)
        self.addCleanup(client.close)
        client.hello()
        return client

    def score(self, client, reward, messages=None, fields=None, **params):
        task = {"id": "row", "fields": fields or {}}
        params.update(reward=reward, task=task)
        if messages is not None:
            params["messages"] = messages
        return client.request("score", params)

    def reset(self, client, fields, seed=0, **params):
        params.update(episode="e", task={"id": "row", "fields": fields}, seed=seed)
        return client.request("reset", params)

    def step(self, client, text):
        return client.request("step", {"episode": "e", "turn": 0, "text": text})

    def call(self, client, tool, **arguments):
        return client.request("call", {"episode": "e", "tool": tool, "arguments": arguments})["content"]


MESSAGES = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "It is 4."}]


class OwnTest(AttachTest):
    def test_rewards(self):
        client = self.connect("my_rewards:right_number", "my_rewards:brief")
        self.assertEqual(self.score(client, "right_number", MESSAGES, {"answer": "4"})["reward"], 1.0)
        self.assertEqual(self.score(client, "right_number", MESSAGES, {"answer": 5})["reward"], 0.0)
        with self.assertRaisesRegex(RequestError, "the row has no column 'answer'; its columns are: question"):
            self.score(client, "right_number", MESSAGES, {"question": "?"})
        brief = self.score(client, "brief", MESSAGES)
        self.assertEqual(brief, {"reward": 0.992, "info": {"characters": 8}})

    def test_tools(self):
        client = self.connect("my_tools:convert", "my_tools:look_up")
        self.assertEqual(self.call(client, "convert", value=2, unit="km"), "2000.0")
        self.assertEqual(self.call(client, "look_up", country="Kenya"), "Nairobi")
        self.assertEqual(self.call(client, "look_up", country="Oz"), "error: no capital of 'Oz' is known.")

    def test_environment(self):
        client = self.connect("my_game:Corridor")
        first = self.reset(client, {"length": 9}, seed=3)
        self.assertEqual(first["messages"][0]["content"].split(",")[0], "You stand in a corridor of 9 places")
        for _ in range(9):
            where = self.call(client, "listen")
            answer = self.step(client, "open" if where == "here" else where)
            if answer["done"]:
                break
        self.assertEqual(self.score(client, "Corridor", episode="e"), {"reward": 1.0})


class TrlTest(AttachTest):
    def test_rewards_are_called_with_a_batch_of_one(self):
        client = self.connect("trl:trl_rewards:boxed_reward", "trl:trl_rewards:length_reward", "trl_rewards:multiply")
        messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "\\boxed{4}"}]
        for prompt in ("2 + 2?", messages[:1]):  # TRL's standard and conversational forms
            fields = {"prompt": prompt, "ground_truth": "4"}
            self.assertEqual(self.score(client, "boxed_reward", messages, fields), {"reward": 1.0})
        self.assertEqual(self.score(client, "boxed_reward", messages, {"ground_truth": "5"})["reward"], 0.0)
        unscored = self.score(client, "boxed_reward", messages, {"ground_truth": None})
        self.assertEqual(unscored, {"reward": None})
        length = self.score(client, "length_reward", messages, {"prompt": "2 + 2?"})
        self.assertEqual((length["reward"], length["info"]), (-0.001 * 9, {"mean_length": 9.0}))
        self.assertEqual(self.call(client, "multiply", a=6, b=7), "42")

    def test_texts_for_a_text_prompt_and_messages_otherwise(self):
        seen = []

        def spy(prompts, completions, **columns):
            seen.append((prompts, completions, columns))
            return [0]

        trl.reward(spy).function(conversation("4", level="easy"))
        prompts, completions, columns = seen[-1]
        self.assertEqual((prompts, completions, columns.pop("level")), (["What is 2 + 2?"], ["4"], ["easy"]))
        self.assertEqual(sorted(columns), ["log_extra", "log_metric"])
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
        messages = [
            {"role": "user", "content": "2 + 2?"},
            {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]},
            {"role": "tool", "content": "4", "tool_call_id": "c"},
            {"role": "assistant", "content": "4"},
        ]
        trl.reward(spy).function(Episode(messages, Task("", {"prompt": "2 + 2?"})))
        prompts, completions, _ = seen[-1]
        self.assertEqual(prompts, [messages[:1]])
        self.assertEqual(completions[0][0]["content"], "<think>\nHm.\n</think>\n\n")
        self.assertEqual(completions[0][0]["tool_calls"][0]["function"]["arguments"], {"x": 1})
        self.assertEqual([m["role"] for m in completions[0]], ["assistant", "tool", "assistant"])

    def test_wrong_returns_are_no_score(self):
        for value in (1.0, [1.0, 2.0], [math.nan], ["a"], None, {"a": 1}):
            with self.subTest(value=value), self.assertRaises(BadResult):
                trl.reward(lambda completions, **kw: value, "f").function(conversation("4"))

    def test_what_stoker_cannot_give_is_refused_at_the_start(self):
        def by_state(completions, trainer_state, **kwargs):
            return [0.0]

        with self.assertRaisesRegex(DefinitionError, "'trainer_state' cannot be given"):
            trl.definition(by_state)

    def test_environment_class(self):
        client = self.connect("trl:trl_rewards:IncrementEnv")
        tools = client.request("tools", {"environment": "IncrementEnv"})["tools"]
        self.assertEqual([tool["function"]["name"] for tool in tools], ["increment"])
        self.assertEqual(list(tools[0]["function"]["parameters"]["properties"]), ["step"])
        first = self.reset(client, {"prompt": [{"role": "user", "content": "Count."}], "target": 5})
        self.assertEqual(first["messages"], [{"role": "user", "content": "Count. The target is 5."}])
        self.assertEqual([self.call(client, "increment", step=3), self.call(client, "increment", step=2)], ["3", "5"])
        self.assertEqual(self.step(client, "Done."), {"messages": [], "done": True})
        self.assertEqual(self.score(client, "IncrementEnv", episode="e")["reward"], 1.0)
        client.request("close", {"episode": "e"})

    def test_environment_with_a_reward_function_of_its_own(self):
        class Env:
            def reset(self, **row):
                self.n = 0

            def add(self, n: int) -> int:
                """Add."""
                self.n += n
                return self.n

        def reward(completions, environments, scale, **kwargs):
            return [environment.n * scale[0] for environment in environments]

        environment = trl.environment(Env, reward=reward)
        instance = environment.factory()
        self.assertEqual(instance.reset(Task("", {"prompt": "Go."})), [{"role": "user", "content": "Go."}])
        instance.add(n=3)
        self.assertEqual(instance.score(conversation("x", scale=2)).reward, 6)


    def test_a_dictionary_of_environment_classes(self):
        client = self.connect("trl:trl_rewards:ENVIRONMENTS=mixed")
        tools = client.request("tools", {"environment": "mixed"})["tools"]
        self.assertEqual([tool["function"]["name"] for tool in tools], ["increment", "letter"])
        prompt = [{"role": "user", "content": "Go on."}]
        first = self.reset(client, {"prompt": prompt, "environment": "increment", "target": 2})
        self.assertEqual(first["messages"], [{"role": "user", "content": "Go on. The target is 2."}])
        self.assertEqual([tool["function"]["name"] for tool in first["tools"]], ["increment"])
        self.assertEqual(self.call(client, "increment", step=2), "2")
        with self.assertRaisesRegex(RequestError, "There is no tool 'letter'; the tools are: increment"):
            self.call(client, "letter", index=0)
        self.assertEqual(self.score(client, "mixed", episode="e"), {"reward": 1.0})
        client.request("close", {"episode": "e"})
        second = self.reset(client, {"prompt": prompt, "environment": "secret", "secret": "ape"})
        self.assertEqual(second["messages"], prompt)
        self.assertEqual(self.call(client, "letter", index=1), "p")
        self.assertEqual(self.score(client, "mixed", episode="e"), {"reward": None})
        client.request("close", {"episode": "e"})
        with self.assertRaisesRegex(RequestError, "environment.unknown_environment: .*; they are: increment, secret"):
            self.reset(client, {"prompt": prompt, "environment": "chess"})
        client.request("close", {"episode": "e"})

    def test_environments_of_a_dictionary_must_agree_on_a_tools_schema(self):
        class One:
            def reset(self):
                pass

            def look(self, far: bool) -> str:
                """Look."""
                return "one %s" % far

        class Two(One):
            async def reset(self):
                return " Now."

            async def look(self, far: bool) -> str:
                """Look."""
                return "two %s" % far

        class Three(One):
            def look(self) -> str:
                """Look."""
                return ""

        both = trl.environment({"one": One, "two": Two}, name="both")
        self.assertFalse(both.tools["look"].is_async)
        self.assertNotIn("score", both.methods)
        opened = both.factory().reset(Task("", {"prompt": "Go.", "environment": "two"}))
        self.assertEqual(asyncio.run(opened).messages, [{"role": "user", "content": "Go. Now."}])
        with self.assertRaisesRegex(DefinitionError, "different tools of the name 'look'"):
            trl.environment({"one": One, "three": Three})
        with self.assertRaisesRegex(DefinitionError, "is empty"):
            trl.environment({})


class VerlTest(AttachTest):
    def test_compute_score(self):
        client = self.connect("verl:verl_score:compute_score")
        fields = {
            "data_source": "openai/gsm8k",
            "reward_model": {"style": "rule", "ground_truth": "1000"},
            "extra_info": {"index": 1},
        }
        for answer, score, form in [("#### 1,000", 1.0, True), ("#### 3", 0.1, True), ("3", 0.0, False)]:
            messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]
            result = self.score(client, "compute_score", messages, fields)
            self.assertEqual(result, {"reward": score, "info": {"format": form}})
        with self.assertRaisesRegex(RequestError, "reward.exception: NotImplementedError: no score for other"):
            self.score(client, "compute_score", MESSAGES, {**fields, "data_source": "other"})
        with self.assertRaisesRegex(RequestError, "reward.bad_result: the row has neither 'reward_model.ground_truth'"):
            self.score(client, "compute_score", MESSAGES, {"data_source": "openai/gsm8k"})

    def test_what_it_is_given(self):
        seen = {}

        def compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs):
            seen.update(locals())
            return (0.5, "and more")

        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "Let me look."},
            {"role": "user", "content": "Well?"},
            {"role": "assistant", "content": "4"},
        ]
        episode = Episode(messages, Task("", {"ground_truth": "4", "data_source": "d", "extra_info": {"index": 3}}))
        self.assertEqual(verl.reward(compute_score, url="u").function(episode).reward, 0.5)
        self.assertEqual((seen["solution_str"], seen["ground_truth"]), ("Let me look.\n4", "4"))
        self.assertEqual((seen["extra_info"], seen["kwargs"]), ({"index": 3, "num_turns": 2}, {"url": "u"}))


class TunixTest(AttachTest):
    def test_rewards(self):
        client = self.connect("tunix:tunix_tasks:check_answer", "tunix:tunix_tasks:exact_match")
        messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "<answer> 4 </answer>"}]
        self.assertEqual(self.score(client, "check_answer", messages, {"answer": "4"})["reward"], 3.0)
        self.assertEqual(self.score(client, "check_answer", MESSAGES, {"answer": "4"})["reward"], 1.0)
        plain = [MESSAGES[0], {"role": "assistant", "content": "4"}]
        self.assertEqual(self.score(client, "exact_match", plain, {"ground_truth": 4})["reward"], 1.0)

    def test_environment_with_its_agent(self):
        client = self.connect("tunix_tasks:guessing")
        first = self.reset(client, {"question": "Which number?", "number": 7})
        system, question = first["messages"]
        self.assertEqual(system, {"role": "system", "content": "Say a number."})
        self.assertEqual(question, {"role": "user", "content": "Which number?"})
        self.assertEqual(
            self.step(client, "Maybe 5?"), {"messages": [{"role": "user", "content": "higher"}], "done": False}
        )
        self.assertEqual(self.step(client, "Then 7!"), {"messages": [], "done": True})
        self.assertEqual(self.score(client, "guessing", episode="e"), {"reward": 1.0})

    def test_the_limit_of_steps_is_told_apart(self):
        client = self.connect("tunix_tasks:guessing")
        self.reset(client, {"question": "Which number?", "number": 7})
        for _ in range(3):
            self.assertFalse(self.step(client, "1")["done"])
        self.assertEqual(self.step(client, "1"), {"messages": [], "done": True, "truncated": True})
        self.assertEqual(self.score(client, "guessing", episode="e")["reward"], 0.0)

    def test_environment_without_an_agent_steps_on_the_text(self):
        class Env:
            def __init__(self, task, **kwargs):
                self.task = task

            def reset(self):
                return {"prompt": self.task["prompt"]}, {}

            def step(self, action):
                return {"tool_outputs": {"c": action}}, 0.5, action == "end", {}

        instance = tunix.environment(Env, system_prompt="Be kind.").factory()
        roles = [m["role"] for m in instance.reset(Task("", {"prompt": "Hi."})).messages]
        self.assertEqual(roles, ["system", "user"])
        from stoker_env import Action

        self.assertEqual(
            instance.step(Action("go", "go")).messages, [{"role": "tool", "tool_call_id": "c", "content": "go"}]
        )
        self.assertTrue(instance.step(Action("end", "end")).done)
        self.assertEqual(instance.score(), 1.0)
        Env.final_reward_fn = lambda self: SimpleNamespace(reward=0.25, metadata={})
        self.assertEqual(instance.score(), 1.25)

    def test_no_reward_at_all_is_not_scored(self):
        class Env:
            def __init__(self, task):
                pass

            def reset(self):
                return "Go.", {}

            def step(self, action):
                return {}, None, True, {}

        from stoker_env import Action

        instance = tunix.environment(Env).factory()
        instance.reset(Task("", {}))
        instance.step(Action("go", "go"))
        self.assertIsNone(instance.score())


class GymnasiumTest(AttachTest):
    def test_words(self):
        client = self.connect("gymnasium:gym_lake:EchoEnv")
        first = self.reset(client, {"words": "good day"})
        self.assertEqual(first, {"messages": [{"role": "user", "content": "Say: good day"}], "done": False})
        self.assertEqual(self.step(client, " good day\n"), {"messages": [], "done": True})
        self.assertEqual(self.score(client, "EchoEnv", episode="e")["reward"], 1.0)

    def test_numbered_actions(self):
        client = self.connect("gym_lake:lake")
        self.reset(client, {})
        again = self.step(client, "to the right!")
        self.assertEqual(again["messages"][0]["content"], "Answer with a number from 0 to 1.")
        self.assertEqual(self.step(client, "I choose 1")["messages"][0]["content"], "You are on field 1.")
        self.step(client, "1")
        self.assertEqual(self.step(client, "1"), {"messages": [], "done": True})
        self.assertEqual(self.score(client, "lake", episode="e")["reward"], 1.0)

    def test_a_limit_is_told_apart_from_an_end(self):
        client = self.connect("gym_lake:lake")
        self.reset(client, {})
        for _ in range(5):
            self.assertFalse(self.step(client, "0")["done"])
        self.assertEqual(self.step(client, "0"), {"messages": [], "done": True, "truncated": True})
        self.assertEqual(self.score(client, "lake", episode="e")["reward"], 0.0)

    def test_seeds_reach_the_environment(self):
        seeds = []

        class Env:
            def reset(self, *, seed=None, options=None):
                seeds.append((seed, options))
                return 1, {}

        instance = gymnasium.environment(Env, observe=lambda o: {"role": "user", "content": "%d" % o}).factory()
        self.assertEqual(instance.reset(Task("", {"a": 1}), 2**40 + 5).messages, [{"role": "user", "content": "1"}])
        self.assertEqual(seeds, [(5, {"a": 1})])


class LoadingTest(unittest.TestCase):
    def test_names_are_unique(self):
        with self.assertRaisesRegex(DefinitionError, "two things of the name 'brief'"):
            load(["my_rewards:brief", "my_rewards:brief"])
        with self.assertRaisesRegex(DefinitionError, "write MODULE:NAME"):
            load(["my_rewards"])

    def test_an_alias_is_another_name(self):
        names = [
            "verl:verl_score:compute_score=maths",
            "my_rewards:brief=short",
            "my_tools:convert=lengths",
            "my_game:Corridor=walk",
        ]
        catalogue = load(names)
        self.assertEqual(list(catalogue.rewards), ["maths", "short"])
        self.assertEqual(catalogue.tools["lengths"].schema["function"]["name"], "lengths")
        self.assertEqual(list(catalogue.environments), ["walk"])

    def test_what_cannot_be_served_is_refused_with_a_sentence(self):
        def trl_function(completions, **kwargs):
            pass

        def verl_function(data_source, solution_str, ground_truth):
            pass

        def ids(completions, completion_ids):
            pass

        module = types.ModuleType("served_by_test")
        vars(module).update(trl=trl_function, verl=verl_function, ids=ids, x=1, Empty=type("Empty", (), {}))
        exec("def bare(a: int): pass", vars(module))
        sys.modules["served_by_test"] = module
        self.addCleanup(sys.modules.pop, "served_by_test")
        for name, words in [
            ("served_by_test:y", "there is no 'y' in 'served_by_test'"),
            ("served_by_test:x", "a function or a class was expected"),
            ("served_by_test:bare", "needs a docstring"),
            ("served_by_test:Empty", "no method 'reset'"),
            ("served_by_test:trl", "serve it as trl:MODULE:NAME"),
            ("served_by_test:verl", "serve it as verl:MODULE:NAME"),
            ("trl:served_by_test:ids", "token ids stay in Stoker"),
            ("nonsense:served_by_test:x", "is no kind"),
            ("tool:gym_lake:lake=x", "no alias"),
        ]:
            with self.subTest(name=name), self.assertRaisesRegex(DefinitionError, words):
                load([name])

    def test_kinds_are_seen(self):
        catalogue = load(["my_rewards:brief", "my_tools:convert", "my_game:Corridor", "gym_lake:lake"])
        self.assertIsInstance(catalogue, Catalogue)
        self.assertEqual(list(catalogue.rewards), ["brief"])
        self.assertEqual(list(catalogue.tools), ["convert"])
        self.assertEqual(list(catalogue.environments), ["Corridor", "lake"])

    def test_columns_reach_a_reward_by_name(self):
        seen = {}

        def reward(episode, answer, missing="default", **columns):
            seen.update(answer=answer, missing=missing, **columns)
            return True

        self.assertIs(reward_of(reward).function(conversation("4", answer="4", level=2)), True)
        seen.pop("prompt")
        self.assertEqual(seen, {"answer": "4", "missing": "default", "level": 2})


class EpisodeTest(unittest.TestCase):
    def test_answer_is_what_the_policy_said_last(self):
        self.assertEqual(conversation("4").answer, "4")
        call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
        user = {"role": "user", "content": "?"}
        for messages in ([], [user], [user, call], [user, {"role": "assistant", "content": "4"}, user]):
            self.assertIsNone(Episode(messages, Task("", {})).answer)

    def test_the_prompt_may_hold_words_of_the_assistant(self):
        messages = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"},
        ]
        self.assertEqual(len(Episode(messages, Task("", {}), prompt_messages=3).completion), 1)
        self.assertEqual(len(Episode(messages, Task("", {})).completion), 3)


class InfoTest(ServedTest):
    def test_numbers_of_other_libraries_are_taken(self):
        source = """
            import fractions
            from stoker_env import Episode, Score
            def half(episode: Episode):
                return Score(fractions.Fraction(1, 2), False, {"why": "half"})
            def words(episode: Episode):
                return "high"
        """
        client = self.greet(source, "half", "words")
        result = client.request("score", {"reward": "half", "messages": []})
        self.assertEqual(json.dumps(result), '{"reward": 0.5, "success": false, "info": {"why": "half"}}')
        self.assertEqual(self.error(client, "score", {"reward": "words", "messages": []})["reason"], "bad_result")


if __name__ == "__main__":
    unittest.main()
