"""Where user code runs: threads for what is synchronous, one event loop for what is async; and how quick it is."""

import asyncio
import collections
import contextvars
import queue
import threading
from typing import Any, Callable, Coroutine, Deque, List, Optional

Thunk = Callable[[], None]


class Pace:
    """Whether a function is quick, as its last calls tell. A slow one among many counts for little: the machine may have
    been busy, or another thread with the interpreter.

    The thread that reads makes one call at a time itself, between `enter` and `leave`: while that lasts, so long that
    another thread reads on, the function counts as slow.
    """

    QUICK_SECONDS = 0.001
    _QUICK = 8
    _MOST = 16

    def __init__(self) -> None:
        self._calls = 0  # quick ones; a slow one takes eight of them back
        self._entered = False

    @property
    def is_quick(self) -> bool:
        return self._calls >= self._QUICK and not self._entered

    def enter(self) -> None:
        self._entered = True

    def leave(self) -> None:
        self._entered = False

    def took(self, seconds: float) -> None:
        calls = self._calls + 1 if seconds < self.QUICK_SECONDS else self._calls - self._QUICK
        self._calls = min(max(calls, 0), self._MOST)


class Worker:
    """A thread that runs what it is given, one after another."""

    def __init__(self, number: int) -> None:
        self._work: "queue.SimpleQueue[Optional[Thunk]]" = queue.SimpleQueue()
        # A daemon: a thread that hangs must not keep the process.
        self._thread = threading.Thread(target=self._run, name="worker-%d" % number, daemon=True)
        self._thread.start()

    def put(self, thunk: Thunk) -> None:
        self._work.put(thunk)

    def _run(self) -> None:
        while True:
            thunk = self._work.get()
            if thunk is None:
                return
            thunk()


class Workers:
    """Lends workers, at most `limit`. An episode keeps its worker, so that its object stays on one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._made = 0
        self._free: List[Worker] = []
        self._waiting: Deque[Callable[[Worker], None]] = collections.deque()
        self._lock = threading.Lock()

    def lend(self, then: Callable[[Worker], None]) -> None:
        """Calls `then` with a worker, at once or, when all are lent, after one was given back."""
        with self._lock:
            if self._free:
                worker = self._free.pop()
            elif self._made < self._limit:
                self._made += 1
                worker = Worker(self._made)
            else:
                self._waiting.append(then)
                return
        then(worker)

    def give_back(self, worker: Worker) -> None:
        with self._lock:
            if not self._waiting:
                self._free.append(worker)
                return
            then = self._waiting.popleft()
        then(worker)


class Loop:
    """The event loop of async user code, on a thread of its own; started by the first use."""

    def __init__(self) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._lock = threading.Lock()

    def start(
        self, coroutine: Callable[[], Coroutine[Any, Any, None]], started: Callable[["asyncio.Task[None]"], None]
    ) -> None:
        """Runs a coroutine in the context of the caller; `started` is given its task, on the loop's thread."""
        loop = self._running()
        context = contextvars.copy_context()

        def begin() -> None:
            # The task copies the context that is current here.
            started(context.run(loop.create_task, coroutine()))

        loop.call_soon_threadsafe(begin)

    def cancel(self, task: "asyncio.Task[None]") -> None:
        """Cancels a task after what is scheduled now, its first step included."""
        self._running().call_soon_threadsafe(task.cancel)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=self._loop.run_forever, name="async", daemon=True)
                thread.start()
            return self._loop
