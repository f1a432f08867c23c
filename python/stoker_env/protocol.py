"""The wire: constants, failures and JSON of the protocol (docs/protocol.md)."""

import json
import re
from typing import Any, Dict, Optional

VERSION = "0.1.0"
PROTOCOL = 1
LINE_BYTES = 16 * 1024 * 1024
LEAST_LINE_BYTES = 64 * 1024
MESSAGE_BYTES = 4096
TRACEBACK_BYTES = 16384
LARGEST_INTEGER = 2**53 - 1
FAILURE_CLASSES = ("policy", "limit", "tool", "environment", "reward", "infrastructure")

_REASON = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_EPISODE = re.compile(r"[!-~]{1,128}\Z")
TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


class Failure(Exception):
    """A failure with a class, as Stoker counts it: raise it where the world, not the policy, went wrong.

    `failure_class` is one of FAILURE_CLASSES, `reason` a word such as "server_away", `message` one sentence.
    """

    def __init__(self, failure_class: str, reason: str, message: str) -> None:
        if failure_class not in FAILURE_CLASSES:
            raise ValueError("%r is no failure class; they are: %s" % (failure_class, ", ".join(FAILURE_CLASSES)))
        if not _REASON.match(reason):
            raise ValueError("the reason %r must be small letters, digits and underscores" % reason)
        super().__init__(message)
        self.failure_class = failure_class
        self.reason = reason
        self.message = message


class WireError(Exception):
    """An answer that is an error; `error_class` may be of the protocol's own as well."""

    def __init__(self, error_class: str, reason: str, message: str, traceback: Optional[str] = None) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.reason = reason
        self.message = message
        self.traceback = traceback

    def to_json(self) -> Dict[str, Any]:
        error = {
            "class": self.error_class,
            "reason": self.reason,
            "message": cut(self.message, MESSAGE_BYTES),
        }
        if self.traceback:
            error["traceback"] = cut(self.traceback, TRACEBACK_BYTES, keep_end=True)
        return error


def protocol_error(reason: str, message: str) -> WireError:
    return WireError("protocol", reason, message)


def is_episode_name(name: object) -> bool:
    return isinstance(name, str) and _EPISODE.match(name) is not None


def cut(text: str, limit: int, keep_end: bool = False) -> str:
    """At most `limit` bytes of UTF-8, cut between two characters."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    kept = data[-limit:] if keep_end else data[:limit]
    return kept.decode("utf-8", "ignore")


def _no_constant(name: str) -> Any:
    raise ValueError("%s is no JSON" % name)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def decode(line: bytes) -> Any:
    """The JSON value of a line; a WireError of reason bad_json for what is none."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise protocol_error("bad_json", "The line is no JSON: %s at character %d." % (error.msg, error.pos + 1))
    except (ValueError, RecursionError) as error:
        raise protocol_error("bad_json", "The line is no JSON: %s." % error)


def encode(message: Dict[str, Any]) -> bytes:
    """One line, its line feed included. Raises ValueError or TypeError for what has no JSON form."""
    return _ENCODER.encode(message).encode("utf-8", "replace") + b"\n"
