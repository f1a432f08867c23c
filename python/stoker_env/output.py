"""The pipes to Stoker, kept out of user code's reach."""

import os
import sys
import threading
import time
from typing import Optional, Tuple

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
        self._rest = bytearray()
        self._scanned = 0
        self._skipping = False
        self.ended = False

    def fileno(self) -> int:
        return self._source

    def next_line(self) -> Optional[bytes]:
        """A line that is here already, without its line feed; None when more must be read.

        In place of a line that is too long comes a WireError, once.
        """
        while True:
            end = self._rest.find(b"\n", self._scanned)
            if end < 0:
                self._scanned = len(self._rest)
                if self._scanned >= self._limit:
                    self._rest.clear()
                    self._scanned = 0
                    if not self._skipping:
                        self._skipping = True
                        raise self._too_large()
                return None
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            self._scanned = 0
            if self._skipping:
                self._skipping = False
                continue
            if end >= self._limit:
                raise self._too_large()
            if line.strip():
                return line

    def read(self) -> None:
        """Reads what is there, waiting for the first byte."""
        data = os.read(self._source, 1 << 16)
        if data:
            self._rest += data
        else:
            self.ended = True

    def _too_large(self) -> protocol.WireError:
        return protocol.protocol_error("too_large", "A line is longer than %d bytes." % self._limit)


class LineWriter:
    """Whole lines to a descriptor, from any thread. With `broken` set, as when the reader is gone, lines are dropped."""

    _COLLECTED_SECONDS = 0.001

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._collected = bytearray()
        self._collector: Optional[int] = None  # the thread whose lines wait for each other
        self._since = 0.0  # when the first of them came
        self.broken = False

    def write(self, line: bytes) -> None:
        with self._lock:
            if self._collector != threading.get_ident():
                self._write(line)
                return
            now = time.monotonic()
            if not self._collected:
                self._since = now
            self._collected += line
            if now - self._since >= self._COLLECTED_SECONDS:
                self._flush()

    def collect(self) -> None:
        """From here on the lines of the calling thread, and of no other, wait for `flush` or a later one of them.

        So an answer to many short requests costs one system call; none waits longer than such requests take.
        """
        with self._lock:
            self._flush()
            self._collector = threading.get_ident()

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._collected:
            lines = bytes(self._collected)
            self._collected.clear()
            self._write(lines)

    def _write(self, lines: bytes) -> None:
        view = memoryview(lines)
        try:
            while view and not self.broken:
                view = view[os.write(self._sink, view) :]
        except OSError:
            self.broken = True
