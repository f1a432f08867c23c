"""Which thread reads requests, so that quick work needs no other thread and slow work keeps nobody waiting."""

import threading
from typing import Callable, Optional

TICK_SECONDS = 0.05
_IDLE_TICKS = 50


class Reading:
    """One thread at a time reads; it may do quick work itself, which saves two switches of threads a request.

    The thread that calls `watch` looks on: where such work is still not done after a tick or two, another thread reads
    on, and the first one ends after its work.
    """

    def __init__(self, read: Callable[[int], None]) -> None:
        """`read` is run on threads of its own, with the number of its turn; it returns once `holds` says no."""
        self._read = read
        self._lock = threading.Lock()
        self._turn = 0
        self._work: Optional[Callable[[], None]] = None  # what the reading thread does itself
        self._done = 0
        self._asleep = False
        self._ended = False
        self._wake = threading.Event()

    def watch(self) -> None:
        """Starts to read; returns after `end`."""
        self._lend(self._turn)
        seen: Optional[Callable[[], None]] = None
        done, idle = 0, 0
        while not self._ended:
            if idle < _IDLE_TICKS:
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()  # of work that began just as this thread awoke
            else:
                self._sleep()
            idle = 0 if self._work is not None or self._done != done else idle + 1
            done = self._done
            with self._lock:
                is_long = self._work is not None and self._work is seen
                if is_long:
                    self._turn += 1
                    self._work = None
                seen, turn = self._work, self._turn
            if is_long:
                self._lend(turn)

    def holds(self, turn: int) -> bool:
        return self._turn == turn and not self._ended

    def work(self, work: Callable[[], None]) -> bool:
        """Does work on the reading thread, and says whether it still is that."""
        turn = self._turn
        self._work = work
        if self._asleep:
            self._wake.set()
        try:
            work()
        finally:
            with self._lock:
                holds = self._turn == turn
                if holds:
                    self._work = None
                    self._done += 1
        return holds

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def _sleep(self) -> None:
        """Until there is work to watch."""
        self._wake.clear()
        self._asleep = True
        if self._work is None and not self._ended:
            self._wake.wait()
        self._asleep = False
        self._wake.clear()

    def _lend(self, turn: int) -> None:
        threading.Thread(target=self._read, args=(turn,), name="reader-%d" % turn, daemon=True).start()
