"""What each request of the protocol does with user code."""

import asyncio
import inspect
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import context, definitions, protocol
from .definitions import BadResult, Environment, MethodTool, Reward, Tool
from .jobs import CLASS_OF, EpisodeState, Job
from .protocol import Failure, WireError, protocol_error
from .schema import ArgumentError, SchemaError, to_json
from .types import Episode, Message, Observation, Task, as_messages
from .workers import Pace, Worker

if TYPE_CHECKING:
    from .server import Server

JsonObject = Dict[str, Any]
#: What a member of the params must be, where it is there and not null.
_PARAMETER_TYPES: Dict[str, Tuple[Any, str]] = {
    "environment": (str, "a string"),
    "task": (dict, "an object"),
    "turn": (int, "an integer"),
    "text": (str, "a string"),
    "content": (str, "a string"),
    "tool_calls": (list, "a list"),
    "tool_results": (list, "a list"),
    "tool": (str, "a string"),
    "arguments": (dict, "an object"),
    "reward": (str, "a string"),
    "messages": (list, "a list"),
    "prompt_messages": (int, "an integer"),
    "outcome": (str, "a string"),
}
_PLAIN = frozenset((type(None), bool, int, float, str, tuple, list, dict))
#: Turns what user code returned into the result of the answer.
Finisher = Callable[[Any], JsonObject]


