"""llama.cpp generating with the models of model_bench in bfloat16: decoding, prefill and scoring.

  llama_generation.py MODEL FOLDER

MODEL: smollm2_135m or gemma3_270m; a GGUF file of its shape with random weights is made in FOLDER. Answers with tokens a second of
decode_1, decode_8, decode_32, decode_64 (8 tokens of context, 8 steps), prefill and score (256 tokens, the last logits and all of
them). Sampling and log-probabilities are not part of these times, as they are of Stoker's. What the build uses of the processor is
said on standard error. Needs llama-cpp-python, gguf and numpy; run by models.py.
"""
import ctypes
import os
import sys
import time

import gguf
import llama_cpp
import numpy

from serving import serve

SHAPES = {
    "smollm2_135m": {"arch": "llama", "vocabulary": 49152, "hidden": 576, "layers": 30, "heads": 9, "kv_heads": 3,
                     "head": 64, "ffn": 1536},
    "gemma3_270m": {"arch": "gemma3", "vocabulary": 262144, "hidden": 640, "layers": 18, "heads": 4, "kv_heads": 1,
                    "head": 256, "ffn": 2048},
}


def write_model(path, shape):
    gemma = shape["arch"] == "gemma3"
    writer = gguf.GGUFWriter(path + ".part", shape["arch"])
    writer.add_context_length(8192)
    writer.add_embedding_length(shape["hidden"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["ffn"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_key_length(shape["head"])
    writer.add_value_length(shape["head"])
    writer.add_rope_dimension_count(shape["head"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(shape["vocabulary"])
    if gemma:
        writer.add_sliding_window(512)
    writer.add_tokenizer_model("none")
    random = numpy.random.default_rng(1)

    def add(name, *sizes):
        values = (random.random(sizes, dtype=numpy.float32) - 0.5) * 0.05
        if len(sizes) == 1:
            writer.add_tensor(name + ".weight", values)
            return
        kind = gguf.GGMLQuantizationType.BF16
        writer.add_tensor(name + ".weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    add("token_embd", shape["vocabulary"], shape["hidden"])
    add("output_norm", shape["hidden"])
    for layer in range(shape["layers"]):
        block = f"blk.{layer}."
        add(block + "attn_norm", shape["hidden"])
        add(block + "attn_q", shape["heads"] * shape["head"], shape["hidden"])
        add(block + "attn_k", shape["kv_heads"] * shape["head"], shape["hidden"])
        add(block + "attn_v", shape["kv_heads"] * shape["head"], shape["hidden"])
        add(block + "attn_output", shape["hidden"], shape["heads"] * shape["head"])
        add(block + "ffn_norm", shape["hidden"])
        add(block + "ffn_gate", shape["ffn"], shape["hidden"])
        add(block + "ffn_up", shape["ffn"], shape["hidden"])
        add(block + "ffn_down", shape["hidden"], shape["ffn"])
        if gemma:
            add(block + "attn_q_norm", shape["head"])
            add(block + "attn_k_norm", shape["head"])
            add(block + "post_attention_norm", shape["hidden"])
            add(block + "post_ffw_norm", shape["hidden"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)


class Context:
    """A context for `sequences` sequences of at most `length` tokens."""

    def __init__(self, model, sequences, length):
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = sequences * max(length, 256)
        parameters.n_batch = parameters.n_ubatch = 512
        parameters.n_seq_max = sequences
        parameters.n_threads = parameters.n_threads_batch = os.cpu_count()
        self.context = llama_cpp.llama_init_from_model(model, parameters)
        if not self.context:
            sys.exit("llama.cpp gives no context.")
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def run(self, rows, every_logit):
        """One pass over rows (token, position, sequence); logits of every row, or of the last one."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token_id, position, sequence) in enumerate(rows):
            batch.token[i] = token_id
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = every_logit or i + 1 == len(rows)
        if llama_cpp.llama_decode(self.context, batch) != 0:
            sys.exit("llama.cpp failed on a batch.")
        llama_cpp.llama_synchronize(self.context)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)


def token(sequence, position):
    return (sequence * 37 + position * 11) % 290


def decode_seconds(model, sequences):
    """The fastest of three times eight steps, behind eight tokens of context."""
    context = Context(model, sequences, 32)
    best = 1e9
    for _ in range(4):
        context.clear()
        for sequence in range(sequences):
            context.run([(token(sequence, p), p, sequence) for p in range(8)], False)
        start = time.perf_counter()
        for position in range(8, 16):
            context.run([(token(s, position), position, s) for s in range(sequences)], True)
        best = min(best, time.perf_counter() - start)
    context.close()
    return best


def pass_seconds(model, tokens, every_logit):
    context = Context(model, 1, tokens)
    best = 1e9
    for _ in range(4):
        context.clear()
        start = time.perf_counter()
        context.run([(token(0, p), p, 0) for p in range(tokens)], every_logit)
        best = min(best, time.perf_counter() - start)
    context.close()
    return best


@llama_cpp.llama_log_callback
def log_errors(level, text, _):
    if level == 4:  # GGML_LOG_LEVEL_ERROR
        sys.stderr.write(text.decode("utf-8", "replace"))


def main():
    name, folder = sys.argv[1:]
    path = os.path.join(folder, name + "_bf16.gguf")
    if not os.path.exists(path):
        write_model(path, SHAPES[name])
    llama_cpp.llama_log_set(log_errors, ctypes.c_void_p())
    llama_cpp.llama_backend_init()
    print(llama_cpp.llama_print_system_info().decode(), file=sys.stderr, flush=True)
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp does not read {path}.")

    def measure():
        figures = {f"decode_{n}": 8 * n / decode_seconds(model, n) for n in (1, 8, 32, 64)}
        figures["prefill"] = 256 / pass_seconds(model, 256, False)
        figures["score"] = 256 / pass_seconds(model, 256, True)
        return figures

    serve(measure)


main()
