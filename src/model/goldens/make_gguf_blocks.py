#!/usr/bin/env python3
"""Random blocks of each quantised GGUF type and the values that the reference package `gguf` gives them.

  make_gguf_blocks.py            writes gguf_blocks.safetensors: TYPE.bytes [U8] and TYPE.values [F32]
  make_gguf_blocks.py --check    fails when the package gives other values than recorded

Run by make.sh.
"""
import os
import sys

import numpy
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import load_file, save_file

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_blocks.safetensors")
# Where the halves of a block lie: scales and minima, which must be ordinary numbers.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}
BLOCKS = 3


def make():
    random = numpy.random.default_rng(5)
    made = {}
    for name, halves in HALVES.items():
        kind = GGMLQuantizationType[name]
        data = random.integers(0, 256, (BLOCKS, GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8)
        for offset in halves:
            scales = random.uniform(-2, 2, BLOCKS).astype(numpy.float16)
            data[:, offset:offset + 2] = scales.view(numpy.uint8).reshape(BLOCKS, 2)
        made[name + ".bytes"] = data.reshape(-1)
        made[name + ".values"] = dequantize(data, kind).astype(numpy.float32).reshape(-1)
    return made


def main():
    made = make()
    if sys.argv[1:] != ["--check"]:
        save_file(made, PATH)
        return
    recorded = load_file(PATH)
    for name, values in made.items():
        if not numpy.array_equal(values, recorded[name]):
            sys.exit(f"src/model/goldens/gguf_blocks.safetensors: the reference gives another {name}")
    print("src/model/goldens/gguf_blocks.safetensors: the reference gives what is recorded")


main()
