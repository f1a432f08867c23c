#!/usr/bin/env bash
# Reads small.perfetto-trace with Perfetto's own message classes (PyPI perfetto) in a virtual environment under build/ and
# writes what they hold to small.txt; make.sh --check fails where it differs.
set -euo pipefail
cd "$(dirname "$0")/../../.."
environment=build/goldens/perfetto-environment
if [[ ! -x $environment/bin/python ]]; then
  mkdir -p build/goldens
  python3 -m venv "$environment"
fi
"$environment/bin/python" -m pip install --quiet perfetto==0.59.1 protobuf==7.36.2
"$environment/bin/python" src/observe/goldens/read_trace.py "$@"
