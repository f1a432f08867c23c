#!/usr/bin/env bash
# Makes the goldens whose oracle is plain Python again: make.sh writes them, make.sh --check fails where they differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
expressions=src/environment/calculator/testdata/expressions.txt
if [[ ${1:-} == --check ]]; then
  tools/goldens/make_calculator_expressions.py | cmp - "$expressions"
else
  tools/goldens/make_calculator_expressions.py >"$expressions"
fi
