"""verl's custom reward function: compute_score(data_source, solution_str, ground_truth, extra_info).

`ground_truth` is the row's `reward_model.ground_truth`, or its column `ground_truth`. `solution_str` is what the policy
wrote, its turns joined by a line feed. `extra_info` is the row's, with `num_turns`. The result is a number, a dictionary
with `score`, or a sequence that begins with the number.
"""

from typing import Any, Callable, Dict, Mapping, Optional

from ..definitions import BadResult, Definition, Reward, description_of, is_async, score_of
from ..types import Episode, Score
from .common import accepted, name_of, policy_text


def definition(thing: Any, name: Optional[str] = None) -> Definition:
    """ "verl:MODULE:NAME" on the command line."""
    return reward(thing, name)


def reward(function: Callable[..., Any], name: Optional[str] = None, **reward_kwargs: Any) -> Reward:
    """A reward from a `compute_score`, synchronous or async; `reward_kwargs` are handed on, as in verl's configuration."""
    called = name_of(function, name)

    if is_async(function):

        async def score_async(episode: Episode) -> Score:
            return _score(await function(**_arguments(function, episode, reward_kwargs)))

        return Reward(called, score_async, description_of(function))

    def score(episode: Episode) -> Score:
        return _score(function(**_arguments(function, episode, reward_kwargs)))

    return Reward(called, score, description_of(function))


def _arguments(function: Callable[..., Any], episode: Episode, reward_kwargs: Mapping[str, Any]) -> Dict[str, Any]:
    fields = episode.task.fields
    model = fields.get("reward_model")
    truth = model.get("ground_truth") if isinstance(model, Mapping) else fields.get("ground_truth")
    if truth is None:
        raise BadResult("the row has neither 'reward_model.ground_truth' nor 'ground_truth'")
    extra = fields.get("extra_info")
    offered = {
        "data_source": fields.get("data_source"),
        "solution_str": policy_text(episode),
        "ground_truth": truth,
        "extra_info": {**(extra if isinstance(extra, Mapping) else {}), "num_turns": episode.turns},
    }
    return {**accepted(function, offered), **reward_kwargs}


def _score(value: Any) -> Score:
    if isinstance(value, Mapping):
        if "score" not in value:
            raise BadResult("compute_score returned a dictionary without 'score'")
        info = {str(k): v for k, v in value.items() if k != "score" and isinstance(v, (str, int, float, bool))}
        return Score(score_of(value["score"]).reward, info=info or None)
    if isinstance(value, (list, tuple)):
        if not value:
            raise BadResult("compute_score returned an empty sequence")
        value = value[0]
    return score_of(value)
