#!/usr/bin/env python3
"""Writes what Hugging Face's tokenizers says about many hard strings to build/goldens/oracle/, for text_test to compare.

  tokenizer_oracle.py [STRINGS]    so many strings in all (210,000)

Tokenizers: the public ones of ../shared/data/tokenizers, where it is there, and for every other pre-tokenizer and model of
the public families a small one made here. The public ones also get every conversation of BFCL and tau2 as one of the
templates there renders it, each in its turn. Each TOKENIZER.jsonl starts with the tokenizer's file and goes on with rows of
text (or bytes in hexadecimal, which the reference gets after errors='replace'), ids with control tokens parsed, ids with
them as text, and byte offsets. Run by make.sh --check.
"""
import gzip
import json
import os
import random
import sys

import make_template_goldens
from tokenizers import AddedToken, Tokenizer, models, trainers, pre_tokenizers, decoders, normalizers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
SHARED = os.path.join(ROOT, "..", "shared", "data", "tokenizers")
OUT = os.path.join(ROOT, "build", "goldens", "oracle")

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES


def capitals(suffix, digits):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{suffix}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{suffix}|{digits}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES)


O200K = capitals(CONTRACTIONS + "?", r"\p{N}{1,3}")
TEKKEN = capitals("", r"\p{N}")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
             + SPACES)


def split(regex, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: regex}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = dict(BYTE_LEVEL, use_regex=True)
CL100K = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
PRE_TOKENIZERS = {
    "gpt2_prefix": dict(GPT2, add_prefix_space=True),
    "smollm": sequence({"type": "Digits", "individual_digits": True}, GPT2),
    "digit_runs": sequence({"type": "Digits", "individual_digits": False}, BYTE_LEVEL),
    "qwen35": sequence(split(QWEN35), BYTE_LEVEL),
    "llama4": sequence(split(O200K), BYTE_LEVEL),
    "tekken": sequence(split(TEKKEN), BYTE_LEVEL),
    "phi4": sequence(split(CL100K, "Removed", True), BYTE_LEVEL),
    "deepseek3": sequence(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3), BYTE_LEVEL),
    "deepseek_llm": sequence(split("[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+"),
                             split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split("[一-龥ࠀ-一가-퟿]+"),
                             {"type": "Digits", "individual_digits": True}, BYTE_LEVEL),
    "merged_previous": sequence(split("[aeiou]", "MergedWithPrevious"), split("t", "MergedWithNext", kind="String"), BYTE_LEVEL),
    "contiguous": sequence(split(r"\d|[xyz!?]", "Contiguous"), split(" ", "Removed", kind="String"), BYTE_LEVEL),
    "whitespace": sequence({"type": "Whitespace"}, BYTE_LEVEL),
    "punctuation": sequence({"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL),
}
METASPACE = {
    "metaspace_first": ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}, {}),
    "metaspace_whole": ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}, {}),
    "metaspace_unknown": ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
                          {"byte_fallback": False}),
    "metaspace_fused": (None, {"byte_fallback": False, "fuse_unk": True}),
    "metaspace_ignored": ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
                          {"ignore_merges": True}),
}

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog's owner isn't amused; THEY'LL say it's TheFox's fault.",
    "for (size_t i = 0; i < count; ++i) {\n    total += values[i];\n}\nreturn total;\n\n\n  def f(x):\n\treturn x\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Съешь же ещё этих мягких французских булок.",
    "人人生而自由,在尊严和权利上一律平等。すべての人間は、생まれながらにして自由。모든 인간은 태어날 때부터 자유로우며",
    "https://example.org/a?b=c&d=%20#e {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null]}} 0123456789 😀😀👩‍👦 🇳🇴",
] * 4

