"""TRL's reward functions and environment classes, in the form that its GRPOTrainer takes them.

A reward function is called with `prompts`, `completions` and every column of the row by keyword, each a list with one
element: Stoker scores one conversation at a time. For rows whose `prompt` is a text it gets texts, otherwise lists of
messages. None in the returned list means "not scored". Tools are plain functions with hints and a docstring, which
need no adapter.
"""

import inspect
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ..definitions import (
    Definition,
    DefinitionError,
    Environment,
    MethodTool,
    Reward,
    Tool,
    call_with,
    description_of,
    is_async,
    methods_as_tools,
    score_of,
)  # fmt: skip
from ..protocol import Failure
from ..types import Episode, Message, Observation, Score, Task, as_messages
from .common import accepted, full_text, last_user_appended, name_of, one_of, plain_message, refuse_parameters

_REFUSED = {
    "completion_ids": "token ids stay in Stoker",
    "completions_ids": "token ids stay in Stoker",
    "trainer_state": "a reward must not depend on the progress of training, or a replay would score otherwise",
    "environments": "pass the function to stoker_env.adapters.trl.environment as its reward",
}
_NOT_COLUMNS = ("prompt", "completion", "completion_ids")


def definition(thing: Any, name: Optional[str] = None) -> Definition:
    """A class, or a dictionary of factories, is an environment, a function a reward: "trl:MODULE:NAME" on the command
    line."""
    return environment(thing, name=name) if inspect.isclass(thing) or isinstance(thing, Mapping) else reward(thing, name)


def reward(function: Callable[..., Any], name: Optional[str] = None) -> Reward:
    """A reward from `function(prompts=..., completions=..., **columns)`, synchronous or async."""
    refuse_parameters(function, _REFUSED)
    return _reward(function, name)


def _reward(function: Callable[..., Any], name: Optional[str], environments: Optional[List[Any]] = None) -> Reward:
    called = name_of(function, name)

    if is_async(function):

        async def score_async(episode: Episode) -> Score:
            arguments, info = _arguments(function, episode, environments)
            return _score(await function(**arguments), called, info)

        return Reward(called, score_async, description_of(function))

    def score(episode: Episode) -> Score:
        arguments, info = _arguments(function, episode, environments)
        return _score(function(**arguments), called, info)

    return Reward(called, score, description_of(function))


def _arguments(function: Callable[..., Any], episode: Episode, environments: Optional[List[Any]]) -> Any:
    info: Dict[str, Any] = {}
    prompt, completion = _texts(episode) or _messages(episode)
    offered: Dict[str, Any] = {k: [v] for k, v in episode.task.fields.items() if k not in _NOT_COLUMNS}
    offered.update(prompts=[prompt], completions=[completion], log_metric=_log_metric(info), log_extra=_log_extra(info))
    if environments is not None:
        offered["environments"] = environments
    return accepted(function, offered), info


def _texts(episode: Episode) -> Any:
    """Prompt and completion of TRL's standard form; None for a conversation."""
    prompt = episode.task.fields.get("prompt")
    completion = episode.completion
    if not isinstance(prompt, str) or len(completion) != 1 or completion[0].get("role") != "assistant":
        return None
    return prompt, full_text(completion[0])


def _messages(episode: Episode) -> Any:
    return [plain_message(m) for m in episode.prompt], [plain_message(m) for m in episode.completion]


def _log_metric(info: Dict[str, Any]) -> Callable[[str, float], None]:
    def log_metric(name: str, value: float) -> None:
        info[name] = float(value)

    return log_metric


def _log_extra(info: Dict[str, Any]) -> Callable[[str, Sequence[Any]], None]:
    def log_extra(column: str, values: Sequence[Any]) -> None:
        info[column] = str(one_of(values, "log_extra"))

    return log_extra


def _score(values: Any, name: str, info: Dict[str, Any]) -> Score:
    number = score_of(one_of(values, name)).reward
    return Score(number, info=info or None)


Factory = Callable[[], Any]


def environment(
    factory: Union[Factory, Mapping[str, Factory]],
    name: Optional[str] = None,
    reward: Optional[Callable[..., Any]] = None,
) -> Environment:
    """An environment from a class, or a factory of its objects, as `environment_factory` takes it.

    `reset(**columns)` returns None or a text that is added to the last message of the user; the messages are the
    row's `prompt`. Every other public method is a tool. The episode ends with the first turn that calls none. With
    `get_reward`, or `reward` (a reward function, which gets `environments`), it has a score of its own.

    From a dictionary of such factories the row's column `environment` chooses, and its episode has the tools of that
    one alone. A tool that several of them have must have one schema.
    """
    if isinstance(factory, Mapping):
        return _mixed(factory, name or "environments", reward)
    called = name_of(factory, name)
    owner = _owner(factory, called)
    methods = {"reset": is_async(owner.reset), "step": False, "close": False}
    if reward is not None:
        methods["score"] = is_async(reward)
    elif callable(getattr(owner, "get_reward", None)):
        methods["score"] = is_async(owner.get_reward)
    single = factory

    def make() -> "_Slot":
        return _Slot(reward, single())

    return Environment(called, make, description_of(owner), _tools(owner), methods)


