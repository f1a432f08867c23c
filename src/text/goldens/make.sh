#!/usr/bin/env bash
# Makes the goldens of src/text again from Hugging Face's tokenizers and transformers, SentencePiece and jsonschema, in a
# virtual environment under build/: make.sh writes them, make.sh --check fails where they differ.
set -euo pipefail
cd "$(dirname "$0")/../../.."
environment=build/goldens/text-environment
if [[ ! -x $environment/bin/python ]]; then
  mkdir -p build/goldens
  python3 -m venv "$environment"
fi
"$environment/bin/python" -m pip install --quiet tokenizers==0.23.3 transformers==5.24.0 jinja2==3.1.6 \
  sentencepiece==0.2.3 protobuf==7.36.2 jsonschema==4.26.0
"$environment/bin/python" src/text/goldens/make_goldens.py "$@"
"$environment/bin/python" src/text/goldens/make_format_goldens.py "$@"
"$environment/bin/python" src/text/goldens/make_schema_goldens.py "$@"
if [[ ${1-} == --check ]]; then "$environment/bin/python" src/text/goldens/tokenizer_oracle.py; fi
"$environment/bin/python" src/text/goldens/make_template_goldens.py "$@"
