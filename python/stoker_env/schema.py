"""JSON Schema from type hints, and values from JSON by the same hints.

Known are str, int, float, bool, None, Any, lists, tuples, sets, dictionaries with string keys, Literal, enums, Optional
and Union (also written `X | None`), dataclasses, TypedDicts and Annotated. Everything is written out, for models read
references badly; so a type that contains itself is refused.
"""

import collections.abc
import dataclasses
import enum
import inspect
import json
import math
import sys
import types
import typing
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import docstrings

Json = Dict[str, Any]
_UNION_TYPES = tuple(t for t in (Union, getattr(types, "UnionType", None)) if t is not None)
_LISTS = (
    list, set, frozenset, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Iterable,
    collections.abc.Collection, collections.abc.Set, collections.abc.MutableSet,
)  # fmt: skip
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class SchemaError(TypeError):
    """A type hint that has no JSON Schema, said in one sentence."""


class ArgumentError(ValueError):
    """A value that does not fit its type hint; the sentence is meant for the model."""


def hints_of(thing: Any, what: str) -> Dict[str, Any]:
    """The resolved type hints of a function or class; SchemaError where a name cannot be resolved."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except Exception as error:
        advice = "; before Python 3.10 'X | None' is written Optional[X]" if sys.version_info < (3, 10) else ""
        raise SchemaError("the type hints of %s cannot be resolved (%s)%s" % (what, error, advice)) from error


def function_schema(function: Callable[..., Any], name: str, description: Optional[str] = None) -> Json:
    """The OpenAI function schema of a function or bound method."""
    what = "the tool '%s'" % name
    summary, descriptions = docstrings.parse(inspect.getdoc(function))
    parameters = tool_parameters(function, what)
    properties: Json = {}
    for parameter in parameters.values():
        schema = schema_of(parameter.annotation, "%s, parameter '%s'" % (what, parameter.name))
        _describe(schema, descriptions.get(parameter.name))
        if parameter.default is not inspect.Parameter.empty:
            schema["default"] = to_json(parameter.default, "the default of '%s' of %s" % (parameter.name, what))
        properties[parameter.name] = schema
    required = [p.name for p in parameters.values() if p.default is inspect.Parameter.empty]
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": summary if description is None else description,
            "parameters": _object(properties, required),
        },
    }


def tool_parameters(function: Callable[..., Any], what: str) -> "Dict[str, inspect.Parameter]":
    """The parameters of a tool with resolved annotations; SchemaError for one without a hint."""
    hints = hints_of(function, what)
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise SchemaError("%s takes '%s', which has no place in a schema" % (what, parameter))
        if parameter.name not in hints:
            raise SchemaError("%s has no type hint for its parameter '%s'" % (what, parameter.name))
        hint = hints[parameter.name]
        if parameter.default is None and not _takes_none(hint):
            hint = Optional[hint]
        found[parameter.name] = parameter.replace(annotation=hint)
    return found


def schema_of(hint: Any, what: str, inside: Tuple[Any, ...] = ()) -> Json:
    """The JSON Schema of a type hint; `what` names its place in errors."""
    if hint is Any or hint is object or hint is inspect.Parameter.empty:
        return {}
    if hint is None or hint in (bool, int, float, str, type(None)):
        return {"type": _NAMES[type(None) if hint is None else hint]}
    plain = _unwrapped(hint)
    if plain is not None:
        inner, description = plain
        return _describe(schema_of(inner, what, inside), description)
    if isinstance(hint, type) and hint in inside:
        raise SchemaError("%s: the type %s contains itself, so its schema would have no end" % (what, hint.__name__))
    origin = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    if origin in _UNION_TYPES:
        return {"anyOf": [schema_of(part, what, inside) for part in arguments]}
    if origin is typing.Literal:
        return _enumeration(list(arguments), what)
    if inspect.isclass(origin) and issubclass(origin, enum.Enum):
        return _enumeration([member.value for member in origin], what)
    if origin is tuple:
        return _tuple(arguments, what, inside)
    if origin in _LISTS:
        schema: Json = {"type": "array"}
        if arguments:
            schema["items"] = schema_of(arguments[0], what, inside)
        if isinstance(origin, type) and issubclass(origin, collections.abc.Set):
            schema["uniqueItems"] = True
        return schema
    if origin in _MAPPINGS:
        if arguments and arguments[0] not in (str, Any):
            raise SchemaError("%s: the keys of a JSON object are strings, not %s" % (what, _name(arguments[0])))
        schema = {"type": "object"}
        if arguments and arguments[1] is not Any:
            schema["additionalProperties"] = schema_of(arguments[1], what, inside)
        return schema
    if inspect.isclass(hint) and (dataclasses.is_dataclass(hint) or _is_typed_dict(hint)):
        return _record(hint, what, inside)
    raise SchemaError("%s has the type %s, which has no JSON Schema" % (what, _name(hint)))


def _record(hint: Any, what: str, inside: Tuple[Any, ...]) -> Json:
    summary, descriptions = docstrings.parse(hint.__doc__ if _has_own_docstring(hint) else None)
    properties, required = {}, []
    for name, (inner, is_required, default) in record_fields(hint, what).items():
        schema = schema_of(inner, "%s, field '%s'" % (what, name), inside + (hint,))
        _describe(schema, descriptions.get(name))
        if default is not inspect.Parameter.empty:
            schema["default"] = to_json(default, "the default of '%s' of %s" % (name, _name(hint)))
        properties[name] = schema
        if is_required:
            required.append(name)
    return _describe(_object(properties, required), summary)


def record_fields(hint: Any, what: str) -> Dict[str, Tuple[Any, bool, Any]]:
    """Field name to (type, whether required, default) of a dataclass or TypedDict."""
    hints = hints_of(hint, "the class %s" % _name(hint))
    empty = inspect.Parameter.empty
    if _is_typed_dict(hint):
        found = {}
        for name, inner in hints.items():
            is_required = name in hint.__required_keys__
            origin = str(typing.get_origin(inner))
            if origin.endswith("NotRequired"):
                is_required = False
            elif origin.endswith(".Required"):
                is_required = True
            found[name] = (inner, is_required, empty)
        return found
    fields = {}
    for field in dataclasses.fields(hint):
        if not field.init:
            continue
        default = empty if field.default is dataclasses.MISSING else field.default
        has_default = default is not empty or field.default_factory is not dataclasses.MISSING
        fields[field.name] = (hints[field.name], not has_default, default)
    return fields


def _object(properties: Json, required: List[str]) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _tuple(arguments: Tuple[Any, ...], what: str, inside: Tuple[Any, ...]) -> Json:
    if not arguments:
        return {"type": "array"}
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": schema_of(arguments[0], what, inside)}
    prefix = [schema_of(part, what, inside) for part in arguments]
    return {"type": "array", "prefixItems": prefix, "minItems": len(prefix), "maxItems": len(prefix)}


def _enumeration(values: List[Any], what: str) -> Json:
    for value in values:
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise SchemaError("%s: the value %r has no JSON form" % (what, value))
    kinds = {_NAMES.get(type(value)) or _NAMES[type(value).__mro__[1]] for value in values}
    schema: Json = {"type": kinds.pop()} if len(kinds) == 1 else {}
    schema["enum"] = [value.value if isinstance(value, enum.Enum) else value for value in values]
    return schema


def _unwrapped(hint: Any) -> Optional[Tuple[Any, Optional[str]]]:
    """What stands in Annotated, Required, NewType and their like, with a description; None for other hints."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        inner, *notes = typing.get_args(hint)
        for note in notes:
            text = note if isinstance(note, str) else getattr(note, "description", None)
            text = getattr(note, "documentation", None) if text is None else text
            if isinstance(text, str):
                return inner, text
        return inner, None
    if str(origin).rpartition(".")[2] in ("Required", "NotRequired", "ReadOnly"):
        return typing.get_args(hint)[0], None
    if hasattr(hint, "__supertype__"):
        return hint.__supertype__, None
    if type(hint).__name__ == "TypeAliasType":
        return hint.__value__, None
    return None