def _owner(factory: Factory, called: str) -> Any:
    """The class of the objects that a factory makes."""
    shown = factory if inspect.isclass(factory) else factory()
    if not callable(getattr(shown, "reset", None)):
        raise DefinitionError("%s has no method 'reset'" % called)
    return shown if inspect.isclass(shown) else type(shown)


def _tools(owner: Any) -> List[Tool]:
    public = [n for n, _ in inspect.getmembers(owner, inspect.isroutine) if not n.startswith("_")]
    return methods_as_tools(owner, [n for n in public if n not in ("reset", "get_reward", "close")])


def _mixed(factories: Mapping[str, Factory], name: str, reward: Optional[Callable[..., Any]]) -> Environment:
    owners = {key: _owner(factory, "'%s' of %s" % (key, name)) for key, factory in factories.items()}
    if not owners:
        raise DefinitionError("the dictionary of factories is empty")
    all_tools: Dict[str, Tool] = {}
    tools_of: Dict[str, List[str]] = {}
    for key, owner in owners.items():
        own = _tools(owner)
        tools_of[key] = [each.name for each in own]
        for each in own:
            known = all_tools.setdefault(each.name, each)
            if known.schema != each.schema or _attribute(known) != _attribute(each):
                raise DefinitionError(
                    "the environments of %s have different tools of the name '%s'; rename one" % (name, each.name)
                )
            # Of a tool that runs on a thread, what turns out to be awaitable is awaited too; not the other way round.
            if not each.is_async:
                all_tools[each.name] = each
    methods = {"reset": False, "step": False, "close": False}
    if reward is not None or any(callable(getattr(owner, "get_reward", None)) for owner in owners.values()):
        methods["score"] = False
    described = "; ".join("%s: %s" % (key, description_of(owner)) for key, owner in owners.items())

    def make() -> "_ChosenSlot":
        return _ChosenSlot(reward, factories, tools_of)

    return Environment(name, make, described, list(all_tools.values()), methods)


def _attribute(tool: Tool) -> Optional[str]:
    return tool.attribute if isinstance(tool, MethodTool) else None


class _Slot:
    """One episode of a TRL environment."""

    def __init__(self, reward: Optional[Callable[..., Any]], inner: Any = None) -> None:
        self._inner = inner
        self._reward = reward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def reset(self, task: Task) -> Any:
        added = call_with(self._inner.reset, [], {}, task.fields)
        return _opened_later(added, task) if inspect.isawaitable(added) else _opened(added, task)

    def step(self, action: Any) -> None:
        return None

    def score(self, episode: Episode) -> Any:
        if self._reward is None:
            own = getattr(self._inner, "get_reward", None)
            return None if own is None else own()
        return _reward(self._reward, None, [self._inner]).function(episode)

    def close(self) -> Any:
        closing = getattr(self._inner, "close", None)
        return closing() if callable(closing) else None


class _ChosenSlot(_Slot):
    """One episode of the environment that its row names."""

    def __init__(
        self,
        reward: Optional[Callable[..., Any]],
        factories: Mapping[str, Factory],
        tools_of: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__(reward)
        self._factories = factories
        self._tools_of = tools_of

    def reset(self, task: Task) -> Any:
        key = task.fields.get("environment")
        if not isinstance(key, str) or key not in self._factories:
            listed = ", ".join(self._factories)
            raise Failure(
                "environment", "unknown_environment", "The row's 'environment' is %r; they are: %s." % (key, listed)
            )
        self._inner = self._factories[key]()
        columns = {column: value for column, value in task.fields.items() if column != "environment"}
        opened = super().reset(Task(task.id, columns))
        tools = self._tools_of[key]
        if inspect.isawaitable(opened):
            return _with_tools_later(opened, tools)
        return Observation(opened, tools=tools)


async def _with_tools_later(opened: Any, tools: Sequence[str]) -> Observation:
    return Observation(await opened, tools=tools)


async def _opened_later(added: Any, task: Task) -> List[Message]:
    return _opened(await added, task)


def _opened(added: Any, task: Task) -> List[Message]:
    messages = task.messages()
    if added is None:
        return messages
    if isinstance(added, str):
        return last_user_appended(messages, added)
    return as_messages([*messages, *as_messages(added)])
