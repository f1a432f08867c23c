"""What user code is given and may return."""

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

Message = Dict[str, Any]
#: What becomes messages: a text (a user's message), a message, or a list of both.
Messages = Union[str, Message, Sequence[Union[str, Message]]]


@dataclasses.dataclass(frozen=True)
class Task:
    """A row of the task data."""

    id: str
    fields: Mapping[str, Any]

    def messages(self) -> List[Message]:
        """The conversation that the row itself opens: its `messages`, `prompt` or `question`; empty without one."""
        for name in ("messages", "prompt", "question"):
            value = self.fields.get(name)
            if value is not None:
                return as_messages(value)
        return []


@dataclasses.dataclass(frozen=True)
class Action:
    """A turn of the policy."""

    text: str
    content: str
    turn: int = 0
    tool_calls: Sequence[Mapping[str, Any]] = ()
    tool_results: Sequence[Message] = ()

    def __str__(self) -> str:
        return self.content


@dataclasses.dataclass(frozen=True)
class Episode:
    """A finished conversation, as a reward sees it."""

    messages: Sequence[Message]
    task: Task
    outcome: str = "done"
    id: Optional[str] = None
    prompt_messages: Optional[int] = None

    @property
    def prompt(self) -> Sequence[Message]:
        """The messages before the policy's first turn."""
        return self.messages[: self._prompt_length()]

    @property
    def completion(self) -> Sequence[Message]:
        """Everything from the policy's first turn on, tool results included."""
        return self.messages[self._prompt_length() :]

    @property
    def turns(self) -> int:
        """How many turns the policy had."""
        return sum(1 for message in self.completion if message.get("role") == "assistant")

    @property
    def answer(self) -> Optional[str]:
        """What the policy said last; None when the conversation does not end with words of it."""
        completion = self.completion
        if not completion or completion[-1].get("role") != "assistant" or completion[-1].get("tool_calls"):
            return None
        return text_of(completion[-1])

    def _prompt_length(self) -> int:
        if self.prompt_messages is not None:
            return self.prompt_messages
        for index, message in enumerate(self.messages):
            if message.get("role") == "assistant":
                return index
        return len(self.messages)


@dataclasses.dataclass(frozen=True)
class Observation:
    """What the policy reads next, for when a text is not enough.

    `truncated` goes with `done`: a limit of the environment ended the episode, not the task. `tools`, of `reset`
    only: the names of those tools of the environment that this episode offers.
    """

    messages: Messages = ()
    done: bool = False
    truncated: bool = False
    tools: Optional[Sequence[str]] = None


@dataclasses.dataclass(frozen=True)
class Score:
    """A reward with more to say. `reward` None: not scored, which is not zero. `success`: whether the episode counts as
    solved; None leaves it to Stoker, for which a first reward above 0 is a success and further ones say nothing.
    """

    reward: Optional[float]
    success: Optional[bool] = None
    info: Optional[Mapping[str, Any]] = None


def text_of(message: Mapping[str, Any]) -> str:
    """The content of a message as one text."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))


def as_messages(value: Any) -> List[Message]:
    """Messages from a text, a message or a list of both; TypeError for anything else."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, (list, tuple)):
        messages: List[Message] = []
        for part in value:
            messages += as_messages(part)
        return messages
    if isinstance(value, (dict, Mapping)):  # the former is what is nearly always there, and quicker told
        message = dict(value)
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            raise TypeError("a message has the role %r" % (message.get("role"),))
        content = message.get("content")
        if not isinstance(content, (str, list)) and not (content is None and message.get("tool_calls")):
            raise TypeError("the content of a message is of type %s" % type(content).__name__)
        return [message]
    raise TypeError("expected a text or messages, found %s" % type(value).__name__)