WORDS = ("the of and to in is that for it was The This don't they'll I'M You'Ve self.return public static void int function "
         "const std::vector<int32_t> == != <= >= -> => ++ -- :: // /* */ #include \"a\": 3.14159 1e-9 0xFF 1,234,567 2024-01-31 "
         "user@example.com https://a.b/c?d=e&f=g#h <div class=\"x\"> </div> &amp; \\n \\t ${x} %s %d @param NOTE "
         "CamelCaseWords snake_case_words SCREAMING_CASE kebab-case-words iPhone McDonald NaN ... !? ??!! --- ### *** ___ ===").split(" ")
OTHERS = ("é ñ ß Ö ç Ø ı İ ſ K ǅ ʰ ª º ж Ё я Ω ς ϐ א ב ת ا ل ع ه ٣ ۴ ५ ๓ ４ Ⅷ ½ ² ₃ ① ㊿ 〇 一 歪 世界 日本語 の カ ﾊ 한국 가 ᄀ ᅡ ไทย ภาษา हि न्दी "
          "தமிழ் မြန် ខ្មែរ ქართ Ა Ꭰ ꭰ 𐐀 𐐨 𝐀 𝟘 𠀀 😀 👩‍👦 👍🏽 🇳🇴 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ ☃ € ™ ¬ × ÷ ∑ √ ∞ → ▁ ▁▁ … — ‘ ’ “ ” « » ！ 。 、 · \u0301 \u0308 \u20dd "
          "\u0345 \u05b0 \u0e34 e\u0301 o\u0308\u0304 \u1100\u1161\u11a8 \u00c5 \u212b \ufb01 \u1e9e \ufeff \u200b \u200c \u200d \u2060 \u00ad \u034f \ufffd "
          "\ufffe \U0010ffff \ue000 \u0378 \x00 \x01 \x1b \x7f \x85").split(" ")
SPACES_LIST = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", "\t\t", " \n", "\n ", "\u00a0", "\u2003", "\u2028", "\u3000", "\u0085",
               "\x0b", "\x0c", "\x1c", "\u180e"]
CONTROL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|begin_of_text|>", "<bos>", "<eos>", "<start_of_turn>",
           "<end_of_turn>", "<unk>", "<pad>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<h1>", "<table>", "<|im_", "end|>", "<0x0A>",
           "[multimodal]", "<unused0>", "<s>", "</s>", "<sep>", "wörter", "the answer"]
CONTRACTED = ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'Ll", "'d", "'\u017f", "''", "'", "’s", " 's"]


def piece(rng):
    kind = rng.randrange(20)
    if kind < 5:
        return rng.choice(WORDS)
    if kind < 9:
        return rng.choice(OTHERS)
    if kind < 13:
        return rng.choice(SPACES_LIST)
    if kind == 13:
        return rng.choice(CONTROL)
    if kind == 14:
        return rng.choice(CONTRACTED)
    if kind == 15:
        return "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 12)))
    if kind == 16:
        return chr(rng.choice([rng.randrange(1, 0x100), rng.randrange(0x100, 0x3000), rng.randrange(0x3000, 0xD800),
                               rng.randrange(0xE000, 0x20000), rng.randrange(0x20000, 0x110000)]))
    if kind == 17:
        return rng.choice(WORDS + OTHERS + SPACES_LIST) * rng.randrange(2, 40)
    if kind == 18:
        return "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") for _ in range(rng.randrange(4, 60)))
    line = rng.choice(CORPUS)
    start = rng.randrange(len(line))
    return line[start:start + rng.randrange(1, 50)]


def string(rng):
    return "".join(piece(rng) for _ in range(rng.randrange(1, 12)))


def broken(rng):
    text = bytearray(string(rng).encode())
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(text) + 1)
        text[at:at + rng.randrange(2)] = bytes(rng.randrange(0x80, 0x100) for _ in range(rng.randrange(3)))
    return bytes(text)


def byte_level_tokenizers():
    base = json.load(open(os.path.join(HERE, "small_tokenizer.json")))
    for name, pre in PRE_TOKENIZERS.items():
        yield name, json.dumps(dict(base, pre_tokenizer=pre))
    yield "ignore_merges", json.dumps(dict(base, model=dict(base["model"], ignore_merges=True)))


