"""What a process serves: tools, rewards and environments, from plain functions and classes."""

import functools
import inspect
import json
import math
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union, overload

from . import docstrings
from .arguments import convert_arguments
from .protocol import TOOL_NAME
from .schema import ArgumentError, SchemaError, function_schema, hints_of, to_json, tool_parameters
from .types import Action, Episode, Observation, Score, Task, as_messages
from .workers import Pace

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])
_MARK = "__stoker_env__"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")

#: Raised by a tool, these say that its world is away, which is no business of the model. All other exceptions are
#: shown to it as "error: ...".
INFRASTRUCTURE_ERRORS = (OSError, MemoryError, ImportError, SystemError)
#: ... except those about a file that the model may have named.
_FILE_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


class DefinitionError(TypeError):
    """User code that cannot be served, said in one sentence."""


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong: its text is what the model reads, after "error: "."""


class BadResult(Exception):
    """User code returned what has no place in the answer."""


@overload
def tool(function: AnyCallable) -> AnyCallable: ...


@overload
def tool(*, name: Optional[str] = None, description: Optional[str] = None) -> Callable[[AnyCallable], AnyCallable]: ...


def tool(
    function: Optional[AnyCallable] = None, *, name: Optional[str] = None, description: Optional[str] = None
) -> Any:
    """Marks a function, or a method of an environment, as a tool. Functions need it only for a name of their own.

    @tool
    def look(self, direction: Literal["left", "right"]) -> str:
        '''Look around.'''
    """

    def mark(inner: AnyCallable) -> AnyCallable:
        setattr(inner, _MARK, {"kind": "tool", "name": name, "description": description})
        return inner

    return mark if function is None else mark(function)


@overload
def reward(function: AnyCallable) -> AnyCallable: ...


@overload
def reward(*, name: Optional[str] = None) -> Callable[[AnyCallable], AnyCallable]: ...


def reward(function: Optional[AnyCallable] = None, *, name: Optional[str] = None) -> Any:
    """Marks a function as a reward over the whole conversation.

    The first parameter is the Episode; further ones are columns of the task's row, by name. It returns a number, a
    bool, a Score, or None for "not scored". A function whose first parameter is annotated as Episode needs no mark.
    """

    def mark(inner: AnyCallable) -> AnyCallable:
        setattr(inner, _MARK, {"kind": "reward", "name": name})
        return inner

    return mark if function is None else mark(function)


def mark_of(thing: Any) -> Mapping[str, Any]:
    """What a decorator said about a function; empty for a plain one."""
    found = getattr(thing, _MARK, None)
    return found if isinstance(found, dict) else {}


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine; sees through functools.partial and objects with an async __call__."""
    while hasattr(function, "func") and hasattr(function, "keywords"):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


class ToolResult(NamedTuple):
    """What a tool tells the model."""

    content: str
    is_error: bool = False


class Tool:
    """A function that the model may call."""

    def __init__(self, function: Callable[..., Any], name: Optional[str] = None) -> None:
        marks = mark_of(function)
        self.name = str(name or marks.get("name") or getattr(function, "__name__", type(function).__name__))
        if not TOOL_NAME.match(self.name):
            raise DefinitionError(
                "'%s' is no name for a tool: letters, digits, '_', '.' and '-', at most 64" % self.name
            )
        self.function = function
        self.is_async = is_async(function)
        self.pace = Pace()
        self.schema = function_schema(function, self.name, marks.get("description"))
        self._parameters = tool_parameters(function, "the tool '%s'" % self.name)

    def bind(self, arguments: Mapping[str, Any]) -> Dict[str, Any]:
        """The keyword arguments of a call; ArgumentError with a sentence for the model."""
        return convert_arguments(self._parameters, arguments)


