#!/usr/bin/env bash
# Makes src/compute/cpu/testdata/decoder_training.json again with JAX, in a virtual environment of its own under build/;
# '--check' compares instead. Then the continuations of real models (real_models.sh).
set -euo pipefail
cd "$(dirname "$0")/../../.."
environment=build/oracles/jax
if [[ ! -x $environment/bin/python || ! -e $environment/ready ]]; then
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check jax==0.4.38 jaxlib==0.4.38 numpy==2.4.6
  touch "$environment/ready"
fi
"$environment/bin/python" src/compute/goldens/decoder_training.py "$@"
src/compute/goldens/real_models.sh "$@"