def _describe(schema: Json, description: Optional[str]) -> Json:
    """Sets a description after the type, before a default; one that is there already stays."""
    if description and "description" not in schema:
        schema["description"] = description
    return schema


def _takes_none(hint: Any) -> bool:
    plain = _unwrapped(hint)
    if plain is not None:
        return _takes_none(plain[0])
    if typing.get_origin(hint) in _UNION_TYPES:
        return any(_takes_none(part) for part in typing.get_args(hint))
    return hint in (None, type(None), Any, object)


def _is_typed_dict(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, dict) and hasattr(hint, "__required_keys__")


def _has_own_docstring(hint: Any) -> bool:
    """A dataclass without a docstring is given its signature as one."""
    text = hint.__doc__
    return bool(text) and not text.startswith(hint.__name__ + "(") and text != dict.__doc__


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def to_json(value: Any, what: str) -> Any:
    """The JSON form of a value: dataclasses become objects, enums their values; SchemaError for what has none."""
    if isinstance(value, enum.Enum):
        return to_json(value.value, what)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise SchemaError("%s is %r, which has no JSON form" % (what, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name), what) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(inner, what) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner, what) for inner in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_json(inner, what) for inner in value), key=lambda inner: json.dumps(inner))
    raise SchemaError("%s is of type %s, which has no JSON form" % (what, type(value).__name__))
