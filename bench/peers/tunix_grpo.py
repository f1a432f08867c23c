"""Steps of Tunix's GRPO learners on the job of small_model.py.

  tunix_grpo.py batched|agentic

batched: rl.grpo, which samples a step's sequences in one call. agentic: rl.agentic, an episode of one turn a sample, 64 at once.
Both compute in float32 with a mesh of one device, as its examples have a mesh. Answers with the steps a second of the fastest of
some: sampling, decoding, rewards, gradients, the update and what else its loop does between two updates; compilation excluded.
Needs google-tunix and jax; run by models.py.
"""
import sys

import jax
import numpy
import optax
from absl import logging
from flax import nnx
from tunix.rl import rl_cluster
from tunix.rl.rollout import base_rollout

import small_model
from serving import Steps


class Parser:
    """Joins contents without control tokens, so that a prompt has its 32 tokens."""

    assistant_token = ""

    def parse(self, messages, add_generation_prompt=False, is_first_msg=False):
        return " ".join(str(numpy.asarray(message["content"]).item()) for message in messages if message["content"])

    def update_assistant_end_tokens(self, tokens):
        return tokens, 0


class Batches:
    """Batches of prompts, as many as are asked for."""

    def __iter__(self):
        for step in range(small_model.UNTIL_STOPPED):
            yield {"prompts": numpy.array(small_model.prompts(small_model.PROMPTS, step))}


def reward(prompts, completions, **_):
    return small_model.even_share(completions)


def make_cluster(mesh, batched):
    with mesh:
        model = small_model.tunix_model("float32")
    micro_batches = {"rollout_micro_batch_size": small_model.PROMPTS, "compute_logps_micro_batch_size": small_model.PROMPTS}
    training = rl_cluster.RLTrainingConfig(
        actor_optimizer=optax.adamw(small_model.LEARNING_RATE), eval_every_n_steps=10**9, max_steps=small_model.UNTIL_STOPPED,
        mini_batch_size=small_model.PROMPTS, train_micro_batch_size=small_model.PROMPTS, **(micro_batches if batched else {}))
    rollout = base_rollout.RolloutConfig(
        max_prompt_length=small_model.PROMPT_TOKENS, max_tokens_to_generate=small_model.NEW_TOKENS, temperature=1.0, top_p=1.0,
        return_logprobs=True, kv_cache_size=small_model.PROMPT_TOKENS + small_model.NEW_TOKENS, eos_tokens=[small_model.END])
    roles = (rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT)
    config = rl_cluster.ClusterConfig(role_to_mesh={role: mesh for role in roles}, rollout_engine="vanilla", offload_to_cpu=False,
                                      training_config=training, rollout_config=rollout)
    return rl_cluster.RLCluster(actor=model, tokenizer=small_model.tunix_tokenizer(), cluster_config=config)


def watch(cluster):
    """Has the end of each update reported."""
    steps, update_actor = Steps(), cluster.update_actor

    def update(*arguments, **options):
        result = update_actor(*arguments, **options)
        jax.block_until_ready(jax.tree.leaves(nnx.state(cluster.actor_trainer.model, nnx.Param)))
        steps.ended()
        return result

    cluster.update_actor = update


def make_learner(cluster, batched):
    common = {"num_generations": small_model.SAMPLES, "num_iterations": 1, "beta": 0.0}
    if batched:
        from tunix.rl.grpo import grpo_learner
        return grpo_learner.GRPOLearner(cluster, grpo_learner.GRPOConfig(**common), reward_fns=reward)
    from tunix.rl.agentic import agentic_grpo_learner
    config = agentic_grpo_learner.GRPOConfig(**common, max_response_length=small_model.NEW_TOKENS, max_concurrency=64,
                                             system_prompt="")
    return agentic_grpo_learner.GRPOLearner(cluster, config, reward_fns=reward, chat_parser=Parser())


def main():
    batched = {"batched": True, "agentic": False}[sys.argv[1]]
    logging.set_verbosity(logging.ERROR)
    mesh = small_model.tunix_mesh()
    cluster = make_cluster(mesh, batched)
    watch(cluster)
    with mesh:
        make_learner(cluster, batched).train(Batches())


main()
