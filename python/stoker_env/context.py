"""What user code may ask about the request that it is working on."""

import contextvars
import time
from typing import Callable, Optional


class Context:
    """Of one request. `deadline` is of time.monotonic; `log` sends a log line."""

    def __init__(self, episode: Optional[str], deadline: Optional[float], log: Callable[[str, str], None]) -> None:
        self.episode = episode
        self.deadline = deadline
        self.cancelled = False
        self.log = log


current: "contextvars.ContextVar[Optional[Context]]" = contextvars.ContextVar("stoker_env_context", default=None)


def cancelled() -> bool:
    """Whether nobody waits for this request any longer. Long synchronous work asks now and then, and returns."""
    context = current.get()
    return context is not None and context.cancelled


def remaining_seconds() -> Optional[float]:
    """How long the answer is still wanted, at least 0; None without a limit."""
    context = current.get()
    if context is None or context.deadline is None:
        return None
    return max(0.0, context.deadline - time.monotonic())


def episode_id() -> Optional[str]:
    """The name of the episode that this request belongs to."""
    context = current.get()
    return None if context is None else context.episode


def log(message: str, level: str = "info") -> None:
    """A line for Stoker's log: level debug, info, warning or error. Outside a request it goes to standard error."""
    if level not in ("debug", "info", "warning", "error"):
        raise ValueError("%r is no level; they are: debug, info, warning, error" % level)
    context = current.get()
    if context is None:
        import sys

        print("%s: %s" % (level, message), file=sys.stderr)
    else:
        context.log(level, message)
