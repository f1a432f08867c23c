"""What the adapters share."""

import inspect
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..definitions import BadResult, DefinitionError, parameters_of
from ..types import Episode, Message, text_of


def full_text(message: Mapping[str, Any]) -> str:
    """What the policy wrote in a message, its reasoning in front as `<think>`, as other trainers hand it on."""
    text = text_of(message)
    reasoning = message.get("reasoning_content")
    return "<think>\n%s\n</think>\n\n%s" % (reasoning, text) if reasoning else text


def policy_text(episode: Episode) -> str:
    """All that the policy wrote, its turns joined by a line feed."""
    return "\n".join(full_text(m) for m in episode.completion if m.get("role") == "assistant")


def prompt_text(episode: Episode) -> str:
    """The row's own prompt where it is a text, else the contents of the prompt's messages, a line each."""
    prompt = episode.task.fields.get("prompt")
    return prompt if isinstance(prompt, str) else "\n".join(text_of(message) for message in episode.prompt)


def plain_message(message: Message) -> Message:
    """A message with reasoning in its content and call arguments as an object, as TRL gives them."""
    plain = {key: value for key, value in message.items() if key != "reasoning_content"}
    plain["content"] = full_text(message)
    calls = message.get("tool_calls")
    if calls:
        plain["tool_calls"] = [_plain_call(call) for call in calls]
    return plain


def _plain_call(call: Mapping[str, Any]) -> Dict[str, Any]:
    function = dict(call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            function["arguments"] = json.loads(arguments)
        except ValueError:
            pass  # what the model wrote is no JSON; the text is handed on
    return {**call, "function": function}


def required_parameters(function: Any) -> List[str]:
    """The names that must be given."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]


def accepted(function: Any, offered: Mapping[str, Any]) -> Dict[str, Any]:
    """Of the offered values those that the function takes by name."""
    parameters = parameters_of(function)
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return dict(offered)
    names = {p.name for p in parameters if p.kind != p.POSITIONAL_ONLY}
    return {name: value for name, value in offered.items() if name in names}


def refuse_parameters(function: Any, refused: Mapping[str, str]) -> None:
    """DefinitionError when the function requires what Stoker cannot give; `refused` says why."""
    for name in required_parameters(function):
        if name in refused:
            raise DefinitionError("its parameter '%s' cannot be given: %s" % (name, refused[name]))


def one_of(values: Any, what: str) -> Any:
    """The one element of what a batched function returned for a batch of one."""
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
        raise BadResult("%s returned %s; a list of one value was expected" % (what, type(values).__name__))
    if len(values) != 1:
        raise BadResult("%s returned %d values for one completion" % (what, len(values)))
    return values[0]


def last_user_appended(messages: Sequence[Message], text: str) -> List[Message]:
    """The messages with a text added to the last of the user; a message of its own where there is none."""
    result = [dict(message) for message in messages]
    for message in reversed(result):
        if message.get("role") == "user":
            message["content"] = text_of(message) + text
            return result
    return result + [{"role": "user", "content": text}]


def name_of(thing: Any, name: Optional[str]) -> str:
    while not hasattr(thing, "__name__") and hasattr(thing, "func"):
        thing = thing.func
    return str(name or getattr(thing, "__name__", type(thing).__name__))
