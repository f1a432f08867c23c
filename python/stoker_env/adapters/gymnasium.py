"""Gymnasium environments whose observations and actions are words.

`reset(seed=..., options=...) -> (observation, info)`, `step(action) -> (observation, reward, terminated, truncated, info)`.
The score is the sum of the rewards of the steps. Gymnasium itself is not imported.
"""

import re
from typing import Any, Callable, Mapping, Optional

from ..definitions import BadResult, Definition, Environment, description_of, score_of
from ..types import Action, Observation, Task, as_messages
from .common import name_of


def definition(thing: Any, name: Optional[str] = None) -> Definition:
    """A class or a function that makes one: "gymnasium:MODULE:NAME" on the command line."""
    return environment(thing, name)


def environment(
    make: Callable[[], Any],
    name: Optional[str] = None,
    instructions: str = "",
    observe: Callable[[Any], Any] = lambda observation: observation,
    act: Optional[Callable[[str], Any]] = None,
    options: Callable[[Mapping[str, Any]], Optional[Mapping[str, Any]]] = lambda fields: dict(fields) or None,
) -> Environment:
    """An environment from what makes a Gymnasium environment.

    `instructions` is the first system message. `observe` turns an observation into a text or messages; others than
    texts become their `str`. `act` turns the policy's words into an action; a ValueError from it goes back to the
    policy as what it reads next, without a step. By default an action is the text itself, and for an action space with
    `n` (Discrete) the last whole number in it. `options` makes the options of `reset` from the row.
    """

    def make_episode() -> "_Episode":
        return _Episode(make(), instructions, observe, act, options)

    methods = {"reset": False, "step": False, "score": False, "close": False}
    return Environment(name_of(make, name), make_episode, description_of(make), (), methods)


class _Episode:
    def __init__(self, env: Any, instructions: str, observe: Any, act: Any, options: Any) -> None:
        self._env = env
        self._instructions = instructions
        self._observe = observe
        self._act = act
        self._options = options
        self._total = 0.0

    def reset(self, task: Task, seed: int) -> Observation:
        # Gymnasium's seeds go to NumPy, which takes 32 bits everywhere.
        arguments = {"seed": seed & 0xFFFFFFFF, "options": self._options(task.fields)}
        observation, _ = self._env.reset(**arguments)
        space = getattr(self._env, "action_space", None)
        if space is not None and callable(getattr(space, "seed", None)):
            space.seed(seed & 0xFFFFFFFF)
        system = [{"role": "system", "content": self._instructions}] if self._instructions else []
        return Observation([*system, *self._messages(observation)])

    def step(self, action: Action) -> Observation:
        try:
            chosen = self._chosen(action.content)
        except ValueError as error:
            return Observation(str(error))
        observation, reward, terminated, truncated, _ = self._env.step(chosen)
        number = score_of(reward).reward
        if number is None:
            raise BadResult("step gave no reward")
        self._total += number
        done = bool(terminated) or bool(truncated)
        # An episode that has come to its own end was not cut.
        return Observation(() if done else self._messages(observation), done, done and not terminated)

    def score(self) -> float:
        return self._total

    def close(self) -> None:
        if callable(getattr(self._env, "close", None)):
            self._env.close()

    def _messages(self, observation: Any) -> Any:
        shown = self._observe(observation)
        return as_messages(shown if isinstance(shown, (str, list, Mapping)) else str(shown))

    def _chosen(self, text: str) -> Any:
        if self._act is not None:
            return self._act(text)
        count = getattr(getattr(self._env, "action_space", None), "n", None)
        if count is None:
            return text.strip()
        start = int(getattr(self._env.action_space, "start", 0))
        found = re.findall(r"-?\d+", text)
        if not found or not start <= int(found[-1]) < start + int(count):
            raise ValueError("Answer with a number from %d to %d." % (start, start + int(count) - 1))
        return int(found[-1])
