#!/usr/bin/env python3
"""Hugging Face's tokenizers on the documents that text_bench writes: one thread, one document a call, each once.

  text_peers.py CORPORA TOKENIZERS OUT.json

CORPORA: the folder of `text_bench --write`; TOKENIZERS: a folder with NAME/tokenizer.json.gz. Times are processor time of
the thread. Needs the PyPI package 'tokenizers'; run by `./dev bench text --peers`.
"""
import glob
import gzip
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402


def main():
    corpora, folder, out = sys.argv[1:]
    figures = []

    def add(name, size, seconds):
        figures.append({"name": name, "value": size / 1e6 / seconds, "unit": "MB/s"})
        print(f"{name} {figures[-1]['value']:.3f} MB/s", flush=True)

    print("tokenizers", tokenizers.__version__)
    for name in ["qwen3", "llama3_1", "gemma3"]:
        path = os.path.join(folder, name, "tokenizer.json.gz")
        if not os.path.exists(path):
            continue
        tokenizer = tokenizers.Tokenizer.from_str(gzip.open(path, "rt", encoding="utf-8").read())
        for corpus in sorted(glob.glob(os.path.join(corpora, "*.jsonl"))):
            kind = os.path.basename(corpus)[:-6]
            documents = [json.loads(line) for line in open(corpus, encoding="utf-8")]
            size = sum(len(d.encode()) for d in documents)
            start = time.thread_time()
            ids = [tokenizer.encode(d, add_special_tokens=False).ids for d in documents]
            add(f"{name}_{kind}_encode", size, time.thread_time() - start)
            start = time.thread_time()
            for row in ids:
                tokenizer.decode(row, skip_special_tokens=False)
            add(f"{name}_{kind}_decode", size, time.thread_time() - start)
    with open(out, "w") as file:
        json.dump(figures, file, indent=1)


main()
