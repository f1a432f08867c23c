"""Tunix's sampler on the model of 3.3 million parameters: 1, 8 and 64 prompts of 32 tokens, 64 new tokens each.

  tunix_sampling.py FORM

FORM: float32 or bfloat16. Answers with new tokens a second of the fastest of some calls. Prompts' computation, encoding, decoding
and log-probabilities belong to a call; compilation does not. Needs google-tunix and jax; run by models.py.
"""
import sys
import time

from tunix.generate import sampler

import small_model
from serving import serve

CALLS = 3


def main():
    with small_model.tunix_mesh():
        cache = sampler.CacheConfig(cache_size=small_model.PROMPT_TOKENS + small_model.NEW_TOKENS, num_layers=small_model.LAYERS,
                                    num_kv_heads=small_model.KV_HEADS, head_dim=small_model.HEAD)
        sample = sampler.Sampler(small_model.tunix_model(sys.argv[1]), small_model.tunix_tokenizer(), cache)

        def rate(sequences):
            prompts = small_model.prompts(sequences)
            best = 1e9
            for seed in range(CALLS):
                start = time.perf_counter()
                result = sample(prompts, seed=seed, max_generation_steps=small_model.NEW_TOKENS,
                                max_prompt_length=small_model.PROMPT_TOKENS, temperature=1.0, top_p=1.0, return_logprobs=True,
                                eos_tokens=[small_model.END])
                best = min(best, time.perf_counter() - start)
            if any(len(tokens) != small_model.NEW_TOKENS for tokens in result.tokens):
                sys.exit("Tunix's sampler ended a sequence early.")
            return sequences * small_model.NEW_TOKENS / best

        def measure():
            return {f"sampling_{sequences}": rate(sequences) for sequences in (1, 8, 64)}

        measure()
        serve(measure)


main()
