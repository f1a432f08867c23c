"""Rewards for Stoker: functions over a whole conversation.

python3 -m stoker_env try my_rewards:right_number my_rewards:brief
"""

import re
from typing import Optional

from stoker_env import Episode, Score


def right_number(episode: Episode, answer: str) -> Optional[float]:
    """1 when the last number of the answer is the row's `answer`."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", episode.answer or "")
    return 1.0 if numbers and float(numbers[-1]) == float(answer) else 0.0


async def brief(episode: Episode) -> Score:
    """Falls from 1 to 0 over the first thousand characters that the policy writes."""
    length = sum(len(m.get("content") or "") for m in episode.completion if m["role"] == "assistant")
    return Score(max(0.0, 1 - length / 1000), info={"characters": length})
