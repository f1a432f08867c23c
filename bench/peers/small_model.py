"""The model of 3.3 million parameters (Qwen3's form, random weights) and the GRPO job on it, as every peer gets them.

Prompts of 32 tokens, 64 new ones; a step has 8 prompts of 8 samples, temperature 1, no reference model. A word is a token; the end
token lies outside the vocabulary that the model computes, so that no sample ends early.
"""
import random

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY = 4, 256, 4, 2, 64, 768, 512
PROMPT_TOKENS, NEW_TOKENS, PROMPTS, SAMPLES = 32, 64, 8, 8
END = VOCABULARY
LEARNING_RATE = 1e-4
UNTIL_STOPPED = 100_000  # steps: serving.Steps ends the program


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    vocabulary = {"<pad>": 0, **{f"w{i}": i for i in range(1, VOCABULARY)}, "<end>": END, "<unknown>": END + 1}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>",
                                   padding_side="left")


def prompts(count, seed=0):
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(1, VOCABULARY)}" for _ in range(PROMPT_TOKENS)) for _ in range(count)]


def even_share(completions):
    """Rewards: the share of words with an even number."""
    rewards = []
    for completion in completions:
        numbers = [int(word[1:]) for word in completion.split() if word[1:].isdigit()]
        rewards.append(sum(number % 2 == 0 for number in numbers) / max(1, len(numbers)))
    return rewards


def torch_model():
    import transformers
    return transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD,
            intermediate_size=FFN, vocab_size=VOCABULARY, max_position_embeddings=512, tie_word_embeddings=True, pad_token_id=0,
            bos_token_id=None, eos_token_id=None, attn_implementation="sdpa"))


def tunix_mesh():
    import jax
    return jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def tunix_model(form):
    """Tunix's Qwen3 with float32 parameters that computes in FORM; to be called within the mesh."""
    import jax.numpy
    from flax import nnx
    from tunix.models.qwen3 import model
    config = model.ModelConfig(
        num_layers=LAYERS, vocab_size=VOCABULARY, embed_dim=HIDDEN, hidden_dim=FFN, num_heads=HEADS, head_dim=HEAD,
        num_kv_heads=KV_HEADS, rope_theta=1_000_000, norm_eps=1e-6, use_tied_embedding=True, dtype=jax.numpy.dtype(form),
        param_dtype=jax.numpy.float32)
    return model.Qwen3(config, rngs=nnx.Rngs(0))


def tunix_tokenizer():
    from tunix.generate.tokenizer_adapter import TokenizerAdapter
    return TokenizerAdapter(tokenizer())
