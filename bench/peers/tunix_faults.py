"""What Tunix's rollout orchestrator does in five situations; prints one JSON object a line. Sixteen episodes of two turns in groups
of eight, eight at once, with a model that answers at once, unless a situation says otherwise.

  tunix_faults.py [SITUATION ...]

slow_consumer: the consumer awaits 0.3 s after every group, six groups. raising_environment: one episode's step raises. hung_reset:
one episode's reset never returns; 5 s. weight_update: weights are to be updated while one episode waits in its environment for 2 s.
partial_group: twenty episodes, the last group has four.
"""
import asyncio
import json
import os
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

GROUP, CONCURRENT = 8, 8
closed = []


class Game(base_environment.BaseTaskEnv):
    """`reset_seconds` and `step_seconds` are how long it takes; with `raises` its step does not succeed."""

    def _initial_observation(self):
        time.sleep(self.extra_kwargs.get("reset_seconds", 0))
        return self.task

    def _step_impl(self, action):
        if self.extra_kwargs.get("raises"):
            raise RuntimeError("the environment is broken")
        time.sleep(self.extra_kwargs.get("step_seconds", 0))
        return base_environment.EnvStepResult("Go on.", 1.0, False, {})

    def close(self):
        closed.append(self.extra_kwargs["number"])


def answer(chat, env, **_):
    env.task["policy_version"] = 0
    return base_rollout.RolloutOutput(text=["Yes."], logits=None, tokens=[[1, 2]],
                                      left_padded_prompt_tokens=np.zeros((1, 4), np.int32), logprobs=[[-0.5, -0.5]])


class Run:
    def __init__(self, episodes, faults):
        self.lock = utils.RolloutSyncLock()
        self._episodes, self._faults = episodes, faults
        self._orchestrator = rollout_orchestrator.RolloutOrchestrator(
            rollout_sync_lock=self.lock, engine_kwargs={"model_call": answer, "timeout": 1800.0}, max_concurrency=CONCURRENT)
        self.groups = []
        self.figures = {}
        self.beside = None  # a thread that adds figures

    def _pairs(self):
        for i in range(self._episodes):
            yield (model_agent.ModelAgent(system_prompt="Play."),
                   Game({"prompts": "Begin."}, max_steps=2, number=i, group_id=i // GROUP, pair_index=i % GROUP,
                        **self._faults.get(i, {})))

    async def roll_out(self, consumer_seconds=0):
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=CONCURRENT + 1))
        producers = asyncio.create_task(self._orchestrator.run_producers_from_stream(
            pairs_stream=self._pairs(), group_size=GROUP, group_key_fn=lambda i, env, t: env.extra_kwargs["group_id"],
            collect_mode="Trajectory"))
        await asyncio.sleep(0)
        async for batch in self._orchestrator.yield_batches(batch_size=GROUP):
            self.groups.append(len(batch))
            if consumer_seconds:
                await asyncio.sleep(consumer_seconds)
        await producers

    def report(self, situation, limit_seconds, **more):
        """Ends the process: a thread that hangs would hold up every other end."""
        asyncio.run(self._report(situation, limit_seconds, more))

    async def _report(self, situation, limit_seconds, more):
        outcome = "ended"
        try:
            await asyncio.wait_for(self.roll_out(**more), limit_seconds)
        except TimeoutError:
            outcome = f"had not ended after {limit_seconds} s"
        except Exception as error:
            outcome = f"raised {type(error).__name__}: {error}"
        if self.beside:
            self.beside.join(5)
        print(json.dumps({"situation": situation, "outcome": outcome, "episodes": self._episodes, "received": sum(self.groups),
                          "environments_closed": len(closed), **self.figures}), flush=True)
        os._exit(0)


def slow_consumer():
    Run(48, {}).report("slow_consumer", 20, consumer_seconds=0.3)


def raising_environment():
    Run(16, {3: {"raises": True}}).report("raising_environment", 20)


def hung_reset():
    Run(16, {3: {"reset_seconds": 86400}}).report("hung_reset", 5)


def weight_update():
    run = Run(16, {3: {"step_seconds": 2}})

    def update():
        time.sleep(0.2)  # by now all but one of the first episodes are over
        begin = time.perf_counter()
        run.lock.acquire_weight_sync()
        run.figures = {"update_waited_seconds": round(time.perf_counter() - begin, 2)}
        run.lock.release_weight_sync()

    run.beside = threading.Thread(target=update, daemon=True)
    run.beside.start()
    run.report("weight_update", 20)


def partial_group():
    Run(20, {}).report("partial_group", 20)


SITUATIONS = {f.__name__: f for f in (slow_consumer, raising_environment, hung_reset, weight_update, partial_group)}


def main():
    unknown = set(sys.argv[1:]) - set(SITUATIONS)
    if unknown:
        sys.exit(f"tunix_faults: there is no {', '.join(sorted(unknown))}; there are {', '.join(SITUATIONS)}")
    logging.set_verbosity(logging.FATAL)
    for name in sys.argv[1:] or SITUATIONS:
        if os.fork() == 0:
            SITUATIONS[name]()
        os.wait()


if __name__ == "__main__":
    main()