def tool_content(value: Any) -> str:
    """What the model reads of a tool's return value: texts as they are, nothing for None, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(to_json(value, "the result"), ensure_ascii=False, allow_nan=False)
    except SchemaError:
        return str(value)


def tool_error(error: BaseException) -> Optional[ToolResult]:
    """What the model reads of an exception; None when it is no business of it."""
    if isinstance(error, (ToolError, ArgumentError)):
        return ToolResult("error: %s" % error, True)
    if isinstance(error, INFRASTRUCTURE_ERRORS) and not isinstance(error, _FILE_ERRORS):
        return None
    return ToolResult("error: %s: %s" % (type(error).__name__, error), True)


class Reward:
    """Scores a finished conversation."""

    def __init__(self, name: str, function: Callable[[Episode], Any], description: str = "") -> None:
        self.name = checked_name(name)
        self.description = description
        self.function = function
        self.is_async = is_async(function)
        self.pace = Pace()


class Environment:
    """A kind of environment. `factory` makes the object of one episode; which of the methods are there says `has`."""

    def __init__(
        self,
        name: str,
        factory: Callable[[], Any],
        description: str = "",
        tools: Sequence[Tool] = (),
        methods: Mapping[str, bool] = {},
    ) -> None:
        self.name = checked_name(name)
        self.factory = factory
        self.description = description
        self.tools: Dict[str, Tool] = {}
        for each in tools:
            if each.name in self.tools:
                raise DefinitionError("the environment %s has two tools of the name '%s'" % (name, each.name))
            self.tools[each.name] = each
        #: Method name to whether it is async.
        self.methods = dict(methods)

    def has(self, method: str) -> bool:
        return method in self.methods

    @property
    def snapshot(self) -> bool:
        return self.has("snapshot") and self.has("restore")

    @property
    def scored(self) -> bool:
        return self.has("score")


Definition = Union[Tool, Reward, Environment]
METHODS = ("reset", "step", "close", "score", "snapshot", "restore")


def checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise DefinitionError("'%s' is no name for an environment or a reward" % name)
    return name


def description_of(thing: Any) -> str:
    return docstrings.parse(inspect.getdoc(thing))[0]


@functools.lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any], is_method: bool) -> Tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())[1 if is_method else 0 :]


def parameters_of(function: Callable[..., Any]) -> Tuple[inspect.Parameter, ...]:
    """The parameters of a function or bound method. Remembered, by the function and not by the object of a method."""
    if inspect.ismethod(function):
        return _parameters(function.__func__, True)
    if inspect.isfunction(function):
        return _parameters(function, False)
    return tuple(inspect.signature(function).parameters.values())


def _by_name(parameters: Sequence[inspect.Parameter], first: int) -> Tuple[inspect.Parameter, ...]:
    """The parameters that are not among the `first` positional ones."""
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    taken = {p.name for p in positional[:first]}
    return tuple(p for p in parameters if p.name not in taken and p.kind != p.VAR_POSITIONAL)


@functools.lru_cache(maxsize=1024)
def _function_by_name(function: Callable[..., Any], first: int) -> Tuple[inspect.Parameter, ...]:
    return _by_name(_parameters(function, False), first)


def call_with(
    function: Callable[..., Any], first: Sequence[Any], offered: Mapping[str, Any], fields: Mapping[str, Any]
) -> Any:
    """Calls with the positional values and, by name, what the function asks for of `offered` and of the row.

    A function with `**columns` gets all columns whose names are free. A required parameter that nothing offers is a
    TypeError that names the row's columns.
    """
    if inspect.isfunction(function):
        by_name = _function_by_name(function, len(first))
    else:
        by_name = _by_name(parameters_of(function), len(first))
    values: Dict[str, Any] = {}
    for parameter in by_name:
        if parameter.kind == parameter.VAR_KEYWORD:
            named = {p.name for p in parameters_of(function)}
            values.update({k: v for k, v in fields.items() if k not in named and k.isidentifier()})
        elif parameter.name in offered:
            values[parameter.name] = offered[parameter.name]
        elif parameter.name in fields:
            values[parameter.name] = fields[parameter.name]
        elif parameter.default is parameter.empty:
            columns = ", ".join(fields) or "none"
            raise TypeError("the row has no column '%s'; its columns are: %s" % (parameter.name, columns))
    return function(*first, **values)


def reward_of(function: Callable[..., Any], name: Optional[str] = None) -> Reward:
    """A reward from a plain function: the Episode first, then columns by name."""
    marks = mark_of(function)
    name = str(name or marks.get("name") or getattr(function, "__name__", type(function).__name__))
    if is_async(function):

        async def score_async(episode: Episode) -> Any:
            return await call_with(function, [episode], {}, episode.task.fields)

        return Reward(name, score_async, description_of(function))

    def score(episode: Episode) -> Any:
        return call_with(function, [episode], {}, episode.task.fields)

    return Reward(name, score, description_of(function))


def environment_of(thing: Any, name: Optional[str] = None, tools: Optional[Sequence[Tool]] = None) -> Environment:
    """An environment from a class with reset and, where they apply, step, close, score, snapshot and restore."""
    methods = {m: is_async(getattr(thing, m)) for m in METHODS if callable(getattr(thing, m, None))}
    if "reset" not in methods:
        raise DefinitionError("the class %s has no method 'reset', so it is no environment" % thing.__name__)
    if ("snapshot" in methods) != ("restore" in methods):
        raise DefinitionError("the class %s must have both 'snapshot' and 'restore', or neither" % thing.__name__)
    if tools is None:
        marked = [member for member, value in inspect.getmembers(thing) if mark_of(value).get("kind") == "tool"]
        tools = methods_as_tools(thing, marked)
    return Environment(name or thing.__name__, thing, description_of(thing), tools, methods)


class MethodTool(Tool):
    """A tool that is a method: `function` is unbound, `attribute` its name on the episode's object."""

    def __init__(self, owner: Any, attribute: str) -> None:
        method = getattr(owner, attribute)
        self.attribute = attribute
        # What static and class methods take is all of the model's.
        static = isinstance(inspect.getattr_static(owner, attribute), (staticmethod, classmethod))
        super().__init__(method if static else _without_self(method), mark_of(method).get("name") or attribute)
        self.is_async = is_async(method)


