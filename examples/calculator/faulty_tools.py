"""The calculator of python_tools.py in a world that fails: one call in twenty never returns, one in twenty raises."""

import random
import time

import python_tools
from stoker_env import Failure, episode_id

_HANGS = 0.05
_RAISES = 0.05


def calculator(expression: str) -> str:
    """Evaluates an arithmetic expression with + - * / ** and parentheses."""
    drawn = random.Random(episode_id()).random()
    if drawn < _HANGS:
        time.sleep(86400)
    if drawn < _HANGS + _RAISES:
        raise Failure("environment", "broken", "This calculator is out of order.")
    return python_tools.calculator(expression)
