#!/usr/bin/env python3
"""Makes the recorded answers of Hugging Face's tokenizers and of SentencePiece about normalizers, decoders, the unigram
model and SentencePiece files again.

  make_format_goldens.py            writes the goldens of this folder
  make_format_goldens.py --check    makes them in memory and fails where a recorded one differs; also writes large random
                                    sets to build/goldens/, which text_test then compares

Run by make.sh. The trained models (small_unigram.json, sentencepiece/*.model) are written once and input here.
"""
import base64
import io
import json
import os
import random
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog's owner isn't amused; they'll say it's the fox's fault.",
    "An agent calls a tool, reads the answer and goes on: {\"name\": \"calculator\", \"arguments\": {\"x\": 12}}",
    "for (size_t i = 0; i < count; ++i) { total += values[i]; } return total; aaa aaaa aaaaa abab ababab",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Größe, Maß, Öl.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ещё раз: съешь же ещё.",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "the the the and and of the of 0123456789 2024 1999 we were there and they were here when it was late",
] * 4

PIECES = (
    "a b e t th the and ing er on . , ; : ! ? ' \" ( ) [ ] { } < > - _ = + * # @ $ % & ~ aa aaa abab I İ Σ ς ß ﬁ".split(" ")
    + [" ", "  ", "   ", "\n", "\r\n", "\t", "\u00a0", "\u2028", "\u0085", "\u3000", "\u200b", "\u200d", "\u2581", "\ufeff"]
    + ["é", "e\u0301", "ñ", "Ö", "O\u0308", "ж", "世界", "日本", "한국", "\u1112\u1161\u11ab", "\u1112\u1161", "\u11a8", "ไทย", "हि"]
    + ["\u0301", "\u0323\u0301", "\u0301\u0323", "\u0345\u0300", "\u212b", "\u2126", "\u0344", "\u0958", "\u09c7\u09be", "\ufb1f",
       "\ufdfa", "½", "²", "Ⅷ", "①", "ＡＢ", "ｱﾞ", "カ\u3099", "\u0f73", "\u0f71\u0f72", "\u1e9b\u0323", "\u3300", "\U0001d400"]
    + ["<s>", "</s>", "<unk>", "<0x41>", "[CLS]", "<sym>", "@user", "\x01", "\x07", "\x7f", "\x8f", "\ufffd", "😀", "👩‍👦", "\U0010ffff"]
)

# Characters that matter to normal forms, by the tables of the Python at hand; the reference is asked about each text anyway.
ODD = [chr(c) for c in range(0x300, 0x370)] + [chr(c) for c in range(0x1100, 0x1200, 7)] + [chr(c) for c in range(0xAC00, 0xD7A4, 997)] \
    + [chr(c) for c in range(0xF900, 0xFB50, 11)] + [chr(c) for c in range(0x1E00, 0x2000, 13)]


def random_text(rng, most=14):
    parts = []
    for _ in range(rng.randrange(1, most)):
        kind = rng.randrange(12)
        if kind == 0:
            parts.append(chr(rng.choice([rng.randrange(1, 0x80), rng.randrange(1, 0x3000), rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000)])))
        elif kind == 1:
            parts.append(rng.choice(CORPUS)[rng.randrange(40):][:rng.randrange(30)])
        elif kind == 2:
            parts.append(rng.choice(PIECES) * rng.randrange(1, 5))
        elif kind == 3:
            parts.append("".join(rng.choice(ODD) for _ in range(rng.randrange(1, 5))))
        else:
            parts.append(rng.choice(PIECES))
    return "".join(parts)


def charsmap():
    """A small map of SentencePiece's, out of the model that was trained with it."""
    proto = sentencepiece_model_pb2.ModelProto()
    with open(os.path.join(HERE, "sentencepiece", "unigram.model"), "rb") as file:
        proto.ParseFromString(file.read())
    return proto.normalizer_spec.precompiled_charsmap


