"""Requests as jobs, and the order among those of one episode."""

import asyncio
import collections
import time
from typing import Any, Callable, Deque, Dict, Optional, Set

from .context import Context
from .definitions import Environment
from .workers import Worker

JsonObject = Dict[str, Any]

#: The failure class of a method whose work failed.
CLASS_OF = {
    "reset": "environment",
    "step": "environment",
    "close": "environment",
    "snapshot": "environment",
    "restore": "environment",
    "call": "tool",
    "score": "reward",
}


class Job:
    """A request that runs user code. It is answered once; its work may go on after that."""

    def __init__(self, request: Any, method: str, context: Context) -> None:
        self.request = request
        self.method = method
        self.context = context
        self.answered = False
        self.running = False
        #: Runs the work and calls Server.finish; set by who makes the job.
        self.start: Callable[[], None] = lambda: None
        #: `start` does the work itself, and quickly.
        self.is_quick = False
        #: May run beside other jobs of its episode that may.
        self.shares = False
        self.task: "Optional[asyncio.Task[None]]" = None
        self.episode: "Optional[EpisodeState]" = None

    @property
    def expired(self) -> bool:
        return self.context.deadline is not None and time.monotonic() >= self.context.deadline


class EpisodeState:
    """An open episode: its object, its thread, and its requests in order. Guarded by the server's lock."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.name = name
        self.environment = environment
        self.instance: Any = None
        self.tools: Optional[Set[str]] = None  # of this episode; None: all
        self.ready = False  # reset has succeeded
        self.closing = False  # close was asked for
        self.worker: Optional[Worker] = None
        self._queued: Deque[Job] = collections.deque()
        self._running: Set[Job] = set()

    def add(self, job: Job) -> None:
        job.episode = self
        self._queued.append(job)

    def drop(self, job: Job) -> None:
        """Forgets a job that has not begun."""
        if job in self._queued:
            self._queued.remove(job)

    def done(self, job: Job) -> None:
        self._running.discard(job)

    def next_job(self) -> Optional[Job]:
        """The next job that may begin, marked as running; None when it must wait."""
        if not self._queued:
            return None
        head = self._queued[0]
        if self._running and not (head.shares and all(job.shares for job in self._running)):
            return None
        self._queued.popleft()
        self._running.add(head)
        head.running = True
        return head
