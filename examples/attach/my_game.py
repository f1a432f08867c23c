"""An environment for Stoker: a class with reset, step and close, and a tool.

python3 -m stoker_env try my_game:Corridor
"""

import random
from typing import List, Optional

from stoker_env import Action, Observation, Task, tool


class Corridor:
    """Find the door in a corridor, walking left or right."""

    def reset(self, task: Task, seed: int) -> str:
        self.length = int(task.fields.get("length", 5))
        self.door = random.Random(seed).randrange(self.length)
        self.place = self.length // 2
        self.steps: List[int] = []
        return "You stand in a corridor of %d places, at place %d. Say 'left', 'right' or 'open'." % (
            self.length,
            self.place,
        )

    def step(self, action: Action) -> Optional[Observation]:
        self.steps.append(self.place)
        word = action.content.strip().lower()
        if word == "open":
            return None  # the end: score() says how it went
        if len(self.steps) >= 2 * self.length:
            return Observation(done=True, truncated=True)
        move = {"left": -1, "right": 1}.get(word, 0)
        self.place = min(self.length - 1, max(0, self.place + move))
        return Observation("You are at place %d." % self.place)

    @tool
    def listen(self) -> str:
        """Listen for the draught of the door: says on which side it is."""
        if self.door == self.place:
            return "here"
        return "left" if self.door < self.place else "right"

    def score(self) -> float:
        return 1.0 if self.place == self.door else 0.0

    def close(self) -> None:
        self.steps.clear()
