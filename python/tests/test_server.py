"""What a serving process promises: order, independence, cancellation, clean pipes, one close, an end."""

import json
import os
import signal
import time
import unittest

from support import RequestError, ServedTest

WORLD = """
    import gc
    import asyncio, os, subprocess, sys, threading, time
    import stoker_env
    from stoker_env import Action, Episode, Failure, Observation, Task, ToolError, tool

    def write(name, text):
        with open(name, "a") as file:
            file.write(text + "\\n")

    class World:
        '''A world.'''
        def reset(self, task, seed):
            self.name = task.id
            self.thread = threading.get_ident()
            if task.fields.get("fail"):
                raise ValueError("no such world")
            return "begin %d" % seed
        def step(self, action: Action):
            text = action.text
            if text == "hang":
                while not os.path.exists("go"):
                    time.sleep(0.005)
                write("log", "hung step ended")
                return "too late"
            if text == "exit":
                sys.exit(3)
            if text == "die":
                os._exit(7)
            if text == "big":
                return "x" * (17 << 20)
            if text == "bytes":
                return b"x"
            if text == "thread":
                return "same" if threading.get_ident() == self.thread else "other"
            write("log", self.name + " " + text)
            return "you said " + text
        async def wait(self) -> str:
            '''Wait.'''
            return "waited"
        def score(self):
            return float("nan") if self.name == "nan" else 1
        def close(self):
            write("log", self.name + " closed")
        @tool
        async def meet(self) -> str:
            '''Meet another call.'''
            self.met = getattr(self, "met", 0) + 1
            while self.met < 2:
                await asyncio.sleep(0.001)
            return "met"
        @tool
        def fail(self, how: str) -> str:
            '''Fail.'''
            if how == "tool":
                raise ToolError("the door is shut.")
            if how == "value":
                return str(1 / 0)
            if how == "away":
                raise ConnectionRefusedError("nobody there")
            raise Failure("infrastructure", "disk_full", "The disk is full.")

    class Later:
        '''All of it async.'''
        async def reset(self, question):
            await asyncio.sleep(0)
            return question
        async def step(self, action):
            if action.text == "wait":
                try:
                    await asyncio.sleep(1000)
                finally:
                    write("log", "cancelled")
            return None
        async def close(self):
            write("log", "later closed")

    def slow(seconds: float) -> str:
        '''Be slow.'''
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not stoker_env.cancelled():
            time.sleep(0.002)
        write("log", "cancelled" if stoker_env.cancelled() else "slept")
        return "done"

    def requests() -> int:
        '''Count the requests that this process holds.'''
        gc.disable()
        return sum(type(each).__name__ == "Job" for each in gc.get_objects())

    def stuck() -> str:
        '''Never end.'''
        write("log", "stuck")
        while True:
            time.sleep(1)

    def noisy(how: str) -> str:
        '''Print everywhere.'''
        if how == "print":
            print("stray print")
        elif how == "descriptor":
            os.write(1, b"stray descriptor\\n")
        elif how == "child":
            subprocess.run(["echo", "stray child"])
        elif how == "fork":
            pid = os.fork()
            if pid == 0:
                print("stray fork", flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
        elif how == "input":
            return repr(sys.stdin.read())
        return how

    async def remaining() -> str:
        '''How long.'''
        left = stoker_env.remaining_seconds()
        return "none" if left is None else "some" if 0 < left <= 50 else "wrong"

    def deep(episode: Episode):
        '''Raise from deep down.'''
        def dig(n):
            if n == 0:
                raise KeyError("gold")
            dig(n - 1)
        dig(400)
"""


def wait_for(condition):
    """Waits until something outside is so; the test's own timeout ends it."""
    while not condition():
        time.sleep(0.005)


