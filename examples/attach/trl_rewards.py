"""Rewards, tools and an environment as TRL's GRPOTrainer takes them, untouched.

python3 -m stoker_env try trl:trl_rewards:boxed_reward trl:trl_rewards:length_reward trl_rewards:multiply
python3 -m stoker_env try trl:trl_rewards:IncrementEnv
"""

import re


def boxed_reward(completions, ground_truth, **kwargs):
    """1 for the right \\boxed{} answer; None, so not scored, for rows without one."""
    rewards = []
    for completion, truth in zip(completions, ground_truth):
        if truth is None:
            rewards.append(None)
            continue
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        match = re.search(r"\\boxed\{(.*?)\}", text)
        rewards.append(1.0 if match and match.group(1) == truth else 0.0)
    return rewards


async def length_reward(prompts, completions, log_metric=None, **kwargs):
    """Shorter is better."""
    lengths = [len(c if isinstance(c, str) else c[-1]["content"]) for c in completions]
    if log_metric is not None:
        log_metric("mean_length", sum(lengths) / len(lengths))
    return [-0.001 * length for length in lengths]


def multiply(a: int, b: int) -> int:
    """
    Multiplies two integers.

    Args:
        a: The first integer.
        b: The second integer.

    Returns:
        The product of the two integers.
    """
    return a * b


class IncrementEnv:
    """A counter to be set."""

    def __init__(self):
        self._counter = 0
        self._target = 0

    def reset(self, target=0, **kwargs):
        self._counter = 0
        self._target = target
        return " The target is %d." % target

    def increment(self, step: int) -> int:
        """
        Increment the counter.

        Args:
            step: By how much.

        Returns:
            The new value.
        """
        self._counter += step
        return self._counter

    def get_reward(self) -> float:
        return 1.0 if self._counter == self._target else 0.0


class SecretEnv:
    """A word to be found out."""

    def reset(self, secret="", **kwargs):
        self._secret = secret
        self._asked = 0

    async def letter(self, index: int) -> str:
        """
        Tell a letter of the word.

        Args:
            index: Which, from 0.

        Returns:
            The letter.
        """
        self._asked += 1
        return self._secret[index]


# As `environment_factory` may be: each row's column `environment` names one of them.
ENVIRONMENTS = {"increment": IncrementEnv, "secret": SecretEnv}
