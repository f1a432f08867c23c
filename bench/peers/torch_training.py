"""PyTorch training the models of model_bench: forward, backward and AdamW of a batch of rows of 96 tokens.

  torch_training.py MODEL ROWS FORM

MODEL: qwen3_3m or smollm2_135m, with random weights; FORM: float32, bfloat16 (autocast) or compiled (float32 through
torch.compile). Answers with the tokens a second of the fastest of some steps, compilation excluded. Needs torch and transformers;
run by models.py.
"""
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import transformers  # noqa: E402

import small_model  # noqa: E402
from serving import serve  # noqa: E402

TOKENS = 96
STEPS = 3
LONGEST_STEP = 15  # seconds; bfloat16 is emulated where the processor lacks it


def model_of(name):
    if name == "qwen3_3m":
        return small_model.torch_model()
    if name == "smollm2_135m":
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                num_hidden_layers=30, hidden_size=576, num_attention_heads=9, num_key_value_heads=3,
                intermediate_size=1536, vocab_size=49152, max_position_embeddings=8192, tie_word_embeddings=True,
                bos_token_id=None, eos_token_id=None, attn_implementation="sdpa"))
    sys.exit(f"torch_training.py knows no model {name}.")


def main():
    name, rows, form = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(0)
    model = model_of(name)
    model.train()
    forward = torch.compile(model) if form == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(1, 290, (rows, TOKENS))

    def step(ids):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bfloat16"):
            logits = forward(input_ids=ids, use_cache=False).logits
        scores = torch.log_softmax(logits[:, :-1].float(), -1).gather(-1, ids[:, 1:, None])
        (-scores.mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    step(ids[:1])
    seconds = rows * step(ids[:1])
    if seconds > LONGEST_STEP:
        sys.exit(f"{name} in {form} takes PyTorch up to {seconds:.0f} s a step here.")
    step(ids)
    serve(lambda: {"training": rows * TOKENS / min(step(ids) for _ in range(STEPS))})


main()
