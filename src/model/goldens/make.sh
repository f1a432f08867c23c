#!/usr/bin/env bash
# Makes the recorded numbers of this folder again from transformers and the package gguf, in a virtual environment under
# build/: logits.json of the exported directories, the random models of families/ with their logits and gradients, and
# the quantised blocks. make.sh writes them, make.sh --check fails where they differ.
set -euo pipefail
cd "$(dirname "$0")/../../.."
environment=build/goldens/torch-environment
if [[ ! -x $environment/bin/python ]]; then
  mkdir -p build/goldens
  python3 -m venv "$environment"
fi
"$environment/bin/python" -m pip install --quiet torch==2.15.0 transformers==5.24.0 gguf==0.19.0
"$environment/bin/python" src/model/goldens/make_goldens.py "$@"
"$environment/bin/python" src/model/goldens/make_families.py "$@"
"$environment/bin/python" src/model/goldens/make_gguf_blocks.py "$@"
