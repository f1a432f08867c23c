"""Tunix's rollout orchestrator with a model that costs nothing, in one configuration; prints its figures as JSON.

  tunix_orchestration.py bare|learner CONCURRENT EPISODES MEAN_SECONDS TOKENIZER

bare: neither tokenizer nor chat parser, trajectories as they come: the least that its engine does. learner: what its agentic
learner asks for, with a Qwen3 tokenizer (tokenizer.json or tokenizer.json.gz) and its own chat parser, tokens as result, and before
each turn the whole conversation rendered and encoded, as the learner's model call does. The model call is a function in the pool of
threads, the only kind that the package takes. Each turn waits lognormally, MEAN_SECONDS in the mean, the logarithm with deviation 1;
0: not at all. Four turns an episode, groups of eight.
"""
import asyncio
import gzip
import json
import math
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from absl import logging
from tunix.rl.agentic import utils
from tunix.rl.agentic.agents import model_agent
from tunix.rl.agentic.environments import base_environment
from tunix.rl.agentic.pipeline import rollout_orchestrator
from tunix.rl.rollout import base_rollout

TURNS, GROUP, SIGMA = 4, 8, 1.0
OBSERVATION = "The door is closed. You see a key on the table and a lamp. What now?"
ANSWER = "I pick up the key from the table and then open the door with it."
ANSWER_TOKENS = list(range(100, 116))
ANSWER_LOG_PROBABILITIES = [-0.5] * len(ANSWER_TOKENS)
PROMPT = np.zeros((1, 32), np.int32)


class Game(base_environment.BaseTaskEnv):
    def _initial_observation(self):
        return self.task

    def _step_impl(self, action):
        reward = 1.0 if self.step_count == self.max_steps else 0.0
        return base_environment.EnvStepResult(OBSERVATION, reward, False, {})


class Model:
    """Answers the same at once or after a wait that it remembers."""

    def __init__(self, mean_seconds, tokenizer, parser):
        self.waits = []  # (begin, seconds)
        self._mean, self._tokenizer, self._parser = mean_seconds, tokenizer, parser
        self._random, self._lock = random.Random(1), threading.Lock()

    def __call__(self, chat, env, **_):
        env.task["policy_version"] = 0
        if self._parser is not None:
            self._tokenizer.encode(self._parser.parse(messages=chat, add_generation_prompt=True, is_first_msg=True))
        if self._mean:
            with self._lock:
                seconds = self._random.lognormvariate(math.log(self._mean) - SIGMA**2 / 2, SIGMA)
                self.waits.append((time.perf_counter(), seconds))
            time.sleep(seconds)
        return base_rollout.RolloutOutput(text=[ANSWER], logits=None, tokens=[ANSWER_TOKENS],
                                          left_padded_prompt_tokens=PROMPT, logprobs=[ANSWER_LOG_PROBABILITIES])


async def roll_out(model, form, concurrent, episodes, tokenizer, parser):
    """Seconds of all episodes, and when each was begun."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=concurrent + 1))
    engine = {"model_call": model, "timeout": 1800.0}
    if parser is not None:
        engine.update(tokenizer=tokenizer, chat_parser=parser, max_response_length=100000)
    begun = []

    def pairs():
        for i in range(episodes):
            begun.append(time.perf_counter())
            task = {"prompts": "Find the treasure in the house."}
            yield (model_agent.ModelAgent(system_prompt="You play a text game."),
                   Game(task, max_steps=TURNS, group_id=i // GROUP, pair_index=i % GROUP))

    orchestrator = rollout_orchestrator.RolloutOrchestrator(
        rollout_sync_lock=utils.RolloutSyncLock(), engine_kwargs=engine, max_concurrency=concurrent)
    begin = time.perf_counter()
    producers = asyncio.create_task(orchestrator.run_producers_from_stream(
        pairs_stream=pairs(), group_size=GROUP, group_key_fn=lambda i, env, trajectory: env.extra_kwargs["group_id"],
        collect_mode="Trajectory" if form == "bare" else "Token"))
    await asyncio.sleep(0)
    received = 0
    async for batch in orchestrator.yield_batches(batch_size=GROUP):
        received += len(batch)
    await producers
    if received != episodes:
        raise RuntimeError(f"{received} of {episodes} episodes came back")
    return time.perf_counter() - begin, begun


def text_of(path):
    """Tokenizer and chat parser, as the learner has them."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast
    from tunix.generate.tokenizer_adapter import TokenizerAdapter
    from tunix.rl.agentic.parser.chat_template_parser import parser as chat_parser
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        loaded = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_buffer(file.read()), eos_token="<|im_end|>",
                                         pad_token="<|endoftext|>")
    tokenizer = TokenizerAdapter(loaded)
    tokenizer.encode("The first use is slow.")
    return tokenizer, chat_parser.QwenChatTemplateParser(loaded)


def main():
    form, concurrent, episodes, mean_seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    logging.set_verbosity(logging.ERROR)
    tokenizer = parser = None
    if form == "learner":
        tokenizer, parser = text_of(sys.argv[5])
    model = Model(mean_seconds, tokenizer, parser)
    seconds, begun = asyncio.run(roll_out(model, form, concurrent, episodes, tokenizer, parser))
    figures = {"turns_per_second": episodes * TURNS / seconds}
    if mean_seconds:
        # From when as many episodes as there may be are there until the last one begins.
        start, end = begun[concurrent - 1], begun[-1]
        busy = sum(max(0.0, min(b + s, end) - max(b, start)) for b, s in model.waits)
        figures["utilisation"] = busy / ((end - start) * concurrent)
        figures["utilisation_whole"] = sum(s for _, s in model.waits) / (seconds * concurrent)
    print(json.dumps(figures), flush=True)
    os._exit(0)  # its threads would hold up the end


if __name__ == "__main__":
    main()