class ServerTest(ServedTest):
    def world(self, *names):
        client = self.greet(WORLD, *(names or ("World",)))
        self.log = os.path.join(self.folder, "log")
        return client

    def reset(self, client, episode, task="w", seed=0, **fields):
        params = {"episode": episode, "task": {"id": task, "fields": fields}, "seed": seed}
        return client.request("reset", params)

    def step(self, client, episode, text):
        return client.request("step", {"episode": episode, "turn": 0, "text": text})["messages"][0]["content"]

    def read_log(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as file:
            return file.read().splitlines()

    def test_a_hanging_episode_blocks_neither_others_nor_the_ping(self):
        client = self.world("World", "slow")
        for i in range(20):
            self.reset(client, "e%d" % i)
        hanging = [client.send("step", {"episode": "e%d" % i, "turn": 0, "text": "hang"}) for i in range(10)]
        for i in range(10, 20):
            self.assertEqual(self.step(client, "e%d" % i, "hello"), "you said hello")
        self.assertEqual(client.request("ping", {}), {"episodes": 20, "busy": 10, "stuck": 0})
        open(os.path.join(self.folder, "go"), "w").close()
        for request in hanging:
            self.assertEqual(client.wait(request)["messages"][0]["content"], "too late")

    def test_requests_of_an_episode_keep_their_order(self):
        client = self.world()
        self.reset(client, "e", task="w")
        for i in range(50):
            client.send("step", {"episode": "e", "turn": i, "text": str(i)})
        client.request("close", {"episode": "e"})
        self.assertEqual(self.read_log(), ["w %d" % i for i in range(50)] + ["w closed"])

    def test_synchronous_episodes_stay_on_one_thread(self):
        client = self.world()
        for name in ("a", "b", "c"):
            self.reset(client, name)
        for name in ("c", "a", "b"):
            self.assertEqual(self.step(client, name, "thread"), "same")

    def test_async_calls_of_one_turn_run_side_by_side(self):
        client = self.world()
        self.reset(client, "e")
        calls = [client.send("call", {"episode": "e", "tool": "meet", "arguments": {}}) for _ in range(2)]
        self.assertEqual([client.wait(call)["content"] for call in calls], ["met", "met"])

    def test_a_cancelled_request_is_answered_at_once_and_its_episode_waits_for_the_work(self):
        client = self.world()
        self.reset(client, "e")
        hanging = client.send("step", {"episode": "e", "turn": 0, "text": "hang"})
        queued = client.send("step", {"episode": "e", "turn": 1, "text": "never"})
        client.cancel(hanging)
        client.cancel(queued)
        for request in (hanging, queued):
            with self.assertRaises(RequestError) as raised:
                client.wait(request)
            self.assertEqual(raised.exception.error["class"], "cancelled")
        self.assertEqual(client.request("ping", {}), {"episodes": 1, "busy": 0, "stuck": 1})
        closing = client.send("close", {"episode": "e"})
        open(os.path.join(self.folder, "go"), "w").close()
        self.assertEqual(client.wait(closing), {})
        self.assertEqual(self.read_log(), ["hung step ended", "w closed"])
        self.assertEqual(client.request("ping", {}), {"episodes": 0, "busy": 0, "stuck": 0})
        client.cancel(hanging)  # answered long ago: nothing happens

    def test_cancelling_async_work_stops_it(self):
        client = self.world("Later")
        self.reset(client, "e", question="Why?")
        waiting = client.send("step", {"episode": "e", "turn": 0, "text": "wait"})
        client.cancel(waiting)
        with self.assertRaises(RequestError):
            client.wait(waiting)
        client.request("close", {"episode": "e"})
        self.assertEqual(self.read_log(), ["cancelled", "later closed"])

    def test_synchronous_work_can_ask_whether_it_is_cancelled(self):
        client = self.world("slow")
        request = client.send("call", {"tool": "slow", "arguments": {"seconds": 1000}})
        client.cancel(request)
        with self.assertRaises(RequestError):
            client.wait(request)
        wait_for(self.read_log)
        self.assertEqual(self.read_log(), ["cancelled"])

    def test_requests_are_freed_without_the_garbage_collector(self):
        client = self.world("World", "requests")
        for episode in range(30):
            self.reset(client, "e%d" % episode)
            self.step(client, "e%d" % episode, "hello")
            client.request("close", {"episode": "e%d" % episode})
            held = int(client.request("call", {"tool": "requests", "arguments": {}})["content"])
            self.assertLessEqual(held, 3)  # this one, and what a thread has just left

    def test_a_quick_function_that_hangs_for_once_keeps_nobody_waiting(self):
        client = self.world("slow")
        for _ in range(100):
            self.assertEqual(client.request("call", {"tool": "slow", "arguments": {"seconds": 0}})["content"], "done")
        hanging = [client.send("call", {"tool": "slow", "arguments": {"seconds": 1000}}) for _ in range(3)]
        self.assertEqual(client.request("call", {"tool": "slow", "arguments": {"seconds": 0}})["content"], "done")
        self.assertEqual(client.request("ping", {}), {"episodes": 0, "busy": 3, "stuck": 0})
        error = self.error(client, "call", {"tool": "slow", "arguments": {"seconds": 1000}}, timeout_seconds=0.02)
        self.assertEqual((error["class"], error["reason"]), ("tool", "timeout"))
        for request in hanging:
            client.cancel(request)
            with self.assertRaises(RequestError):
                client.wait(request)
        wait_for(lambda: client.request("ping", {}) == {"episodes": 0, "busy": 0, "stuck": 0})

    def test_a_quick_function_that_turns_slow_holds_up_the_reader_once(self):
        source = """
            import threading
            together = threading.Barrier(6)

            def at(wait: bool) -> str:
                "Answers."
                if wait:
                    together.wait()
                return threading.current_thread().name
        """
        client = self.greet(source, "at")
        for _ in range(32):
            client.request("call", {"tool": "at", "arguments": {"wait": False}})
        requests = [client.send("call", {"tool": "at", "arguments": {"wait": True}}) for _ in range(6)]
        names = [client.wait(request)["content"] for request in requests]
        self.assertLessEqual(len([name for name in names if name.startswith("reader-")]), 1, names)

    def test_a_deadline_is_a_timeout_of_the_methods_class(self):
        client = self.world("World", "slow", "remaining")
        self.reset(client, "e")
        error = self.error(client, "call", {"tool": "slow", "arguments": {"seconds": 1000}}, timeout_seconds=0.02)
        self.assertEqual((error["class"], error["reason"]), ("tool", "timeout"))
        error = self.error(client, "step", {"episode": "e", "text": "hang"}, timeout_seconds=0.02)
        self.assertEqual((error["class"], error["reason"]), ("environment", "timeout"))
        self.assertEqual(client.request("call", {"tool": "remaining", "arguments": {}}, 50)["content"], "some")
        self.assertEqual(client.request("call", {"tool": "remaining", "arguments": {}})["content"], "none")
        for wrong in (0, -1, "30s"):  # ENV-13
            error = self.error(client, "call", {"tool": "remaining", "arguments": {}}, timeout_seconds=wrong)
            self.assertEqual(error["reason"], "bad_request")
        open(os.path.join(self.folder, "go"), "w").close()

    def test_whatever_user_code_prints_goes_to_standard_error(self):
        client = self.world("noisy")
        for how in ("print", "descriptor", "child", "fork"):
            self.assertEqual(client.request("call", {"tool": "noisy", "arguments": {"how": how}})["content"], how)
        self.assertEqual(client.request("call", {"tool": "noisy", "arguments": {"how": "input"}})["content"], "''")
        self.assertEqual(client.close(), 0)
        for how in ("print", "descriptor", "child", "fork"):
            self.assertIn("stray " + how, self.stderr_text())

    def test_exceptions_have_a_class_and_a_bounded_traceback(self):
        client = self.world("World", "deep")
        error = self.error(client, "reset", {"episode": "e", "task": {"id": "", "fields": {"fail": True}}})
        self.assertEqual((error["class"], error["reason"]), ("environment", "exception"))
        self.assertEqual(error["message"], "ValueError: no such world")
        self.assertIn("served.py", error["traceback"])
        self.reset(client, "f")
        self.assertEqual(self.error(client, "step", {"episode": "f", "text": "exit"})["message"], "SystemExit: 3")
        error = self.error(client, "score", {"reward": "deep", "messages": []})
        self.assertEqual((error["class"], error["reason"]), ("reward", "exception"))
        self.assertLessEqual(len(error["traceback"].encode()), 16384)
        self.assertTrue(error["traceback"].endswith("KeyError: 'gold'\n"))

    def test_results_without_a_place_in_the_answer_are_refused(self):
        client = self.world()
        self.reset(client, "e", task="nan")
        self.assertEqual(self.error(client, "step", {"episode": "e", "text": "bytes"})["reason"], "exception")
        self.assertEqual(self.error(client, "step", {"episode": "e", "text": "big"})["reason"], "too_large")
        error = self.error(client, "score", {"reward": "World", "episode": "e"})
        self.assertEqual((error["class"], error["reason"]), ("reward", "bad_result"))

    def test_what_a_tool_raises_is_for_the_model_unless_the_world_is_away(self):
        client = self.world()
        self.reset(client, "e")

        def call(how):
            return client.request("call", {"episode": "e", "tool": "fail", "arguments": {"how": how}})

        self.assertEqual(call("tool"), {"content": "error: the door is shut.", "is_error": True})
        self.assertEqual(call("value"), {"content": "error: ZeroDivisionError: division by zero", "is_error": True})
        with self.assertRaisesRegex(RequestError, "^tool.exception: ConnectionRefusedError: nobody there"):
            call("away")
        with self.assertRaisesRegex(RequestError, "^infrastructure.disk_full: The disk is full."):
            call("full")

    def test_close_comes_exactly_once_whatever_happened(self):
        client = self.world()
        error = self.error(client, "reset", {"episode": "a", "task": {"id": "failed", "fields": {"fail": True}}})
        self.assertEqual(error["reason"], "exception")
        self.assertEqual(self.error(client, "step", {"episode": "a", "text": "x"})["reason"], "unknown_episode")
        for _ in range(2):
            self.assertEqual(client.request("close", {"episode": "a"}), {})
        self.reset(client, "a", task="again")
        self.assertEqual(self.error(client, "reset", {"episode": "a"})["reason"], "bad_params")
        self.reset(client, "b", task="left open")
        self.assertEqual(client.close(), 0)
        self.assertEqual(sorted(self.read_log()), ["again closed", "failed closed", "left open closed"])

    def test_the_process_ends_with_its_input_even_when_user_code_hangs(self):
        client = self.world("World", "stuck")
        client.send("call", {"tool": "stuck", "arguments": {}})
        wait_for(self.read_log)
        self.assertEqual(client.close(), 0)

    def test_the_process_ends_with_its_input_even_when_nobody_reads_its_answers(self):
        # More than a pipe holds: an answer of a worker's, or of the thread that reads.
        for calls, size in ((1, 200_000), (5, 100_000), (40, 20_000)):
            source = """
                import time

                def long(size: int, wait: float) -> str:
                    "Answers."
                    time.sleep(wait)
                    return "x" * size
            """
            client = self.greet(source, "long")
            for _ in range(0 if calls == 1 else 16):
                client.request("call", {"tool": "long", "arguments": {"size": 1, "wait": 0}})
            for _ in range(calls):
                client.send("call", {"tool": "long", "arguments": {"size": size, "wait": 0.01 if calls == 1 else 0}})
            client.process.stdin.close()
            self.assertEqual(client.process.wait(60), 0)

    def test_a_process_whose_answers_nobody_reads_goes_on_reading(self):
        source = """
            def echo(text: str) -> str:
                "Answers."
                return text
        """
        client = self.greet(source, "echo")
        for _ in range(16):
            client.request("call", {"tool": "echo", "arguments": {"text": "x"}})
        requests = [client.send("call", {"tool": "echo", "arguments": {"text": "x" * 10_000}}) for _ in range(100)]
        for request in requests:
            self.assertEqual(client.wait(request)["content"], "x" * 10_000)

    def test_a_process_that_dies_says_so_by_its_pipe(self):
        client = self.world()
        self.reset(client, "e")
        with self.assertRaises(EOFError):
            self.step(client, "e", "die")
        self.assertEqual(client.close(), 7)

    def test_a_hanging_process_that_is_ended_says_where_it_was(self):
        client = self.world("stuck")
        client.send("call", {"tool": "stuck", "arguments": {}})
        # A busy server may have yet to enter the function; its own word says that it is inside.
        wait_for(self.read_log)
        client.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.process.wait(), -signal.SIGTERM)
        self.assertIn("in stuck", self.stderr_text())

    def test_a_killed_process_leaves_nothing_to_read(self):
        client = self.world()
        client.process.send_signal(signal.SIGKILL)
        with self.assertRaises((EOFError, BrokenPipeError)):
            client.request("ping", {})
        self.assertEqual(client.close(), -signal.SIGKILL)

    def test_ENV_07_a_bad_line_does_not_lose_the_next_good_one(self):
        client = self.world()
        client.write_line(b'{"id":90,"method":"test","params":\n\xff\xfe\n\n[1]\n{"id":"x","method":"ping"}\n')
        client.write_line(b'{"id":91,"method":"ping","params":[]}\r\n{"id":92,"method":"ping"}\r\n')
        reasons = []
        while True:
            message = client.read_message()
            if message["id"] == 92:
                break
            reasons.append(message["error"]["reason"])
        self.assertEqual(reasons, ["bad_json", "bad_json", "bad_request", "bad_request", "bad_params"])

    def test_a_line_beyond_the_limit_is_skipped(self):
        client = self.world()
        client.write_line(
            b'{"id":90,"method":"ping","params":{"x":"' + b"x" * (17 << 20) + b'"}}\n{"id":91,"method":"ping"}\n'
        )
        error = client.read_message()
        self.assertEqual((error["id"], error["error"]["reason"]), (None, "too_large"))
        self.assertEqual(client.read_message()["id"], 91)

    def test_episodes_are_limited(self):
        client = self.greet(WORLD, "World", options=["--episodes", "2"])
        for name in ("a", "b"):
            self.reset(client, name)
        error = self.error(client, "reset", {"episode": "c"})
        self.assertEqual((error["class"], error["reason"]), ("infrastructure", "overloaded"))
        client.request("close", {"episode": "a"})
        self.reset(client, "c")


