#!/usr/bin/env python3
"""Makes the recorded answers of Hugging Face's tokenizers and transformers again.

  make_goldens.py            writes the goldens of this folder
  make_goldens.py --check    makes them in memory and fails where a recorded one differs; also writes a large random
                             set to build/goldens/tokens_large.jsonl, which text_test then compares

Run by make.sh. demo_tokenizer/ holds what write_tokenizer() writes (a test says when it changes) and is input here.
"""
import json
import os
import random
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog's owner isn't amused; they'll say it's the fox's fault.",
    "An agent calls a tool, reads the answer and goes on: {\"name\": \"calculator\", \"arguments\": {\"x\": 12}}",
    "for (size_t i = 0; i < count; ++i) {\n    total += values[i];\n}\nreturn total;\n\n\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Größe, Maß, Öl.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ещё раз: съешь же ещё.",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "٠١٢٣٤٥٦٧٨٩ и 0123456789 und Ⅷ ½ ² 😀😀👩‍👦 the the the and and   of   the\tof",
] * 3

PIECES = (
    "a b e t th the and ing er on . , ; : ! ? ' \" ( ) [ ] { } < > | / \\ - _ = + * # @ $ % & ~ ` ^".split(" ")
    + [" ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2028", "\u0085", "\u3000", "\u200b", "\u200d"]
    + ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " 'll", "1", "12", "2024", " 7", "٣", "½", "Ⅷ", "²"]
    + ["é", "e\u0301", "ñ", "ß", "Ö", "ж", "歪", "世界", "日本", "한국", "ไทย", "हि", "אב", "😀", "👩‍👦", "🇳🇴", "\u0301", "\ufeff"]
    + ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<|im_", "_end|>", "<sep>", "word",
       "Word", "words", "sword", "user", "assistant", "calculator", ": {\"", "\": \"", "The answer is", " by zero", "<l>", "<r>",
       "\x00", "\x1f", "\x7f", "\ufffd", "\U0010ffff"]
)


def small_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken("<|im_start|>"), AddedToken("<|im_end|>"), AddedToken("<|endoftext|>")])
    tokenizer.add_tokens([
        AddedToken("<tool_call>", normalized=False),
        AddedToken("</tool_call>", normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("the answer", normalized=True),
        AddedToken("<l>", lstrip=True, normalized=False),
        AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("<sep>", lstrip=True, rstrip=True, normalized=False, special=True),
        AddedToken("世界", normalized=True),
    ])
    return json.loads(tokenizer.to_str())


def load(path):
    text = Tokenizer.from_file(path)
    text.encode_special_tokens = True
    return Tokenizer.from_file(path), text


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.randrange(12)
        if kind == 0:
            parts.append(chr(rng.choice([rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)])))
        elif kind == 1:
            parts.append(rng.choice(CORPUS)[rng.randrange(40):][:rng.randrange(30)])
        elif kind == 2:
            parts.append(rng.choice(PIECES) * rng.randrange(1, 9))
        else:
            parts.append(rng.choice(PIECES))
    return "".join(parts)


def token_rows(tokenizers, count, seed):
    rng = random.Random(seed)
    rows = []
    for name, (special, text_only) in tokenizers.items():
        for _ in range(count):
            text = random_text(rng)
            rows.append({"tokenizer": name, "text": text, "ids": special.encode(text).ids,
                         "ids_special_as_text": text_only.encode(text).ids})
        for _ in range(count // 5):
            # Added tokens are ASCII or one whole character here: the reference maps the bytes of others twice.
            ids = [rng.randrange(special.get_vocab_size()) for _ in range(rng.randrange(1, 12))]
            rows.append({"tokenizer": name, "ids": ids, "decoded": special.decode(ids, skip_special_tokens=False),
                         "decoded_without_special": special.decode(ids, skip_special_tokens=True)})
    return rows


CALCULATOR = {"type": "function", "function": {
    "name": "calculator", "description": "Computes an expression. Don't use \"^\"; <b>é</b>.",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}, "digits": {"type": "number", "default": 1e-05}},
                   "required": ["expression"]}}}


def call(name, arguments):
    return {"type": "function", "id": "c1", "function": {"name": name, "arguments": arguments}}


def conversations():
    user = {"role": "user", "content": "What is 37*48+12?"}
    calls = {"role": "assistant", "content": "", "tool_calls": [call("calculator", {"expression": "37*48+12", "x": [1.0, None, "é\n"]})]}
    both = {"role": "assistant", "content": "Two.", "tool_calls": [call("calculator", {"expression": "1"}), call("f", {})]}
    tool = {"role": "tool", "content": "1788"}
    answer = {"role": "assistant", "content": "The answer is 1788."}
    system = {"role": "system", "content": "Be brief."}
    thought = {"role": "assistant", "reasoning_content": "multiply", "content": "1788"}
    for messages in [[user], [system, user], [user, calls, tool, answer], [system, user, both, tool, tool, answer, user],
                     [user, thought, user], [{"role": "system", "content": ""}, user], [user, system, user], [tool, tool],
                     [system], [user, both, tool, tool, both, tool]]:
        for tools in [[], [CALCULATOR], [CALCULATOR, CALCULATOR]]:
            for prompt in [True, False]:
                yield messages, tools, prompt


def chat_rows(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    for messages, tools, prompt in conversations():
        text = tokenizer.apply_chat_template(messages, tools=tools or None, add_generation_prompt=prompt, tokenize=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        # Inside other people's text the renderer keeps tags as text, which the reference does not.
        rows.append({"messages": messages, "tools": tools, "add_generation_prompt": prompt, "text": text, "ids": ids})
    return rows


def python_json_rows():
    values = [0, -1, 2**53, 2**64 - 1, 1.0, -0.0, 0.1, 1e15, 1e16, 123456789012345680.0, 1e-4, 1e-5, 1.5e-7, 1e22, 1e100, 5e-324,
              1.7976931348623157e308, "", "é歪😀", "\"\\/\b\f\n\r\t\x00\x1f\x7f\u2028", [], {}, [[1, [2.50]], None, True, False],
              {"a": {"b": [1, "x"]}, "é": {}}]
    return [{"json": json.dumps(value), "python": json.dumps(value, ensure_ascii=False)} for value in values]


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main():
    check = sys.argv[1:] == ["--check"]
    different = []

    def record(name, text):
        path = os.path.join(HERE, name)
        if not check:
            with open(path, "w") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path).read() != text:
            different.append(name)

    small = os.path.join(HERE, "small_tokenizer.json")
    if not check:
        with open(small, "w") as file:
            file.write(json.dumps(small_tokenizer(), ensure_ascii=False, indent=0) + "\n")
    demo = os.path.join(HERE, "demo_tokenizer")
    tokenizers = {"small": load(small), "demo": load(os.path.join(demo, "tokenizer.json"))}
    record("tokens.jsonl", lines(token_rows(tokenizers, 300, 1)))
    record("chat.jsonl", lines(chat_rows(demo)))
    record("python_json.jsonl", lines(python_json_rows()))
    if check:
        folder = os.path.join(ROOT, "build", "goldens")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "tokens_large.jsonl"), "w") as file:
            file.write(lines(token_rows(tokenizers, 50000, 2)))
        if different:
            sys.exit("src/text/goldens: the reference now gives something else for " + ", ".join(different))
        print("src/text/goldens: the reference gives what is recorded")


main()
