#!/usr/bin/env python3
"""Small random models of every family, as transformers writes them, with the logits and the gradients that it computes.

  make_families.py            writes families/NAME/: config.json, model*.safetensors, golden.safetensors
  make_families.py --check    computes the numbers of the recorded directories again; fails where they differ
                              (1e-5, in bfloat16 3e-2)

golden.safetensors holds `ids` [T], `logits` [T, V] and, as `gradient.TENSOR`, the gradients of the mean loss over the
next tokens, all of the weights in float32, and the same of the model computed in bfloat16 under `bfloat16.`, where a
sum's order, which differs between machines, changes the last places; the weights themselves are stored in bfloat16.
Run by make.sh.
"""
import glob
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
LENGTH = 40
BASE = {"vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "intermediate_size": 24, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0}
# The sizes of Gemma's heads need not fill the stream, and its caps are low enough to bend every score.
GEMMA = {"head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window": 7, "tie_word_embeddings": True}
CASES = {
    "llama2": ("llama", {"tie_word_embeddings": False, "rms_norm_eps": 1e-5}),
    "llama3": ("llama", {"tie_word_embeddings": True,
                         "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
                                             "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                             "original_max_position_embeddings": 32}}),
    "llama_linear": ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}),
    "llama_dynamic": ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}),
    "llama_yarn": ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                                                 "original_max_position_embeddings": 16}}),
    "mistral": ("mistral", {"sliding_window": 9}),
    "qwen2": ("qwen2", {"use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"tie_word_embeddings": True}),
    "gemma2": ("gemma2", {**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("gemma3_text", {**GEMMA, "num_hidden_layers": 3, "num_key_value_heads": 1,
                               "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                               "rope_parameters": {
                                   "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
}
SHARDED = ("gemma3",)


def make(name):
    model_type, options = CASES[name]
    torch.manual_seed(sorted(CASES).index(name))
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **{**BASE, **options}))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.shape[1] ** -0.5)
            else:
                ones = 1.0 if key.endswith("norm.weight") and not model_type.startswith("gemma") else 0.0
                parameter.normal_(ones, 0.3)
    folder = os.path.join(FOLDER, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="8KB" if name in SHARDED else "1GB")
    os.remove(os.path.join(folder, "generation_config.json"))


def compute(name):
    return {**compute_in(name, torch.float32, ""), **compute_in(name, torch.bfloat16, "bfloat16.")}


def compute_in(name, dtype, prefix):
    model, info = AutoModelForCausalLM.from_pretrained(
        os.path.join(FOLDER, name), dtype=dtype, attn_implementation="eager", output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[key]:
            sys.exit(f"src/model/goldens/families/{name}: transformers reports {key}: {sorted(info[key])}")
    ids = torch.tensor([(i * i * 3 + i * 7 + 1) % BASE["vocab_size"] for i in range(LENGTH)])
    logits = model.eval()(ids[None]).logits[0]
    torch.nn.functional.cross_entropy(logits[:-1].float(), ids[1:]).backward()
    numbers = {"logits": logits.detach()}
    for key, parameter in model.named_parameters():
        numbers["gradient." + key] = parameter.grad
    numbers = {prefix + key: value.contiguous() for key, value in numbers.items()}
    return numbers if prefix else {"ids": ids.to(torch.int32), **numbers}


def main():
    for name in CASES:
        path = os.path.join(FOLDER, name, "golden.safetensors")
        if sys.argv[1:] != ["--check"]:
            make(name)
            save_file(compute(name), path)
            continue
        made, recorded = compute(name), load_file(path)
        if made.keys() != recorded.keys():
            sys.exit(f"src/model/goldens/families/{name}: the reference names other numbers than recorded")
        for key, value in made.items():
            other = recorded[key].float()
            worst = (value.float() - other).abs().max() / max(1e-30, other.abs().max())
            if worst > (3e-2 if key.startswith("bfloat16.") else 1e-5):
                sys.exit(f"src/model/goldens/families/{name}: the reference gives another {key} (by {worst:.2g})")
    print(f"src/model/goldens/families: {len(CASES)} models "
          f"({sum(os.path.getsize(p) for p in glob.glob(FOLDER + '/*/*'))} bytes)")


main()
