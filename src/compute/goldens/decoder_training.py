#!/usr/bin/env python3
"""Makes src/compute/cpu/testdata/decoder_training.json again: loss, gradient norm and all gradients of small
transformers over 20 AdamW steps, by JAX in float64, an oracle that shares no code with Stoker.

Usage: src/compute/goldens/make.sh [--check]
"""

import json
import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy

jax.config.update("jax_enable_x64", True)

STEPS = 20
OPTIMIZER = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
             "max_gradient_norm": 1.5}
BASE = {"vocab_size": 21, "hidden_size": 12, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 20, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0}
CASES = [
    {"name": "qwen3_untied", "model_type": "qwen3", "qk_norm": True, "attention_bias": False,
     "tie_word_embeddings": False, "temperature": 1.0},
    {"name": "qwen2_tied", "model_type": "qwen2", "qk_norm": False, "attention_bias": True,
     "tie_word_embeddings": True, "temperature": 0.7},
]


def manifest(c):
    """Names and shapes in Stoker's order."""
    d, q, kv = c["hidden_size"], c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    result = [("model.embed_tokens.weight", (c["vocab_size"], d))]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        result += [(p + "input_layernorm.weight", (d,)), (p + "self_attn.q_proj.weight", (q, d)),
                   (p + "self_attn.k_proj.weight", (kv, d)), (p + "self_attn.v_proj.weight", (kv, d))]
        if c["attention_bias"]:
            result += [(p + f"self_attn.{w}_proj.bias", (n,)) for w, n in (("q", q), ("k", kv), ("v", kv))]
        if c["qk_norm"]:
            result += [(p + f"self_attn.{w}_norm.weight", (c["head_dim"],)) for w in "qk"]
        f = c["intermediate_size"]
        result += [(p + "self_attn.o_proj.weight", (d, q)), (p + "post_attention_layernorm.weight", (d,)),
                   (p + "mlp.gate_proj.weight", (f, d)), (p + "mlp.up_proj.weight", (f, d)),
                   (p + "mlp.down_proj.weight", (d, f))]
    result.append(("model.norm.weight", (d,)))
    if not c["tie_word_embeddings"]:
        result.append(("lm_head.weight", (c["vocab_size"], d)))
    return result


def initial_weights(c):
    """Element i of all weights in order is noise(i) in [-0.5, 0.5), a multiple of 2^-24; vectors get a fifth of it
    (norms around 1), matrices 2 / sqrt(fan_in) of it, rounded to float32."""
    weights, index = {}, 0
    for name, shape in manifest(c):
        count = math.prod(shape)
        noise = [(((i * 2654435761 + 12345) % 2**32) >> 8) / 2**24 - 0.5 for i in range(index, index + count)]
        index += count
        if len(shape) == 1:
            offset = 0.0 if name.endswith("bias") else 1.0
            values = [offset + 0.2 * x for x in noise]
        else:
            values = [x * 2 / math.sqrt(shape[1]) for x in noise]
        weights[name] = jnp.asarray(numpy.array(values, dtype=numpy.float32).astype(numpy.float64).reshape(shape))
    return weights


def sequences(c):
    return [[(s * 5 + i * i * 3 + i * 7) % c["vocab_size"] for i in range(length)]
            for s, length in enumerate((11, 17, 8))]


def rms_norm(x, weight, c):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + numpy.float64(numpy.float32(c["rms_norm_eps"]))) * weight


