"""`python -m stoker_env try`: talk to what a module serves by hand, or from lines on standard input."""

import json
import sys
from typing import Any, Callable, Dict, Iterable, List, Sequence

from .client import Client, RequestError

HELP = """\
A line is the policy's turn. Lines that begin with "/" are commands:
  /reset [JSON]         begin an episode with a row, such as /reset {"number": 8}
  /seed NUMBER          the seed of the next /reset (0)
  /env NAME             the environment of the next /reset
  /tools                the tools, as the model sees them
  /call NAME [JSON]     call a tool
  /user TEXT            add a message of the user, for rewards without an environment
  /row JSON             the row, for rewards without an environment
  /score [NAME]         score the conversation; without a name by all rewards
  /messages             the conversation so far
  /close                end the episode
  /help                 this
  /quit"""


class Conversation:
    """The state of a session: one episode at a time, and its messages."""

    def __init__(self, client: Client, hello: Dict[str, Any]) -> None:
        self._client = client
        self._environments: List[Dict[str, Any]] = hello["environments"]
        self._rewards: List[str] = [reward["name"] for reward in hello["rewards"]]
        self._environment = self._environments[0]["name"] if self._environments else None
        self._count = 0
        self._open = False
        self._turn = 0
        self._seed = 0
        self._row: Dict[str, Any] = {}
        self._messages: List[Dict[str, Any]] = []
        self._prompt_messages = 0
        self.failed = False

    def take(self, line: str) -> bool:
        """One line of input; False at the end."""
        verb, _, rest = line.partition(" ")
        rest = rest.strip()
        commands: Dict[str, Callable[[str], None]] = {
            "/reset": self._reset, "/seed": self._set_seed, "/env": self._set_environment, "/tools": self._tools,
            "/call": self._call, "/user": self._user, "/row": self._set_row, "/score": self._score,
            "/messages": self._list_messages, "/close": self._close, "/help": lambda _: print(HELP),
        }  # fmt: skip
        if verb == "/quit":
            return False
        try:
            if verb in commands:
                commands[verb](rest)
            elif verb.startswith("/"):
                raise ValueError("there is no command %s; /help lists them" % verb)
            else:
                self._say(line)
        except RequestError as error:
            self.failed = True
            print("! %s" % error)
            if error.error.get("traceback"):
                print(error.error["traceback"].rstrip())
        except ValueError as error:
            self.failed = True
            print("! %s" % error)
        return True

    @property
    def _episode(self) -> str:
        return "try.%d" % self._count

    def _task(self) -> Dict[str, Any]:
        return {"id": "try", "fields": self._row}

    def _reset(self, rest: str) -> None:
        if self._environment is None:
            raise ValueError("no environment is served; /user begins a conversation")
        if self._open:
            self._close("")
        self._row = _object(rest) if rest else self._row
        self._count += 1
        params = {"episode": self._episode, "environment": self._environment, "task": self._task(), "seed": self._seed}
        self._open = True
        self._turn = 0
        result = self._client.request("reset", params)
        self._messages = list(result["messages"])
        self._prompt_messages = len(self._messages)
        _show(self._messages)
        self._note_end(result)

    def _say(self, text: str) -> None:
        self._messages.append({"role": "assistant", "content": text})
        if not self._open:
            return
        result = self._client.request("step", {"episode": self._episode, "turn": self._turn, "text": text})
        self._turn += 1
        self._messages += result["messages"]
        _show(result["messages"])
        self._note_end(result)

    def _note_end(self, result: Dict[str, Any]) -> None:
        if result.get("done"):
            print("(done%s)" % (", cut by a limit" if result.get("truncated") else ""))
            for environment in self._environments:
                if environment["name"] == self._environment and environment["scored"]:
                    self._score(environment["name"])

    def _tools(self, rest: str) -> None:
        tools = self._client.request("tools", {})["tools"]
        for environment in self._environments:
            tools += self._client.request("tools", {"environment": environment["name"]})["tools"]
        for tool in tools:
            print(json.dumps(tool["function"], ensure_ascii=False, indent=2))

    def _call(self, rest: str) -> None:
        name, _, arguments = rest.partition(" ")
        params: Dict[str, Any] = {"tool": name, "arguments": _object(arguments) if arguments.strip() else {}}
        if self._open:
            params["episode"] = self._episode
        result = self._client.request("call", params)
        print(result["content"])

    def _user(self, rest: str) -> None:
        self._messages.append({"role": "user", "content": rest})

    def _set_row(self, rest: str) -> None:
        self._row = _object(rest)

    def _set_seed(self, rest: str) -> None:
        self._seed = int(rest)

    def _set_environment(self, rest: str) -> None:
        if rest not in [environment["name"] for environment in self._environments]:
            raise ValueError("there is no environment %s" % rest)
        self._environment = rest

    def _score(self, rest: str) -> None:
        names = [rest] if rest else list(self._rewards)
        if not rest and self._open:
            names += [e["name"] for e in self._environments if e["scored"] and e["name"] == self._environment]
        if not names:
            raise ValueError("nothing is served that scores")
        for name in names:
            params: Dict[str, Any] = {"reward": name, "task": self._task(), "messages": self._messages}
            if self._open:
                params.update(episode=self._episode, prompt_messages=self._prompt_messages)
            result = self._client.request("score", params)
            print("%s: %s" % (name, json.dumps(result, ensure_ascii=False)))

    def _list_messages(self, rest: str) -> None:
        _show(self._messages)

    def _close(self, rest: str) -> None:
        if self._open:
            self._open = False
            self._client.request("close", {"episode": self._episode})


def _object(text: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError("that is no JSON: %s" % error) from None
    if not isinstance(value, dict):
        raise ValueError("a JSON object was expected")
    return value


def _show(messages: Iterable[Dict[str, Any]]) -> None:
    for message in messages:
        content = message["content"]
        print("[%s] %s" % (message["role"], content if isinstance(content, str) else json.dumps(content)))


def run(names: Sequence[str], verbose: bool) -> int:
    """The exit status: 1 when the process could not be started or a request failed."""
    interactive = sys.stdin.isatty()

    def show_line(direction: str, line: str) -> None:
        if verbose:
            print("%s %s" % (direction, line))

    with Client(names, on_line=show_line) as client:
        try:
            hello = client.hello()
        except (RequestError, EOFError) as error:
            print("! %s" % error)
            return 1
        served = [e["name"] for e in hello["environments"]] + hello["tools"] + [r["name"] for r in hello["rewards"]]
        print("serves %s" % ", ".join(served))
        if interactive:
            print(HELP)
        conversation = Conversation(client, hello)
        try:
            while True:
                line = input("> ") if interactive else sys.stdin.readline()
                if not interactive and not line:
                    break
                if line.strip() and not conversation.take(line.strip("\n")):
                    break
        except (EOFError, KeyboardInterrupt):
            print()
    return 1 if conversation.failed and not interactive else 0
