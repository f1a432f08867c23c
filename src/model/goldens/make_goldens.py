#!/usr/bin/env python3
"""Loads the exported directories of this folder in transformers and records the logits that it computes.

  make_goldens.py            writes logits.json
  make_goldens.py --check    fails when a directory does not load whole, or gives other logits than recorded (1e-5)

Run by make.sh. The directories are written by model_test (see ModelDirectoryTest there).
"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = [1, 5, 3, 10, 7, 7, 0, 9, 2, 4]


def logits(model_type):
    folder = os.path.join(HERE, model_type)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[key]:
            sys.exit(f"src/model/goldens/{model_type}: transformers reports {key}: {sorted(info[key])}")
    assert type(model).__name__.lower().startswith(model_type)
    with torch.no_grad():
        return model.eval()(torch.tensor([IDS])).logits[0].double().tolist()


def main():
    path = os.path.join(HERE, "logits.json")
    made = {name: {"ids": IDS, "logits": logits(name)} for name in ("llama", "qwen2", "qwen3")}
    if sys.argv[1:] != ["--check"]:
        with open(path, "w") as file:
            json.dump(made, file, indent=0)
            file.write("\n")
        return
    recorded = json.load(open(path))
    for name, row in made.items():
        pairs = zip(sum(row["logits"], []), sum(recorded[name]["logits"], []), strict=True)
        worst = max(abs(a - b) / max(1.0, abs(b)) for a, b in pairs)
        if worst > 1e-5:
            sys.exit(f"src/model/goldens/{name}: the reference now gives other logits (by {worst:.2g})")
    print("src/model/goldens: the reference gives what is recorded")


main()