class StartTest(ServedTest):
    def test_versions_are_agreed_on_or_the_process_ends(self):
        client = self.serve("def add(a: int) -> int:\n    'Add.'\n    return a", "add")
        error = self.error(client, "hello", {"protocol": {"min": 2, "max": 3}})
        self.assertEqual((error["class"], error["reason"]), ("protocol", "version"))
        self.assertIn("version 1", error["message"])
        self.assertEqual(client.process.wait(), 1)

    def test_code_that_cannot_be_loaded_is_said_in_answer_to_hello(self):
        for source, name, words in [
            ("import nowhere_at_all", "x", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
            ("def x(a): 'Doc.'", "x", "DefinitionError: 'served:x' cannot be served: the tool 'x' has no type hint"),
        ]:
            with self.subTest(source=source):
                client = self.serve(source, name)
                error = self.error(client, "hello", {"protocol": {"min": 1, "max": 1}})
                self.assertEqual((error["class"], error["reason"]), ("infrastructure", "load_failed"))
                self.assertIn(words, error["message"])
                self.assertEqual(client.close(), 1)

    def test_printing_while_loading_is_harmless(self):
        client = self.serve("print('loading')\ndef add(a: int) -> int:\n    'Add.'\n    return a", "add")
        self.assertEqual(client.hello()["tools"], ["add"])
        self.assertEqual(client.close(), 0)
        self.assertIn("loading", self.stderr_text())


class ReadmeTest(unittest.TestCase):
    def test_answers_have_no_spaces_so_that_they_are_short(self):
        from stoker_env import protocol

        self.assertEqual(protocol.encode({"a": [1, "ü"]}), '{"a":[1,"ü"]}\n'.encode())
        self.assertEqual(protocol.cut("aü", 2), "a")
        self.assertEqual(protocol.cut("üa", 2, keep_end=True), "a")
        with self.assertRaises(ValueError):
            protocol.encode({"a": float("inf")})
        self.assertEqual(json.loads(protocol.encode({"a": "\ud800"})), {"a": "?"})


if __name__ == "__main__":
    unittest.main()
