"""Tools, environments and rewards in Python for Stoker, served from a process of their own.

python -m stoker_env serve my_module:my_reward my_module:MyEnvironment my_module:my_tool
python -m stoker_env try my_module:MyEnvironment
"""

from .context import cancelled, episode_id, log, remaining_seconds
from .definitions import Environment, Reward, Tool, ToolError, reward, tool
from .protocol import VERSION as __version__
from .protocol import Failure
from .types import Action, Episode, Message, Messages, Observation, Score, Task

__all__ = [
    "Action",
    "Environment",
    "Episode",
    "Failure",
    "Message",
    "Messages",
    "Observation",
    "Reward",
    "Score",
    "Task",
    "Tool",
    "ToolError",
    "__version__",
    "cancelled",
    "episode_id",
    "log",
    "remaining_seconds",
    "reward",
    "tool",
]