def all_normalizers():
    n = normalizers
    return {
        "NFC": n.NFC(), "NFD": n.NFD(), "NFKC": n.NFKC(), "NFKD": n.NFKD(), "Lowercase": n.Lowercase(), "Nmt": n.Nmt(),
        "StripAccents": n.Sequence([n.NFD(), n.StripAccents()]), "Strip": n.Strip(), "StripLeft": n.Strip(right=False),
        "StripRight": n.Strip(left=False), "Prepend": n.Prepend("\u2581"), "Replace": n.Replace(" ", "\u2581"),
        "Regex": n.Replace(Regex(" {2,}"), "\u2581"), "RegexClass": n.Replace(Regex("\\p{N}+|\\s$"), "#"),
        "Precompiled": n.Precompiled(charsmap()),
        "Llama": n.Sequence([n.Prepend("\u2581"), n.Replace(" ", "\u2581")]),
        "T5": n.Sequence([n.Precompiled(charsmap()), n.Strip(left=False), n.Replace(Regex(" {2,}"), "\u2581")]),
        "Mixed": n.Sequence([n.NFKD(), n.Lowercase(), n.Replace("aa", "a"), n.NFC(), n.Strip()]),
    }


def normalizer_json(normalizer):
    return json.loads(normalizer.__getstate__())


def normalizer_rows(count, seed):
    rng = random.Random(seed)
    rows = []
    for name, normalizer in all_normalizers().items():
        for _ in range(count):
            text = random_text(rng)
            rows.append({"normalizer": name, "text": text, "normalized": normalizer.normalize_str(text)})
    return rows


def all_decoders():
    d = decoders
    llama = [d.Replace("\u2581", " "), d.ByteFallback(), d.Fuse()]
    return {
        "Llama": d.Sequence(llama + [d.Strip(" ", 1, 0)]), "Gemma": d.Sequence(llama), "Metaspace": d.Metaspace(),
        "MetaspaceNever": d.Metaspace(prepend_scheme="never"), "ByteLevel": d.ByteLevel(), "Strip": d.Sequence([d.Strip("_", 2, 0), d.Fuse()]),
        "ByteFallback": d.Sequence([d.ByteFallback(), d.Fuse()]),
    }


def decoder_rows(count, seed):
    rng = random.Random(seed)
    plain = ["\u2581", "\u2581\u2581", "\u2581the", "a\u2581b", "the", "é", "世", " ", "  x", "_", "__a__", "_a", "<0x41>", "<0x0A>", "<0xZZ>", "\u0120a", "\u010a"]
    # Runs of byte tokens that are whole characters: of broken ones the reference makes one U+FFFD a byte.
    runs = [["<0xE4>", "<0xB8>", "<0x96>"], ["<0xC3>", "<0xA9>"], ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]]
    rows = []
    for name, decoder in all_decoders().items():
        for _ in range(count):
            tokens = []
            for _ in range(rng.randrange(1, 8)):
                tokens += rng.choice(runs) if name != "ByteLevel" and rng.randrange(4) == 0 else [rng.choice(plain)]
            rows.append({"decoder": name, "tokens": tokens, "text": decoder.decode(tokens)})
    return rows


def small_unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trainer = trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.pre_tokenizer = None
    return json.loads(tokenizer.to_str())


def unigram_variants():
    """The trained one, and one that falls back to bytes."""
    with open(os.path.join(HERE, "small_unigram.json")) as file:
        plain = json.load(file)
    bytes_too = json.loads(json.dumps(plain))
    bytes_too["model"]["vocab"] += [["<0x%02X>" % byte, -30.0 - byte] for byte in range(256)]
    bytes_too["model"]["byte_fallback"] = True
    return {"plain": plain, "byte_fallback": bytes_too}


