"""The pipes to Stoker, kept out of user code's reach."""

import collections
import os
import sys
import threading
import time
from typing import Deque, Optional, Tuple

from . import protocol


def take_pipes() -> Tuple[int, int]:
    """Takes standard input and output for the protocol: descriptors to read and to write.

    Descriptor 1 then is standard error, for Python, C extensions and children alike, and descriptor 0 is empty. Children
    do not inherit what is returned.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)

    def close_in_child() -> None:
        os.close(source)
        os.close(sink)

    os.register_at_fork(after_in_child=close_in_child)
    return source, sink


class LineReader:
    """Lines from a descriptor, at most `limit` bytes each."""

    def __init__(self, source: int, limit: int = protocol.LINE_BYTES) -> None:
        self._source = source
        self._limit = limit
        self._lines: Deque[bytes] = collections.deque()  # whole ones, without their line feeds
        self._rest = bytearray()  # of a line whose end has not come
        self._skipping = False  # the next line is the end of one that was too long
        self.ended = False

    def fileno(self) -> int:
        return self._source

    def next_line(self) -> Optional[bytes]:
        """A line that is here already, without its line feed; None when more must be read.

        In place of a line that is too long comes a WireError, once.
        """
        while self._lines:
            line = self._lines.popleft()
            if self._skipping:
                self._skipping = False
            elif len(line) >= self._limit:
                raise self._too_large()
            elif line and not line.isspace():
                return line
        if len(self._rest) >= self._limit:
            self._rest.clear()
            if not self._skipping:
                self._skipping = True
                raise self._too_large()
        return None

    def read(self) -> None:
        """Reads what is there, waiting for the first byte."""
        data = os.read(self._source, 1 << 16)
        self.ended = not data
        first, *others = data.split(b"\n")
        self._rest += first
        if others:
            self._lines.append(bytes(self._rest))
            self._lines.extend(others[:-1])
            self._rest = bytearray(others[-1])

    def _too_large(self) -> protocol.WireError:
        return protocol.protocol_error("too_large", "A line is longer than %d bytes." % self._limit)


class LineWriter:
    """Whole lines to a descriptor, from any thread. After `close`, as when the reader is gone, lines are dropped.

    One thread at a time writes what has come by then; whoever comes meanwhile leaves its line to a thread of the writer's
    own, and waits only when very much is left already. So a reader that does not read holds up one thread, and `close` none.
    """

    _COLLECTED_SECONDS = 0.001
    _MOST_BYTES = 1 << 20  # of lines that are left to another thread

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._lock = threading.RLock()  # guards all that follows
        self._room = threading.Condition(self._lock)  # told when lines were taken or writing ended
        self._work = threading.Condition(self._lock)  # told when lines are left to the own thread, and nothing else
        self._lines = bytearray()
        self._since = 0.0  # when the first of them came
        self._collector: Optional[int] = None  # the thread whose lines wait for each other
        self._writing = False
        self._own: Optional[threading.Thread] = None  # started by the first lines that are left to it
        self._left = False  # to the own thread, which then is the one that writes
        self.broken = False

    def write(self, line: bytes) -> None:
        with self._lock:
            collects = self._collector == threading.get_ident()
            while not collects and self._writing and len(self._lines) > self._MOST_BYTES and not self.broken:
                self._room.wait()
            if self.broken:
                return
            if not self._lines:
                self._since = time.monotonic()
            self._lines += line
        if not collects:
            self.flush()

    def collect(self) -> None:
        """From here on the lines of the calling thread, and of no other, wait for `flush` or for those of another thread.

        So an answer to many short requests costs one system call, and the calling thread is never held up in `write`.
        """
        with self._lock:
            self._collector = threading.get_ident()

    @property
    def has_lines(self) -> bool:
        """Whether lines wait that no thread is writing."""
        return bool(self._lines) and not self._writing and not self.broken

    @property
    def is_overdue(self) -> bool:
        """Whether they have waited as long as they should."""
        return self.has_lines and time.monotonic() - self._since >= self._COLLECTED_SECONDS

    def flush(self) -> None:
        """Writes what waits, unless another thread does so already."""
        with self._lock:
            if self._writing:
                return
            self._writing = True
        try:
            self._write_lines()
        except BaseException:
            self._end_writing()
            raise
        with self._lock:
            if not self._lines or self.broken:
                self._end_writing()
                return
            # More came meanwhile, and the calling thread has other work.
            self._left = True
            self._work.notify()
            if self._own is None:
                self._own = threading.Thread(target=self._write_what_is_left, name="writer", daemon=True)
                self._own.start()

    def close(self, grace_seconds: float = 0) -> None:
        """Drops what is to come, and what still waits after that time."""
        with self._lock:
            self._room.wait_for(lambda: self.broken or not self._lines and not self._writing, grace_seconds)
            self.broken = True
            self._room.notify_all()

    def _write_what_is_left(self) -> None:
        while True:
            with self._lock:
                self._work.wait_for(lambda: self._left)
                if not self._lines or self.broken:
                    self._left = False
                    self._end_writing()
                    continue
            self._write_lines()

    def _end_writing(self) -> None:
        with self._lock:
            self._writing = False
            self._room.notify_all()

    def _write_lines(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, bytearray()
            self._room.notify_all()
        view = memoryview(lines)
        try:
            while view and not self.broken:
                view = view[os.write(self._sink, view) :]
        except OSError:
            self.close()
