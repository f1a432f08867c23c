"""The other side of the protocol, for `try` and for tests: one request at a time, or several sent before they are read."""

import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from . import protocol


class RequestError(Exception):
    """An answer that is an error; its JSON is `error`."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__("%s.%s: %s" % (error.get("class"), error.get("reason"), error.get("message")))
        self.error = dict(error)


class Client:
    """Starts `python -m stoker_env serve NAMES` and talks to it. Close it, or use it in a `with`."""

    def __init__(
        self,
        names: Sequence[str],
        environment: Optional[Mapping[str, str]] = None,
        folder: Optional[str] = None,
        stderr: Any = None,
        on_line: Callable[[str, str], None] = lambda direction, line: None,
        options: Sequence[str] = (),
    ) -> None:
        variables = dict(os.environ if environment is None else environment)
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        variables["PYTHONPATH"] = os.pathsep.join(p for p in (package, variables.get("PYTHONPATH")) if p)
        self._on_line = on_line
        self._next = 1
        self.logs: List[Dict[str, Any]] = []
        self._answers: Dict[int, Dict[str, Any]] = {}
        command = [sys.executable, "-m", "stoker_env", "serve", *options, *names]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=variables, cwd=folder
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def hello(self) -> Dict[str, Any]:
        params = {
            "protocol": {"min": protocol.PROTOCOL, "max": protocol.PROTOCOL},
            "client": {"name": "stoker-env", "version": protocol.VERSION},
            "limits": {"line_bytes": protocol.LINE_BYTES},
        }
        return self.request("hello", params)

    def request(
        self, method: str, params: Mapping[str, Any], timeout_seconds: Optional[float] = None
    ) -> Dict[str, Any]:
        """The result; RequestError for an error, EOFError when the process ended."""
        return self.wait(self.send(method, params, timeout_seconds))

    def send(self, method: str, params: Mapping[str, Any], timeout_seconds: Optional[float] = None) -> int:
        request = self._next
        self._next += 1
        message: Dict[str, Any] = {"id": request, "method": method}
        if timeout_seconds is not None:
            message["timeout_seconds"] = timeout_seconds
        message["params"] = params
        self.write_line(protocol.encode(message))
        return request

    def cancel(self, request: int) -> None:
        self.write_line(protocol.encode({"method": "cancel", "params": {"id": request}}))

    def wait(self, request: int) -> Dict[str, Any]:
        while request not in self._answers:
            message = self.read_message()
            if message.get("method") == "log":
                self.logs.append(message["params"])
            elif isinstance(message.get("id"), int):
                self._answers[message["id"]] = message
        answer = self._answers.pop(request)
        if "error" in answer:
            raise RequestError(answer["error"])
        result: Dict[str, Any] = answer["result"]
        return result

    def write_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self._on_line(">", line.decode("utf-8", "replace").rstrip("\n"))
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("the process has ended")
        text = line.decode().rstrip("\n")
        self._on_line("<", text)
        return text

    def read_message(self) -> Dict[str, Any]:
        message = json.loads(self.read_line())
        if not isinstance(message, dict):
            raise ValueError("an answer is no object")
        return message

    def close(self, timeout: Optional[float] = 10.0) -> int:
        """Ends the process by closing its input; its exit status. It is killed when it does not end (None: never)."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status