def methods_as_tools(owner: Any, attributes: Sequence[str]) -> List[Tool]:
    return [MethodTool(owner, attribute) for attribute in attributes]


def _without_self(method: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the signature, hints and docstring of a method but without its first parameter."""
    signature = inspect.signature(method)
    parameters = list(signature.parameters.values())[1:]

    def stand_in(**arguments: Any) -> Any:
        raise TypeError("a tool of an environment is called on its object")

    stand_in.__name__ = getattr(method, "__name__", "tool")
    stand_in.__doc__ = inspect.getdoc(method)
    stand_in.__annotations__ = {k: v for k, v in hints_of(method, "'%s'" % stand_in.__name__).items()}
    stand_in.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    for key, value in vars(method).items():
        setattr(stand_in, key, value)
    return stand_in


def definition_of(thing: Any, name: Optional[str] = None) -> Definition:
    """What a module's attribute is: a definition already, an environment, a reward or a tool."""
    if isinstance(thing, (Tool, Reward, Environment)):
        return thing
    if inspect.isclass(thing):
        return environment_of(thing, name)
    if not callable(thing):
        raise DefinitionError("it is of type %s; a function or a class was expected" % type(thing).__name__)
    if mark_of(thing).get("kind") == "reward" or _takes_episode(thing):
        return reward_of(thing, name)
    names = list(inspect.signature(thing).parameters)
    if "completions" in names:
        raise DefinitionError(
            "it looks like a reward function of TRL or Tunix: serve it as trl:MODULE:NAME or tunix:MODULE:NAME"
        )
    if "solution_str" in names:
        raise DefinitionError("it looks like a reward function of verl: serve it as verl:MODULE:NAME")
    if not inspect.getdoc(thing) and not mark_of(thing).get("description"):
        raise DefinitionError("a tool needs a docstring, which is what the model reads about it")
    return Tool(thing, name)


def _takes_episode(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    annotation = parameters[0].annotation
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2].strip("'\"") == "Episode"
    return annotation is Episode


def observation_of(value: Any, task: Optional[Task] = None) -> Observation:
    """An Observation from what reset or step returned. `task`: of reset, whose None means the row's own prompt."""
    if isinstance(value, Observation):
        return Observation(as_messages(value.messages), value.done, value.truncated, value.tools)
    if value is None:
        if task is None:
            return Observation([], done=True)
        messages = task.messages()
        if not messages:
            raise BadResult("reset returned None, and the row has no 'messages', 'prompt' or 'question' to begin with")
        return Observation(messages)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bool):
        return Observation(as_messages(() if value[0] is None else value[0]), done=value[1])
    return Observation(as_messages(value))


def score_of(value: Any) -> Score:
    """A Score from what a reward returned; BadResult for what is no finite number."""
    if isinstance(value, Score):
        number = _number(value.reward)
        return Score(number, value.success, value.info)
    # Right or wrong says a bool; of a number Stoker makes what it knows of the other rewards.
    return Score(_number(value), value if isinstance(value, bool) else None)


def _number(value: Any) -> Optional[float]:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadResult("the reward is of type %s; a number or None was expected" % type(value).__name__) from None
    if not math.isfinite(number):
        raise BadResult("the reward is %r; it must be finite, or None for 'not scored'" % number)
    return number


def action_of(params: Mapping[str, Any]) -> Action:
    text = params.get("text") or ""
    content = params.get("content")
    return Action(
        text=text,
        content=text if content is None else content,
        turn=params.get("turn") or 0,
        tool_calls=params.get("tool_calls") or (),
        tool_results=params.get("tool_results") or (),
    )
