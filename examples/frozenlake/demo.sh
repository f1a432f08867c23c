#!/usr/bin/env bash
# Trains a small agent from nothing to walk over frozen lakes: fresh weights, one supervised warm-up, asynchronous GRPO.
# Usage: demo.sh [--seed N] [--json FILE] [--output FOLDER] [key=value ...]; STOKER names the program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../shared.sh"

read_arguments "key=value" "$@"
output=${output:-runs/frozenlake-seed-$seed}
begin=$(date +%s.%N)

rm -rf "${output:?}"/{fresh,form,rl,train.json}
mkdir -p "$output"

say "Fresh weights"
"$stoker" init "$output/fresh" size=1M hidden_size=64 num_hidden_layers=3 num_attention_heads=4 num_key_value_heads=2 \
  head_dim=16 intermediate_size=192 "seed=$seed"
say "Warm-up: walks with many random moves teach how a move is said"
"$stoker" --quiet sft "$here/form.toml" "seed=$seed" "model.path=$output/fresh" "output=$output/form"
say "Asynchronous GRPO"
"$stoker" train "$here/run.toml" "seed=$seed" "model.path=$output/form/model" "output=$output/rl" \
  --json "$output/train.json" "${overrides[@]}"

say "Held-out lakes"
report_training "$begin"