def unigram_rows(count, seed):
    rng = random.Random(seed)
    rows = []
    for name, description in unigram_variants().items():
        tokenizer = Tokenizer.from_str(json.dumps(description))
        tokenizer.encode_special_tokens = True
        for _ in range(count):
            # Names of bytes and control tokens are text for Stoker, which the reference's trie takes for the tokens.
            text = random_text(rng).replace("<0x", "").replace("<s", "").replace("</s", "").replace("<unk", "")
            rows.append({"tokenizer": name, "text": text, "ids": tokenizer.encode(text).ids})
    return rows


def train_sentencepiece():
    rules = "41\t61\n42\t62\nFF21\t41\nFB01\t66 69\n41 308\tC4\n65 301\tE9\n3000\t20\nA0\t20\n200B\t\n"
    tsv = os.path.join(ROOT, "build", "goldens", "rules.tsv")
    os.makedirs(os.path.dirname(tsv), exist_ok=True)
    with open(tsv, "w") as file:
        file.write(rules)
    os.makedirs(os.path.join(HERE, "sentencepiece"), exist_ok=True)
    common = dict(vocab_size=420, character_coverage=0.9995, minloglevel=2, num_threads=1, hard_vocab_limit=False)
    kinds = {
        "llama": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
        "gemma": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                      add_dummy_prefix=False, user_defined_symbols=["<sym>", "@user", "\u2581\u2581"]),
        "unigram": dict(model_type="unigram", normalization_rule_tsv=tsv),
        "unigram_bytes": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity", vocab_size=520,
                              user_defined_symbols=["<sym>"], add_dummy_prefix=False, remove_extra_whitespaces=False),
    }
    for name, options in kinds.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, **{**common, **options})
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(model.getvalue())
        proto.trainer_spec.ClearField("input")
        proto.normalizer_spec.ClearField("normalization_rule_tsv")
        with open(os.path.join(HERE, "sentencepiece", name + ".model"), "wb") as file:
            file.write(proto.SerializeToString(deterministic=True))


def sentencepiece_rows(count, seed):
    rng = random.Random(seed)
    rows = []
    for name in ["llama", "gemma", "unigram", "unigram_bytes"]:
        processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(HERE, "sentencepiece", name + ".model"))
        for _ in range(count):
            text = random_text(rng).replace("\x00", "")
            if name == "gemma":  # user-defined signs are looked for before blanks are escaped, as by Hugging Face
                text = text.replace("\u2581", "")
            rows.append({"model": name, "text": text, "ids": processor.encode(text)})
    return rows


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

    if not check and not os.path.exists(os.path.join(HERE, "sentencepiece")):
        train_sentencepiece()
    if not check and not os.path.exists(os.path.join(HERE, "small_unigram.json")):
        with open(os.path.join(HERE, "small_unigram.json"), "w") as file:
            file.write(json.dumps(small_unigram(), ensure_ascii=False, indent=0) + "\n")
    kinds = {"normalizers": {name: normalizer_json(n) for name, n in all_normalizers().items()},
             "decoders": {name: json.loads(d.__getstate__()) for name, d in all_decoders().items()}}
    record("format_kinds.json", json.dumps(kinds, ensure_ascii=True, indent=0) + "\n")
    sets = {"normalizers.jsonl": (normalizer_rows, 25, 2500), "decoders.jsonl": (decoder_rows, 25, 1000),
            "unigram.jsonl": (unigram_rows, 80, 10000), "sentencepiece.jsonl": (sentencepiece_rows, 60, 10000)}
    for name, (make, few, _) in sets.items():
        record(name, lines(make(few, 1)))
    if check:
        folder = os.path.join(ROOT, "build", "goldens")
        os.makedirs(folder, exist_ok=True)
        for name, (make, _, many) in sets.items():
            with open(os.path.join(folder, name.replace(".jsonl", "_large.jsonl")), "w") as file:
                file.write(lines(make(many, 2)))
        if different:
            sys.exit("src/text/goldens: the reference now gives something else for " + ", ".join(different))
        print("src/text/goldens: the reference gives what is recorded about formats")


main()
