"""Tunix's reward functions, and its agentic environment and agent classes.

A reward function is called as `reward_fn(prompts=[...], completions=[...], **columns)` with texts, each list of one
element. A function of `task` and `action` is one of its agentic rewards, whose result has `.reward`. Environments are
made as Tunix makes them: `env_class(row, group_id=..., pair_index=..., **env_kwargs)`, `reset() -> (observation, info)`,
`step(action) -> (observation, reward, done, info)`; agents as `agent_class(system_prompt=..., **agent_kwargs)`.
"""

import inspect
import json
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..definitions import Definition, Environment, Reward, description_of, is_async, score_of
from ..types import Action, Episode, Message, Observation, Score, Task, as_messages
from .common import accepted, name_of, one_of, policy_text, prompt_text


def definition(thing: Any, name: Optional[str] = None) -> Definition:
    """A class is an environment without an agent, a function a reward: "tunix:MODULE:NAME" on the command line."""
    return environment(thing, name=name) if inspect.isclass(thing) else reward(thing, name)


def reward(function: Callable[..., Any], name: Optional[str] = None) -> Reward:
    """A reward from a batched reward function or an agentic one."""
    called = name_of(function, name)
    parameters = list(inspect.signature(function).parameters)
    agentic = parameters[:2] == ["task", "action"]

    def call(episode: Episode) -> Any:
        if agentic:
            return function(task=dict(episode.task.fields), action=episode.answer or "")
        offered: Dict[str, Any] = {
            k: [v] for k, v in episode.task.fields.items() if k not in ("prompts", "completions")
        }
        offered.update(prompts=[prompt_text(episode)], completions=[policy_text(episode)])
        if "mode" in parameters:
            offered["mode"] = "train"
        return function(**accepted(function, offered))

    def score(value: Any) -> Score:
        if agentic:
            return score_of(_agentic(value))
        return score_of(one_of(value, called))

    if is_async(function):

        async def score_async(episode: Episode) -> Score:
            return score(await call(episode))

        return Reward(called, score_async, description_of(function))
    return Reward(called, lambda episode: score(call(episode)), description_of(function))


def _agentic(output: Any) -> Any:
    if hasattr(output, "reward"):
        return output.reward
    if isinstance(output, Mapping) and "reward" in output:
        return output["reward"]
    return output


def environment(
    env_class: Callable[..., Any],
    agent_class: Optional[Callable[..., Any]] = None,
    name: Optional[str] = None,
    system_prompt: str = "",
    env_kwargs: Optional[Mapping[str, Any]] = None,
    agent_kwargs: Optional[Mapping[str, Any]] = None,
) -> Environment:
    """An environment from a Tunix environment class and, where there is one, its agent class.

    With an agent, what the policy reads is the agent's `chat_completions`, and what the environment steps on is the
    Action that `update_from_model` parses from the policy's text. Without one, a text is a user's message, the
    `question` or `prompt` of a dictionary likewise, and the environment steps on the text. The score is the sum of the
    rewards of the steps and of `final_reward_fn()` of the environment, where it has one.
    """
    env_arguments, agent_arguments = dict(env_kwargs or {}), dict(agent_kwargs or {})
    agent_arguments.setdefault("system_prompt", system_prompt)

    def make() -> "_Episode":
        return _Episode(env_class, agent_class, env_arguments, agent_arguments)

    methods = {"reset": False, "step": False, "score": False, "close": False}
    return Environment(name_of(env_class, name), make, description_of(env_class), (), methods)


class _Episode:
    def __init__(self, env_class: Any, agent_class: Any, env_arguments: Any, agent_arguments: Any) -> None:
        self._env_class = env_class
        self._env_arguments = env_arguments
        self._env: Any = None
        self._agent = agent_class(**agent_arguments) if agent_class is not None else None
        self._system_prompt = agent_arguments["system_prompt"] if agent_class is None else ""
        self._seen = 0
        self._total: Optional[float] = None

    def reset(self, task: Task) -> Observation:
        numbers = accepted(self._env_class, {"group_id": 0, "pair_index": 0})
        self._env = self._env_class(dict(task.fields), **{**numbers, **self._env_arguments})
        observation, info = self._env.reset()
        if self._agent is None:
            system: List[Message] = [{"role": "system", "content": self._system_prompt}] if self._system_prompt else []
            return Observation([*system, *_observed(observation)])
        self._agent.reset()
        self._agent.update_from_env(observation=observation, reward=0.0, done=False, info=info)
        return Observation(self._new_messages())

    def step(self, action: Action) -> Observation:
        acted: Any = action.text
        if self._agent is not None:
            acted = self._agent.update_from_model(action.text)
            acted = getattr(acted, "action", acted)
            self._seen = len(self._agent.chat_completions)
        observation, reward, done, info = self._env.step(acted)
        number = score_of(_agentic(reward)).reward
        if number is not None:
            self._total = (self._total or 0.0) + number
        truncated = bool(done) and isinstance(info, Mapping) and bool(info.get("max_steps_reached"))
        if self._agent is None:
            return Observation(() if done else _observed(observation), bool(done), truncated)
        self._agent.update_from_env(observation=observation, reward=reward, done=done, info=info)
        return Observation(() if done else self._new_messages(), bool(done), truncated)

    def score(self) -> Optional[float]:
        """None, so not scored, for an environment that gave no reward at all."""
        final = getattr(self._env, "final_reward_fn", None)
        number = score_of(_agentic(final())).reward if callable(final) else None
        rewards = [reward for reward in (self._total, number) if reward is not None]
        return sum(rewards) if rewards else None

    def close(self) -> None:
        if self._env is not None and callable(getattr(self._env, "close", None)):
            self._env.close()

    def _new_messages(self) -> List[Message]:
        assert self._agent is not None
        messages = self._agent.chat_completions[self._seen :]
        self._seen += len(messages)
        return [dict(message) for message in messages if message.get("role") != "assistant"]


def _observed(observation: Any) -> List[Message]:
    if isinstance(observation, Mapping):
        if "tool_outputs" in observation:
            outputs = observation["tool_outputs"]
            return [{"role": "tool", "tool_call_id": str(k), "content": str(v)} for k, v in outputs.items()]
        for key in ("messages", "question", "prompt", "prompts"):
            if observation.get(key):
                return as_messages(observation[key])
        return as_messages(json.dumps(dict(observation), ensure_ascii=False, default=str))
    return as_messages(observation)
