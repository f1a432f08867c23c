"""Values for user code from JSON, by type hints; ArgumentError with a sentence that a model can act on."""

import collections.abc
import dataclasses
import enum
import inspect
import json
import typing
from typing import Any, Dict, Mapping

from .schema import _LISTS, _MAPPINGS, _UNION_TYPES, ArgumentError, _is_typed_dict, _unwrapped, record_fields


def convert_arguments(parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any]) -> Dict[str, Any]:
    """Keyword arguments for a tool."""
    for name in arguments:
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise ArgumentError("arguments.%s is not known; the arguments are: %s." % (name, known))
    values = {}
    for name, parameter in parameters.items():
        if name in arguments:
            values[name] = convert(parameter.annotation, arguments[name], "arguments." + name)
        elif parameter.default is inspect.Parameter.empty:
            raise ArgumentError("arguments.%s is missing." % name)
    return values


def convert(hint: Any, value: Any, where: str) -> Any:
    """The value that a hint asks for; `where` names it in the sentence."""
    if hint is Any or hint is object or hint is inspect.Parameter.empty:
        return value
    if hint in (None, type(None), bool, int, float, str):
        return _scalar(hint, value, where)
    plain = _unwrapped(hint)
    if plain is not None:
        return convert(plain[0], value, where)
    origin = typing.get_origin(hint) or hint
    parts = typing.get_args(hint)
    if origin in _UNION_TYPES:
        return _one_of(parts, value, where)
    if origin is typing.Literal:
        for part in parts:
            if type(part) is type(value) and part == value:
                return part
        raise _wrong(where, "one of " + _listed(parts), value)
    if inspect.isclass(origin) and issubclass(origin, enum.Enum):
        for member in origin:
            if type(member.value) is type(value) and member.value == value:
                return member
        raise _wrong(where, "one of " + _listed([member.value for member in origin]), value)
    if origin is tuple or origin in _LISTS:
        return _sequence(origin, parts, value, where)
    if origin in _MAPPINGS:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        inner = parts[1] if parts else Any
        return {key: convert(inner, each, "%s.%s" % (where, key)) for key, each in value.items()}
    if dataclasses.is_dataclass(hint) or _is_typed_dict(hint):
        return _record(hint, value, where)
    raise TypeError("%r has no JSON form" % (hint,))


def _scalar(hint: Any, value: Any, where: str) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is None or hint is type(None):
        if value is None:
            return None
        raise _wrong(where, "null", value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    if hint is int and is_number and value == int(value):
        return int(value)
    if hint is float and is_number:
        return float(value)
    raise _wrong(where, {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}[hint], value)


def _one_of(parts: Any, value: Any, where: str) -> Any:
    problem = None
    for exact in (True, False):  # 2 stays an integer for Union[float, int]
        for part in parts:
            if exact and not (inspect.isclass(part) and type(value) is part):
                continue
            try:
                return convert(part, value, where)
            except ArgumentError as error:
                # The most telling sentence: of a part that got further than the value's own type.
                if problem is None or len(str(error).split(" ")[0]) > len(str(problem).split(" ")[0]):
                    problem = error
    raise problem if problem is not None else _wrong(where, "one of the allowed types", value)


def _sequence(origin: Any, parts: Any, value: Any, where: str) -> Any:
    if not isinstance(value, list):
        raise _wrong(where, "an array", value)
    fixed = origin is tuple and parts and not (len(parts) == 2 and parts[1] is Ellipsis)
    if fixed and len(parts) != len(value):
        raise _wrong(where, "an array of %d values" % len(parts), value)
    inner = parts if fixed else [parts[0] if parts else Any] * len(value)
    values = [convert(hint, each, "%s[%d]" % (where, i)) for i, (hint, each) in enumerate(zip(inner, value))]
    if origin is tuple:
        return tuple(values)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Set):
        return frozenset(values) if origin is frozenset else set(values)
    return values


def _record(hint: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    fields = record_fields(hint, where)
    for name in value:
        if name not in fields:
            raise ArgumentError("%s.%s is not known; the fields are: %s." % (where, name, ", ".join(fields)))
    values = {}
    for name, (inner, is_required, _) in fields.items():
        if name in value:
            values[name] = convert(inner, value[name], "%s.%s" % (where, name))
        elif is_required:
            raise ArgumentError("%s.%s is missing." % (where, name))
    return values if _is_typed_dict(hint) else hint(**values)


def _listed(values: Any) -> str:
    return ", ".join(json.dumps(value) for value in values)


def _wrong(where: str, expected: str, value: Any) -> ArgumentError:
    text = json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= 80 else text[:77] + "..."
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    found = "null" if value is None else "the %s %s" % (kinds.get(type(value), type(value).__name__), text)
    return ArgumentError("%s must be %s, but is %s." % (where, expected, found))
