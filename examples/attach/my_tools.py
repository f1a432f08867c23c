"""Tools for Stoker: functions with type hints and a docstring.

python3 -m stoker_env try my_tools:convert my_tools:look_up
"""

import asyncio
from typing import Annotated, Literal

from stoker_env import ToolError

_METRES = {"m": 1.0, "km": 1000.0, "mile": 1609.344}
_CAPITALS = {"france": "Paris", "japan": "Tokyo", "kenya": "Nairobi"}


def convert(value: float, unit: Literal["m", "km", "mile"], to: Literal["m", "km", "mile"] = "m") -> float:
    """Convert a length.

    Args:
        value: The length.
        unit: Its unit.
        to: The unit that is wanted.
    """
    return value * _METRES[unit] / _METRES[to]


async def look_up(country: Annotated[str, "Its English name."]) -> str:
    """Say the capital of a country."""
    await asyncio.sleep(0)  # here one would ask a server
    if country.lower() not in _CAPITALS:
        raise ToolError("no capital of '%s' is known." % country)
    return _CAPITALS[country.lower()]