def metaspace_tokenizers():
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
                                  limit_alphabet=150, show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    trained.add_tokens([AddedToken("wörter", normalized=True, single_word=True), AddedToken("the answer", normalized=True)])
    trained.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    base = json.loads(trained.to_str())
    for name, (pre, model) in METASPACE.items():
        made = dict(base, pre_tokenizer=pre, model=dict(base["model"], **model))
        if pre is None:
            made["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        yield name, json.dumps(made)


def public_tokenizers():
    for name in ["qwen3", "llama3_1", "gemma3"]:
        path = os.path.join(SHARED, name, "tokenizer.json.gz")
        if os.path.exists(path):
            yield name, gzip.open(path, "rt", encoding="utf-8").read()


def byte_offsets(text, offsets):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [[at[begin], at[end]] for begin, end in offsets]


def pair(file):
    """The tokenizer as it is, and one that takes control tokens as text."""
    parsed, as_text = Tokenizer.from_str(file), Tokenizer.from_str(file)
    as_text.encode_special_tokens = True
    return parsed, as_text


def answers(parsed, as_text, text):
    row = {"ids": parsed.encode(text, add_special_tokens=False).ids}
    others = as_text.encode(text, add_special_tokens=False).ids
    if others != row["ids"]:
        row["ids_special_as_text"] = others
    return row


def rows(name, file, count, seed):
    parsed, as_text = pair(file)
    rng = random.Random(f"{seed} {name}")
    for i in range(count):
        row = {"text": string(rng)} if i % 10 else {}
        text = row.get("text")
        if text is None:
            raw = broken(rng)
            row["bytes"] = raw.hex()
            text = row["replaced"] = raw.decode("utf-8", errors="replace")
        row.update(answers(parsed, as_text, text))
        # Where characters compose, the reference's offsets leave out part of what went in.
        same_length = parsed.normalizer is None or len(parsed.normalizer.normalize_str(text)) == len(text)
        if "bytes" not in row and i % 4 == 1 and same_length:
            row["offsets"] = byte_offsets(text, parsed.encode(text, add_special_tokens=False).offsets)
        yield row


def rendered_conversations():
    templates = [source for _, source in make_template_goldens.template_files()]
    for number, row in enumerate(make_template_goldens.conversations()):
        for i in range(len(templates)):  # the next one that takes such a conversation
            variables = {"bos_token": "<s>", "eos_token": "</s>", **row}
            answer = make_template_goldens.render(templates[(number + i) % len(templates)], variables)
            if "text" in answer:
                yield number, answer["text"]
                break


def conversation_rows(file, texts):
    parsed, as_text = pair(file)
    for number, text in texts:
        yield {"conversation": number, "text": text, **answers(parsed, as_text, text)}


def main():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 210000
    os.makedirs(OUT, exist_ok=True)
    for name in os.listdir(OUT):
        os.remove(os.path.join(OUT, name))
    public = list(public_tokenizers())
    small = list(byte_level_tokenizers()) + list(metaspace_tokenizers())
    each_small = max(1, total // 8 // len(small)) if public else max(1, total // len(small))
    each_public = (total - each_small * len(small)) // max(1, len(public)) + 1
    conversations = list(rendered_conversations()) if public else []
    written = 0
    for name, file in public + small:
        count = each_public if (name, file) in public else each_small
        with open(os.path.join(OUT, name + ".json"), "w") as out:
            out.write(file)
        with open(os.path.join(OUT, name + ".jsonl"), "w") as out:
            for row in rows(name, file, count, 1):
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
            for row in conversation_rows(file, conversations) if (name, file) in public else []:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
        written += count
    print(f"build/goldens/oracle: {written} strings for {len(public + small)} tokenizers, {len(conversations)} conversations"
          f" for {len(public)} of them")


main()