def rotate(x):
    """x: [T, heads, size]; halves are rotated against each other."""
    length, _, size = x.shape
    angle = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(0, size, 2) / size)[None, :]
    cosine, sine = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    a, b = x[..., :size // 2], x[..., size // 2:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


def log_probabilities(w, c, tokens):
    """[T, V] of the token that follows each."""
    heads, kv_heads, size = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    x = w["model.embed_tokens.weight"][jnp.asarray(tokens)]
    length = len(tokens)
    mask = jnp.tril(jnp.ones((length, length), bool))
    for layer in range(c["num_hidden_layers"]):
        def get(name):
            return w[f"model.layers.{layer}.{name}"]

        h = rms_norm(x, get("input_layernorm.weight"), c)

        def project(which, count):
            y = h @ get(f"self_attn.{which}_proj.weight").T
            if c["attention_bias"]:
                y = y + get(f"self_attn.{which}_proj.bias")
            y = y.reshape(length, count, size)
            if c["qk_norm"] and which in "qk":
                y = rms_norm(y, get(f"self_attn.{which}_norm.weight"), c)
            return y if which == "v" else rotate(y)

        q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads)
        k, v = (jnp.repeat(y, heads // kv_heads, axis=1) for y in (k, v))
        scores = jnp.einsum("qhd,khd->hqk", q, k) / math.sqrt(size)
        weights = jax.nn.softmax(jnp.where(mask[None], scores, -jnp.inf), axis=-1)
        attended = jnp.einsum("hqk,khd->qhd", weights, v).reshape(length, -1)
        x = x + attended @ get("self_attn.o_proj.weight").T
        h = rms_norm(x, get("post_attention_layernorm.weight"), c)
        gate, up = h @ get("mlp.gate_proj.weight").T, h @ get("mlp.up_proj.weight").T
        x = x + (jax.nn.silu(gate) * up) @ get("mlp.down_proj.weight").T
    x = rms_norm(x, w["model.norm.weight"], c)
    head = w["model.embed_tokens.weight"] if c["tie_word_embeddings"] else w["lm_head.weight"]
    return jax.nn.log_softmax(x @ head.T / c["temperature"], axis=-1)


def loss_of(w, c):
    """Mean negative log-probability of every token but the first of each sequence."""
    total, count = 0.0, 0
    for tokens in sequences(c):
        log_p = log_probabilities(w, c, tokens)
        total -= jnp.sum(log_p[jnp.arange(len(tokens) - 1), jnp.asarray(tokens[1:])])
        count += len(tokens) - 1
    return total / count


def run_case(case):
    c = {**BASE, **case}
    w = initial_weights(c)
    gradient_of = jax.jit(jax.value_and_grad(lambda values: loss_of(values, c)))
    m = {name: jnp.zeros_like(x) for name, x in w.items()}
    v = {name: jnp.zeros_like(x) for name, x in w.items()}
    losses, norms, first = [], [], None
    o = OPTIMIZER
    for step in range(1, STEPS + 1):
        loss, g = gradient_of(w)
        if first is None:
            first = {name: [float(f"{x:.7g}") for x in numpy.asarray(g[name]).ravel()] for name, _ in manifest(c)}
        norm = math.sqrt(sum(float(jnp.sum(x * x)) for x in g.values()))
        losses.append(float(f"{loss:.10g}"))
        norms.append(float(f"{norm:.10g}"))
        scale = min(1.0, o["max_gradient_norm"] / (norm + 1e-6))
        for name in w:
            x = g[name] * scale
            m[name] = o["beta1"] * m[name] + (1 - o["beta1"]) * x
            v[name] = o["beta2"] * v[name] + (1 - o["beta2"]) * x * x
            decay = o["weight_decay"] if w[name].ndim > 1 else 0.0
            update = (m[name] / (1 - o["beta1"] ** step)) / (jnp.sqrt(v[name] / (1 - o["beta2"] ** step)) + o["epsilon"])
            w[name] = w[name] * (1 - o["learning_rate"] * decay) - o["learning_rate"] * update
    return {"config": c, "losses": losses, "gradient_norms": norms, "gradients": first}


def main():
    text = json.dumps({"optimizer": OPTIMIZER, "cases": [run_case(case) for case in CASES]},
                      separators=(",", ":")) + "\n"
    target = Path(__file__).resolve().parents[1] / "cpu/testdata/decoder_training.json"
    if sys.argv[1:] == ["--check"]:
        recorded, made = json.loads(target.read_text()), json.loads(text)
        worst = max(abs(a - b) / (abs(b) + 1e-4) for a, b in zip(numbers(recorded), numbers(made), strict=True))
        if worst > 1e-5:
            sys.exit(f"{target} differs from what the oracle gives now by {worst:.2g} (relative).")
    else:
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


def numbers(value):
    """Every number of a JSON value, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from numbers(element)
    elif isinstance(value, (int, float)):
        yield float(value)


main()
