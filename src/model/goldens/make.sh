#!/usr/bin/env bash
# Loads the exported model directories in transformers and makes logits.json again, in a virtual environment under
# build/: make.sh writes it, make.sh --check fails where it differs.
set -euo pipefail
cd "$(dirname "$0")/../../.."
environment=build/goldens/torch-environment
if [[ ! -x $environment/bin/python ]]; then
  mkdir -p build/goldens
  python3 -m venv "$environment"
fi
"$environment/bin/python" -m pip install --quiet torch==2.15.0 transformers==5.24.0
"$environment/bin/python" src/model/goldens/make_goldens.py "$@"
