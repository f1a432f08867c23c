"""A process that serves definitions over the protocol of docs/protocol.md."""

import atexit
import os
import select
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, Mapping, Optional, Set

from . import protocol
from .context import Context
from .handlers import Handlers
from .jobs import CLASS_OF, EpisodeState, Job
from .loading import Catalogue
from .output import LineReader, LineWriter
from .protocol import WireError, protocol_error
from .reading import Reading
from .workers import Loop, Workers

END_SECONDS = 5.0
WRITE_SECONDS = 0.1


class Server:
    """Reads requests on a thread that runs user code only while that is quick, so that `ping` is answered whatever hangs."""

    def __init__(self, reader: LineReader, writer: LineWriter, catalogue: Catalogue, episodes: int = 1024) -> None:
        self._reader = reader
        self._writer = writer
        self.catalogue = catalogue
        self.limit = episodes
        self._line_bytes = protocol.LINE_BYTES
        self._greeted = False
        self.lock = threading.RLock()
        self.episodes: Dict[str, EpisodeState] = {}
        self._jobs: Dict[Any, Job] = {}  # unanswered, by request id
        self._timed: Set[Job] = set()  # those with a deadline; `close` has none, for it is never given up
        self._busy = 0
        self._stuck = 0
        self.workers = Workers(episodes + 64)
        self.loop = Loop()
        self._handlers = Handlers(self)
        self._reading = Reading(self._read)
        self._status = 0

    def run(self) -> int:
        """Serves until the input ends, the caller is gone, or no version fits. The exit status."""
        try:
            self._reading.watch()
        finally:
            self._end()
        return self._status

    def _read(self, turn: int) -> None:
        status = 0
        self._writer.collect()
        try:
            # The status may be that of a reader before, which was held up as it wrote its last words.
            while status == 0 and self._status == 0 and not self._reader.ended and not self._writer.broken:
                status = self._read_one()
                if not self._reading.holds(turn):
                    return
        except BaseException:
            traceback.print_exc()
            status = 1
        self._status = status or self._status
        # Watched as all writing of this thread: a pipe that is full must not hold up the end.
        self._reading.work(self._writer.flush)
        if self._reading.holds(turn):
            self._reading.end()

    def _read_one(self) -> int:
        if self._writer.is_overdue:
            self._reading.work(self._writer.flush)
            return 0
        try:
            line = self._reader.next_line()
        except WireError as error:
            self._answer_error(None, error)
            return 0
        if line is not None:
            return self._take(line)
        self._wait_for_input()
        return 0

    def _wait_for_input(self) -> None:
        if self._writer.has_lines and not self._reading.work(self._writer.flush):
            return
        timeout = self._expire()
        if self._writer.has_lines:  # of what is past its deadline
            return
        if timeout is None or select.select([self._reader], [], [], timeout)[0]:
            self._reader.read()

    def _take(self, line: bytes) -> int:
        request = None
        try:
            message = protocol.decode(line)
            if not isinstance(message, dict) or not isinstance(message.get("method"), str):
                raise protocol_error("bad_request", "A request is an object with 'id' and 'method'.")
            method, params = message["method"], message.get("params")
            params = {} if params is None else params
            if "id" not in message and method == "cancel":
                self._cancel(params)
                return 0
            request = _request_id(message.get("id"))
            if not isinstance(params, dict):
                raise protocol_error("bad_params", "'params' must be an object.")
            if not self._greeted and method != "hello":
                raise protocol_error("not_greeted", "The first request must be 'hello'.")
            self._dispatch(request, method, params, message.get("timeout_seconds"))
        except WireError as error:
            self._answer_error(request, error)
            return 1 if error.error_class == "protocol" and error.reason == "version" else 0
        except Exception as error:  # a request that none of the checks foresaw must not end the others
            traceback.print_exc()
            self._answer_error(request, protocol_error("bad_request", "%s: %s" % (type(error).__name__, error)))
        return 0

    def _dispatch(self, request: int, method: str, params: Mapping[str, Any], timeout: Any) -> None:
        if method == "hello":
            self._answer(request, self._hello(params))
        elif method == "ping":
            with self.lock:
                counts = {"episodes": len(self.episodes), "busy": self._busy, "stuck": self._stuck}
            self._answer(request, counts)
        elif method == "tools":
            self._answer(request, {"tools": self._handlers.tools(params)})
        elif method in CLASS_OF:
            episode = _name_or_none(params)
            job = Job(request, method, Context(episode, _deadline(timeout), self._log_for(episode)))
            with self.lock:
                if request in self._jobs:
                    raise protocol_error("bad_request", "The id %d is in use." % request)
                self._jobs[request] = job
                if job.context.deadline is not None and method != "close":
                    self._timed.add(job)
                try:
                    self._handlers.prepare(job, params)
                except BaseException:
                    del self._jobs[request]
                    self._timed.discard(job)
                    raise
                self._begin(job)
            if job.is_quick:  # without the lock, for it is user code
                self._reading.work(job.start)
        else:
            raise protocol_error("unknown_method", "There is no method '%s'." % protocol.cut(method, 100))

    def _hello(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        if self._greeted:
            raise protocol_error("bad_request", "'hello' comes once.")
        versions = params.get("protocol")
        if not isinstance(versions, dict) or not all(isinstance(versions.get(k), int) for k in ("min", "max")):
            raise protocol_error("bad_params", "'protocol' must have 'min' and 'max'.")
        if not versions["min"] <= protocol.PROTOCOL <= versions["max"]:
            raise protocol_error(
                "version",
                "stoker-env %s speaks version %d of the protocol, the caller %d to %d."
                % (protocol.VERSION, protocol.PROTOCOL, versions["min"], versions["max"]),
            )
        limits = params.get("limits")
        if isinstance(limits, dict) and isinstance(limits.get("line_bytes"), int):
            self._line_bytes = max(protocol.LEAST_LINE_BYTES, limits["line_bytes"])
        self._greeted = True
        catalogue = self.catalogue
        return {
            "protocol": protocol.PROTOCOL,
            "server": {"name": "stoker-env", "version": protocol.VERSION},
            "environments": [
                {"name": e.name, "description": e.description, "snapshot": e.snapshot, "scored": e.scored}
                for e in catalogue.environments.values()
            ],
            "tools": list(catalogue.tools),
            "rewards": [{"name": r.name, "description": r.description} for r in catalogue.rewards.values()],
            "limits": {"line_bytes": protocol.LINE_BYTES, "episodes": self.limit},
        }

    # Jobs. The lock is held in all of these.

    def _begin(self, job: Job) -> None:
        self._busy += 1
        if job.episode is None:
            job.running = True
            if not job.is_quick:
                job.start()
        else:
            self._pump(job.episode)

    def _pump(self, episode: EpisodeState) -> None:
        job = episode.next_job()
        while job is not None:
            job.start()
            job = episode.next_job()

    def finish(self, job: Job, result: Optional[Dict[str, Any]], error: Optional[WireError]) -> None:
        """The work of a job is over; answers it, unless it was given up, and lets the next of its episode begin."""
        with self.lock:
            if job.answered:
                self._stuck -= 1
            else:
                self._busy -= 1
            was_answered, job.answered = job.answered, True
            self._jobs.pop(job.request, None)
            self._timed.discard(job)
            if job.episode is not None:
                job.episode.done(job)
            job.start = _nothing  # which refers to the job: without the circle it is freed at once, not by the collector
        if not was_answered and job.request is not None:
            if error is not None:
                self._answer_error(job.request, error)
            else:
                self._answer(job.request, result or {}, CLASS_OF[job.method])
        if job.episode is not None:
            with self.lock:
                self._pump(job.episode)

    def _cancel(self, params: Any) -> None:
        if not isinstance(params, dict):
            return
        with self.lock:
            job = self._jobs.get(params.get("id")) if isinstance(params.get("id"), int) else None
            if job is not None and job.method != "close":
                self._give_up(job, WireError("cancelled", "cancelled", "The request was cancelled."))

    def _expire(self) -> Optional[float]:
        """Gives up what is past its deadline; seconds to the next deadline, None without one."""
        with self.lock:
            for job in [job for job in self._timed if job.expired]:
                message = "The request took longer than it was given."
                self._give_up(job, WireError(CLASS_OF[job.method], "timeout", message))
            deadlines = [job.context.deadline for job in self._timed if job.context.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _give_up(self, job: Job, error: WireError) -> None:
        job.answered = True
        self._busy -= 1
        self._jobs.pop(job.request, None)
        self._timed.discard(job)
        job.context.cancelled = True
        if job.running:
            self._stuck += 1
            if job.task is not None:
                self.loop.cancel(job.task)
        elif job.episode is not None:
            job.episode.drop(job)
            self._handlers.dropped(job)
        self._answer_error(job.request, error)

    # Answers. From any thread.

    def _answer(self, request: Any, result: Dict[str, Any], failure_class: str = "infrastructure") -> None:
        try:
            line = protocol.encode({"id": request, "result": result})
        except (TypeError, ValueError) as error:
            self._answer_error(
                request, WireError(failure_class, "bad_result", "The result has no JSON form: %s." % error)
            )
            return
        if len(line) > self._line_bytes:
            message = "The answer has %d bytes; a line may have %d." % (len(line), self._line_bytes)
            self._answer_error(request, WireError(failure_class, "too_large", message))
            return
        self._writer.write(line)

    def _answer_error(self, request: Any, error: WireError) -> None:
        self._writer.write(protocol.encode({"id": request, "error": error.to_json()}))

    def _log_for(self, episode: Optional[str]) -> Callable[[str, str], None]:
        def log(level: str, message: str) -> None:
            line = {"level": level, "message": protocol.cut(message, protocol.TRACEBACK_BYTES)}
            if episode is not None:
                line["episode"] = episode
            self._writer.write(protocol.encode({"method": "log", "params": line}))

        return log

    # The end.

    def _end(self) -> None:
        # Nobody waits for answers; a pipe that is full must not hold up the end.
        self._writer.close(WRITE_SECONDS)
        with self.lock:
            for job in [j for j in self._jobs.values() if j.method != "close"]:
                self._give_up(job, WireError("cancelled", "cancelled", "The input has ended."))
            for episode in list(self.episodes.values()):
                if not episode.closing:
                    job = Job(None, "close", Context(episode.name, None, lambda level, message: None))
                    self._handlers.prepare_close(job, episode)
                    self._begin(job)
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            with self.lock:
                if not self.episodes:
                    return
            time.sleep(0.01)
        print(
            "stoker-env: %d episodes could not be closed in %g s" % (len(self.episodes), END_SECONDS), file=sys.stderr
        )


def leave(status: int) -> None:
    """Ends the process without waiting for threads that hang."""
    run_exit_functions = getattr(atexit, "_run_exitfuncs", None)
    if run_exit_functions is not None:
        run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def refuse(reader: LineReader, writer: LineWriter, error: BaseException) -> int:
    """Answers `hello` with why user code could not be loaded. The exit status."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    failure = WireError("infrastructure", "load_failed", "%s: %s" % (type(error).__name__, error), text)
    print(text, file=sys.stderr)
    while not reader.ended:
        try:
            line = reader.next_line()
            if line is None:
                reader.read()
                continue
            message = protocol.decode(line)
            request = _request_id(message.get("id")) if isinstance(message, dict) else None
        except WireError:
            continue
        writer.write(protocol.encode({"id": request, "error": failure.to_json()}))
        break
    return 1


def _nothing() -> None:
    pass


def _request_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= protocol.LARGEST_INTEGER:
        raise protocol_error("bad_request", "'id' must be an integer from 1 to 2^53 - 1.")
    return value


def _deadline(timeout: Any) -> Optional[float]:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise protocol_error("bad_request", "'timeout_seconds' must be a number above 0.")
    return time.monotonic() + min(float(timeout), 1e9)


def _name_or_none(params: Mapping[str, Any]) -> Optional[str]:
    name = params.get("episode")
    return name if protocol.is_episode_name(name) else None
