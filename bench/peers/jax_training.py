"""JAX training Tunix's Qwen3 of 3.3 million parameters: jitted forward, backward and optax's AdamW of 64 rows of 96 tokens.

  jax_training.py FORM

FORM: float32 or bfloat16, in which it computes; parameters are float32. Answers with the tokens a second of the fastest of some
steps, compilation excluded. Needs google-tunix and jax; run by models.py.
"""
import sys
import time

import jax
import jax.numpy as jnp
import optax
from flax import nnx

import small_model
from serving import serve

ROWS, TOKENS, STEPS = 64, small_model.PROMPT_TOKENS + small_model.NEW_TOKENS, 3


def loss_of(model, ids):
    positions = jnp.broadcast_to(jnp.arange(TOKENS), ids.shape)
    mask = jnp.broadcast_to(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), (ROWS, TOKENS, TOKENS))
    logits, _ = model(ids, positions, None, mask)
    scores = jax.nn.log_softmax(logits[:, :-1].astype(jnp.float32), -1)
    return -jnp.take_along_axis(scores, ids[:, 1:, None], -1).mean()


def update(model, optimizer, ids):
    loss, gradients = nnx.value_and_grad(loss_of)(model, ids)
    optimizer.update(model, gradients)
    return loss


def main():
    with small_model.tunix_mesh():
        model = small_model.tunix_model(sys.argv[1])
        optimizer = nnx.Optimizer(model, optax.adamw(small_model.LEARNING_RATE), wrt=nnx.Param)
        ids = jax.random.randint(jax.random.key(0), (ROWS, TOKENS), 1, small_model.VOCABULARY)
        jitted = nnx.jit(update, donate_argnums=(0, 1))

        def step():
            start = time.perf_counter()
            jax.block_until_ready((jitted(model, optimizer, ids), jax.tree.leaves(nnx.state(model, nnx.Param))))
            return time.perf_counter() - start

        for _ in range(2):
            step()
        serve(lambda: {"training": ROWS * TOKENS / min(step() for _ in range(STEPS))})


main()
