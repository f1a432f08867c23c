"""What the process of docs/protocol_example.txt serves."""

import asyncio
import re

from stoker_env import Action, Episode, Failure, Observation, Score, Task, log, tool


class GuessNumber:
    """Guess a number from 1 to 10."""

    def reset(self, task: Task, seed: int):
        if "number" not in task.fields:
            raise Failure("environment", "bad_row", "The row has no 'number'.")
        self.number = task.fields["number"]
        self.guesses = 0
        return [{"role": "system", "content": "Answer with a number."}, "Guess a number from 1 to 10."]

    async def step(self, action: Action):
        if action.text == "wait":
            await asyncio.sleep(1000)
        found = re.search(r"\d+", action.text)
        if found is None:
            log("no number in '%s'" % action.text, "warning")
            return "Answer with a number."
        guess = int(found.group())
        self.guesses += 1
        if guess == self.number:
            return None
        if self.guesses >= 3:
            return Observation((), done=True, truncated=True)
        return "Higher." if guess < self.number else "Lower."

    def score(self) -> float:
        return 1 / self.guesses if self.guesses < 3 else 0.0

    def snapshot(self):
        return {"guesses": self.guesses}

    def restore(self, state, task: Task):
        self.number = task.fields["number"]
        self.guesses = state["guesses"]

    def close(self) -> None:
        self.number = 0

    @tool
    def hint(self) -> str:
        """Say whether the number is even."""
        return "odd" if self.number % 2 else "even"


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def exact(episode: Episode, number: int = 0):
    """1 for the right answer, not scored without one."""
    if not number:
        return None
    return episode.answer == str(number)


def brief(episode: Episode):
    """Shorter is better."""
    length = len(episode.answer or "")
    return Score(1 / max(1, length), info={"characters": length})
