#!/usr/bin/env python3
"""Greedy continuations of SmolLM2-135M-Instruct by PyTorch in float32, from the weights of its GGUF file dequantised by
transformers: src/compute/cpu/testdata/smollm2_greedy.json.

Usage: src/compute/goldens/real_models.sh [--check]
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = Path("build/models/SmolLM2-135M-Instruct.Q4_1.gguf")
RECORDED = Path("src/compute/cpu/testdata/smollm2_greedy.json")
TOKENS = 48
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "Q: Tom has 3 boxes with 12 pencils each. How many pencils does he have?\nA:",
    "<|im_start|>user\nName three colours of the rainbow.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou answer in one sentence.<|im_end|>\n<|im_start|>user\nWhy is the sky blue?<|im_end|>\n"
    "<|im_start|>assistant\n",
    "La liberté commence où",
    "1, 1, 2, 3, 5, 8, 13,",
]


def main():
    tokenizer = AutoTokenizer.from_pretrained(MODEL.parent, gguf_file=MODEL.name)
    model = AutoModelForCausalLM.from_pretrained(MODEL.parent, gguf_file=MODEL.name, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    rows = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt, add_special_tokens=False)
        row = {"text": prompt, "prompt_ids": ids, "greedy_ids": [], "greedy_logprobs": [], "greedy_margin_to_2nd": []}
        cache, step = None, torch.tensor([ids])
        with torch.no_grad():
            for _ in range(TOKENS):
                output = model(step, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                best = torch.log_softmax(output.logits[0, -1].double(), -1).topk(2)
                token = int(best.indices[0])
                row["greedy_ids"].append(token)
                row["greedy_logprobs"].append(round(float(best.values[0]), 6))
                row["greedy_margin_to_2nd"].append(round(float(best.values[0] - best.values[1]), 6))
                step = torch.tensor([[token]])
        rows.append(row)
    if sys.argv[1:] != ["--check"]:
        RECORDED.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    recorded = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    for made, old in zip(rows, recorded, strict=True):
        same = made["prompt_ids"] == old["prompt_ids"] and made["greedy_ids"] == old["greedy_ids"]
        if not same or max(abs(a - b) for a, b in zip(made["greedy_logprobs"], old["greedy_logprobs"])) > 1e-4:
            sys.exit(f"{RECORDED}: the reference now continues {made['text']!r} in another way")
    print(f"{RECORDED}: the reference gives what is recorded")


main()
