"""Reward functions, an environment and an agent as Tunix takes them.

python3 -m stoker_env try tunix:tunix_tasks:check_answer tunix:tunix_tasks:exact_match tunix_tasks:guessing
"""

import re
from types import SimpleNamespace

from stoker_env.adapters import tunix


def check_answer(prompts, completions, answer, **kwargs):
    """3 points for the exact answer, 1 for one that holds it."""
    scores = []
    for completion, truth in zip(completions, answer):
        guess = re.search(r"<answer>(.*?)</answer>", completion, re.DOTALL)
        text = guess.group(1).strip() if guess else ""
        scores.append(3.0 if text == truth else 1.0 if truth in completion else 0.0)
    return scores


def exact_match(task, action):
    """An agentic reward: of the task and the policy's answer."""
    score = 1.0 if action.strip() == str(task["ground_truth"]).strip() else 0.0
    return SimpleNamespace(reward=score, metadata={"exact_match": score})


class GuessingEnv:
    """Guess a number; at most `max_steps` turns. (In Tunix a subclass of BaseTaskEnv.)"""

    def __init__(self, task, *, group_id=0, pair_index=0, max_steps=4, **kwargs):
        self.task = task
        self.max_steps = max_steps
        self.step_count = 0

    def reset(self):
        self.step_count = 0
        return {"question": self.task["question"]}, {}

    def step(self, action):
        self.step_count += 1
        if action == self.task["number"]:
            return {}, 1.0, True, {}
        info = {"max_steps_reached": True} if self.step_count >= self.max_steps else {}
        return "higher" if action < self.task["number"] else "lower", 0.0, bool(info), info

    def close(self):
        pass


class GuessingAgent:
    """Parses the number from what the model says. (In Tunix a subclass of ConversationAgentBase.)"""

    def __init__(self, system_prompt=""):
        self.system_prompt = system_prompt
        self.reset()

    def reset(self):
        self.chat_completions = [{"role": "system", "content": self.system_prompt}]

    def update_from_env(self, observation, reward, done, info, **kwargs):
        text = observation["question"] if isinstance(observation, dict) and observation else observation
        if text:
            self.chat_completions.append({"role": "user", "content": text})

    def update_from_model(self, response, **kwargs):
        self.chat_completions.append({"role": "assistant", "content": response})
        found = re.search(r"\d+", response)
        return SimpleNamespace(action=int(found.group()) if found else -1)


guessing = tunix.environment(GuessingEnv, GuessingAgent, name="guessing", system_prompt="Say a number.")