class Handlers:
    """`prepare` checks the params and gives the job its work; it never runs user code itself."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._prepare: Dict[str, Callable[[Job, Mapping[str, Any]], None]] = {
            "reset": self._prepare_reset,
            "restore": self._prepare_reset,
            "step": self._prepare_step,
            "call": self._prepare_call,
            "score": self._prepare_score,
            "snapshot": self._prepare_snapshot,
            "close": self._prepare_close,
        }

    def prepare(self, job: Job, params: Mapping[str, Any]) -> None:
        """A WireError for params that are wrong."""
        _check_types(params)
        self._prepare[job.method](job, params)

    def tools(self, params: Mapping[str, Any]) -> List[JsonObject]:
        _check_types(params)
        name = params.get("environment")
        if name is None:
            return [tool.schema for tool in self._server.catalogue.tools.values()]
        return [tool.schema for tool in self._environment(name).tools.values()]

    def dropped(self, job: Job) -> None:
        """A queued job was given up before it began."""
        episode = job.episode
        if episode is not None and job.method in ("reset", "restore") and not episode.closing:
            episode.ready = False

    # Each request.

    def _prepare_reset(self, job: Job, params: Mapping[str, Any]) -> None:
        name = params.get("episode")
        if name is None:
            raise protocol_error("bad_params", "'episode' is missing.")
        if name in self._server.episodes:
            raise protocol_error("bad_params", "The episode '%s' is open already." % name)
        environment = self._environment(params.get("environment"))
        restores = job.method == "restore"
        if restores and not environment.snapshot:
            raise protocol_error("bad_params", "The environment '%s' has no snapshots." % environment.name)
        if len(self._server.episodes) >= self._server.limit:
            raise WireError("infrastructure", "overloaded", "%d episodes are open already." % self._server.limit)
        task = _task(params)
        offered = {"task": task, "seed": _seed(params), "episode": name}
        first = [params.get("state")] if restores else []
        episode = EpisodeState(name, environment)
        self._server.episodes[name] = episode

        def work() -> Any:
            episode.instance = environment.factory()
            method = getattr(episode.instance, job.method)
            return definitions.call_with(method, first, offered, task.fields)

        def finish(value: Any) -> JsonObject:
            observation = value if isinstance(value, Observation) else None
            if not restores or observation is not None:
                observation = definitions.observation_of(value, task)
            result: JsonObject = {} if restores else _observed(observation)
            if observation is not None and observation.tools is not None:
                result["tools"] = self._choose_tools(episode, observation.tools)
            episode.ready = True
            return result

        self._in_episode(job, episode, work, finish, environment.methods[job.method])

    def _prepare_step(self, job: Job, params: Mapping[str, Any]) -> None:
        episode = self._open(params)
        action = definitions.action_of(params)
        if not episode.environment.has("step"):  # tools only: words without a call end the episode
            self._in_episode(job, episode, lambda: None, lambda value: _observed(Observation((), done=True)), False)
            return

        def work() -> Any:
            return episode.instance.step(action)

        def finish(value: Any) -> JsonObject:
            return _observed(definitions.observation_of(value))

        self._in_episode(job, episode, work, finish, episode.environment.methods["step"])

    def _prepare_call(self, job: Job, params: Mapping[str, Any]) -> None:
        arguments = params.get("arguments")
        if arguments is None:
            raise protocol_error("bad_params", "'arguments' is missing.")
        episode = self._server.episodes.get(params.get("episode") or "")
        name = params.get("tool")
        known = dict(self._server.catalogue.tools)
        if episode is not None and not episode.closing:
            of_episode = episode.environment.tools
            known.update({n: t for n, t in of_episode.items() if episode.tools is None or n in episode.tools})
        if name not in known:
            if params.get("episode") and episode is None and not self._server.catalogue.tools:
                raise _unknown_episode(params)
            listed = ", ".join(known) or "none"
            raise protocol_error("bad_params", "There is no tool '%s'; the tools are: %s." % (name, listed))
        tool = known[name]
        if isinstance(tool, MethodTool):
            assert episode is not None
            owner = episode

            def method_work() -> Any:
                return getattr(owner.instance, tool.attribute)(**tool.bind(arguments))

            job.shares = tool.is_async
            self._in_episode(job, owner, method_work, _called, tool.is_async)
        else:
            self._alone(job, lambda: tool.function(**tool.bind(arguments)), _called, tool)

    def _prepare_score(self, job: Job, params: Mapping[str, Any]) -> None:
        name = params.get("reward")
        reward = self._server.catalogue.rewards.get(name or "")
        episode_view = _episode(params)
        if reward is not None:
            function = reward.function
            self._alone(job, lambda: function(episode_view), _scored, reward)
            return
        environment = self._server.catalogue.environments.get(name or "")
        if environment is None or not environment.scored:
            known = list(self._server.catalogue.rewards)
            known += [e.name for e in self._server.catalogue.environments.values() if e.scored]
            listed = ", ".join(known) or "none"
            raise protocol_error("bad_params", "There is no reward '%s'; the rewards are: %s." % (name, listed))
        episode = self._open(params)

        def work() -> Any:
            score = episode.instance.score
            return score(episode_view) if definitions.parameters_of(score) else score()

        self._in_episode(job, episode, work, _scored, environment.methods["score"])

    def _prepare_snapshot(self, job: Job, params: Mapping[str, Any]) -> None:
        episode = self._open(params)
        if not episode.environment.snapshot:
            raise protocol_error("bad_params", "The environment '%s' has no snapshots." % episode.environment.name)

        def finish(value: Any) -> JsonObject:
            _check_state(value)
            return {"state": value}

        self._in_episode(
            job, episode, lambda: episode.instance.snapshot(), finish, episode.environment.methods["snapshot"]
        )

    def _prepare_close(self, job: Job, params: Mapping[str, Any]) -> None:
        episode = self._server.episodes.get(params.get("episode") or "")
        if episode is None or episode.closing:
            job.start = lambda: self._server.finish(job, {}, None)
            return
        self.prepare_close(job, episode)

    def prepare_close(self, job: Job, episode: EpisodeState) -> None:
        """The one close of an episode, after all that was asked of it before."""
        episode.closing = True

        def work() -> Any:
            if episode.instance is not None and episode.environment.has("close"):
                return episode.instance.close()
            return None

        is_async = episode.environment.methods.get("close", False)
        self._in_episode(job, episode, work, lambda value: {}, is_async and episode.environment.has("close"))

    # Looking up.

    def _environment(self, name: Any) -> Environment:
        environments = self._server.catalogue.environments
        if name is None and len(environments) == 1:
            return next(iter(environments.values()))
        if not isinstance(name, str) or name not in environments:
            listed = ", ".join(environments) or "none"
            raise protocol_error("bad_params", "There is no environment '%s'; they are: %s." % (name, listed))
        return environments[name]

    def _open(self, params: Mapping[str, Any]) -> EpisodeState:
        name = params.get("episode")
        episode = self._server.episodes.get(name or "")
        if episode is None or episode.closing:
            raise _unknown_episode(params)
        return episode

    def _choose_tools(self, episode: EpisodeState, names: Any) -> List[JsonObject]:
        for name in names:
            if name not in episode.environment.tools:
                raise BadResult("reset offers the tool '%s', which the environment does not have" % name)
        episode.tools = set(names)
        return [episode.environment.tools[name].schema for name in names]

    # Running.

    def _alone(self, job: Job, work: Callable[[], Any], finish: Finisher, function: Union[Tool, Reward]) -> None:
        """Work that belongs to no episode: here when it is quick, else on any worker, or on the loop."""

        if function.is_async:
            job.start = lambda: self._start_async(job, work, finish)
        elif function.pace.is_quick:
            job.is_quick = True
            function.pace.enter()
            job.start = lambda: self._run_alone(job, work, finish, function.pace, function.pace.leave)
        else:
            job.start = lambda: self._server.workers.lend(
                lambda worker: worker.put(
                    lambda: self._run_alone(
                        job, work, finish, function.pace, lambda: self._server.workers.give_back(worker)
                    )
                )
            )

    def _run_alone(
        self, job: Job, work: Callable[[], Any], finish: Finisher, pace: Pace, after: Callable[[], None]
    ) -> None:
        begin = time.perf_counter()

        def over() -> None:
            pace.took(time.perf_counter() - begin)
            after()

        self._run(job, work, finish, over)

    def _in_episode(
        self, job: Job, episode: EpisodeState, work: Callable[[], Any], finish: Finisher, is_async: bool
    ) -> None:
        """Work in its episode's order; what is synchronous on the episode's own thread."""
        needs_ready = job.method not in ("reset", "restore", "close")

        def checked() -> Any:
            if needs_ready and not episode.ready:
                raise WireError("environment", "unknown_episode", "No episode '%s' is open." % episode.name)
            return work()

        def start() -> None:
            if is_async:
                self._start_async(job, checked, finish)
            elif episode.worker is not None:
                episode.worker.put(lambda: self._run(job, checked, finish))
            else:
                self._server.workers.lend(lent)

        def lent(worker: Worker) -> None:
            episode.worker = worker
            worker.put(lambda: self._run(job, checked, finish))

        episode.add(job)
        job.start = start

    def _run(
        self, job: Job, work: Callable[[], Any], finish: Finisher, after: Callable[[], None] = lambda: None
    ) -> None:
        """On a worker."""
        token = context.current.set(job.context)
        result: Optional[JsonObject] = None
        error: Optional[WireError] = None
        try:
            value = work()
            if _is_awaitable(value):  # a function that is async without saying so
                self._start_async(job, lambda: value, finish)
                return
            result = finish(value)
        except BaseException as raised:
            result, error = _of_exception(job, raised)
        finally:
            context.current.reset(token)
            after()
        self._over(job, result, error)

    def _start_async(self, job: Job, work: Callable[[], Awaitable[Any]], finish: Finisher) -> None:
        async def run() -> None:
            context.current.set(job.context)
            result: Optional[JsonObject] = None
            error: Optional[WireError] = None
            try:
                value = work()
                result = finish(await value if _is_awaitable(value) else value)
            except asyncio.CancelledError as raised:
                result, error = None, WireError("cancelled", "cancelled", "The request was cancelled.")
                if not job.answered:
                    result, error = _of_exception(job, raised)
            except BaseException as raised:
                result, error = _of_exception(job, raised)
            self._over(job, result, error)

        def started(task: "asyncio.Task[None]") -> None:
            with self._server.lock:
                job.task = task
                if job.answered:
                    # After its first step: a task that is cancelled before never runs, and would finish nothing.
                    self._server.loop.cancel(task)

        self._server.loop.start(run, started)

    def _over(self, job: Job, result: Optional[JsonObject], error: Optional[WireError]) -> None:
        episode = job.episode
        if job.method == "close" and episode is not None:
            if error is not None:
                job.context.log("error", "close failed: " + (error.traceback or error.message))
                result, error = {}, None
            with self._server.lock:
                self._server.episodes.pop(episode.name, None)
                worker, episode.worker = episode.worker, None
            if worker is not None:
                self._server.workers.give_back(worker)
        self._server.finish(job, result, error)


def _is_awaitable(value: Any) -> bool:
    """What inspect.isawaitable says, at once for what is nearly always there."""
    return type(value) not in _PLAIN and inspect.isawaitable(value)


def _called(value: Any) -> JsonObject:
    if isinstance(value, definitions.ToolResult):
        return {"content": value.content, "is_error": value.is_error}
    return {"content": definitions.tool_content(value), "is_error": False}


def _scored(value: Any) -> JsonObject:
    score = definitions.score_of(value)
    result: JsonObject = {"reward": score.reward}
    if score.success is not None:
        result["success"] = bool(score.success)
    if score.info:
        result["info"] = to_json(dict(score.info), "the info of a score")
    return result


def _observed(observation: Optional[Observation]) -> JsonObject:
    assert observation is not None
    messages: List[Message] = as_messages(observation.messages)
    if not messages and not observation.done:
        raise BadResult("there is nothing for the policy to read, and the episode is not done")
    if observation.truncated and not observation.done:
        raise BadResult("'truncated' goes with 'done'")
    result: JsonObject = {"messages": messages, "done": observation.done}
    if observation.truncated:
        result["truncated"] = True
    return result


def _of_exception(job: Job, error: BaseException) -> Tuple[Optional[JsonObject], Optional[WireError]]:
    failure_class = CLASS_OF[job.method]
    if isinstance(error, WireError):
        return None, error
    if isinstance(error, Failure):
        return None, WireError(error.failure_class, error.reason, error.message)
    if isinstance(error, (BadResult, SchemaError)) and not isinstance(error, ArgumentError):
        return None, WireError(failure_class, "bad_result", "%s." % error)
    if job.method == "call" and isinstance(error, Exception):
        shown = definitions.tool_error(error)
        if shown is not None:
            if not isinstance(error, (definitions.ToolError, ArgumentError)):
                print(_traceback(error), file=sys.stderr)
            return _called(shown), None
    return None, WireError(failure_class, "exception", "%s: %s" % (type(error).__name__, error), _traceback(error))


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _unknown_episode(params: Mapping[str, Any]) -> WireError:
    return WireError("environment", "unknown_episode", "No episode '%s' is open." % params.get("episode"))


def _check_types(params: Mapping[str, Any]) -> None:
    for name, value in params.items():
        if value is None:
            continue
        expected, words = _PARAMETER_TYPES.get(name, (object, ""))
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise protocol_error("bad_params", "'%s' must be %s." % (name, words))
    episode = params.get("episode")
    if episode is not None and not protocol.is_episode_name(episode):
        raise protocol_error("bad_params", "'episode' must be 1 to 128 characters from '!' to '~'.")
    for call in params.get("tool_calls") or []:
        if not isinstance(call, dict):
            raise protocol_error("bad_params", "'tool_calls' must be a list of objects.")


def _task(params: Mapping[str, Any]) -> Task:
    task = params.get("task") or {}
    fields = task.get("fields") or {}
    if not isinstance(fields, dict):
        raise protocol_error("bad_params", "'fields' of the task must be an object.")
    return Task(str(task.get("id") or ""), fields)


def _seed(params: Mapping[str, Any]) -> int:
    seed = params.get("seed")
    seed = 0 if seed is None else seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= protocol.LARGEST_INTEGER:
        raise protocol_error("bad_params", "'seed' must be an integer from 0 below 2^53.")
    return seed


def _episode(params: Mapping[str, Any]) -> Episode:
    try:
        listed = as_messages(params.get("messages") or [])
    except TypeError as error:
        raise protocol_error("bad_params", "'messages' is wrong: %s." % error) from None
    prompt_messages = params.get("prompt_messages")
    if prompt_messages is not None and not 0 <= prompt_messages <= len(listed):
        raise protocol_error("bad_params", "'prompt_messages' is %d of %d messages." % (prompt_messages, len(listed)))
    return Episode(
        messages=listed,
        task=_task(params),
        outcome=params.get("outcome") or "done",
        id=params.get("episode"),
        prompt_messages=prompt_messages,
    )


def _check_state(value: Any) -> None:
    """Integers beyond 53 bits would not come back as they were."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise BadResult("a key of the snapshot is %r; JSON has strings" % (key,))
            _check_state(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_state(inner)
    elif isinstance(value, int) and abs(value) > protocol.LARGEST_INTEGER:
        raise BadResult("the snapshot holds the integer %d, which has more than 53 bits; keep it as a string" % value)
