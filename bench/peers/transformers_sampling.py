"""transformers' generate on the model of 3.3 million parameters: 1, 8 and 64 prompts of 32 tokens, 64 new tokens each.

  transformers_sampling.py FORM

FORM: float32 or bfloat16, the type of the weights. Answers with new tokens a second of the fastest of some calls; prompts'
computation belongs to a call, log-probabilities do not. Needs torch and transformers; run by models.py.
"""
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402

import small_model  # noqa: E402
from serving import serve  # noqa: E402

CALLS = 3


def main():
    torch.set_num_threads(os.cpu_count())
    model = small_model.torch_model().to(getattr(torch, sys.argv[1])).eval()

    def rate(sequences):
        ids = torch.randint(1, small_model.VOCABULARY, (sequences, small_model.PROMPT_TOKENS))
        best = 1e9
        for _ in range(CALLS):
            start = time.perf_counter()
            result = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0,
                                    top_p=1.0, max_new_tokens=small_model.NEW_TOKENS, pad_token_id=0)
            best = min(best, time.perf_counter() - start)
        if result.shape[1] != small_model.PROMPT_TOKENS + small_model.NEW_TOKENS:
            sys.exit("transformers ended a sequence early.")
        return sequences * small_model.NEW_TOKENS / best

    def measure():
        return {f"sampling_{sequences}": rate(sequences) for sequences in (1, 8, 64)}

    with torch.no_grad():
        measure()
        serve(measure)


main()
