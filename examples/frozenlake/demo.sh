#!/usr/bin/env bash
# Trains a small agent from nothing to walk over frozen lakes: fresh weights, one supervised warm-up, asynchronous GRPO.
# Usage: demo.sh [--seed N] [--json FILE] [--output FOLDER] [key=value ...]; STOKER names the program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stoker=${STOKER:-stoker}

seed=1 json="" output="" overrides=()
while (($#)); do
  case $1 in
    --seed) seed=${2:?--seed needs a number}; shift ;;
    --json) json=${2:?--json needs a file}; shift ;;
    --output) output=${2:?--output needs a folder}; shift ;;
    *=*) overrides+=("$1") ;;
    *) echo "demo: unknown argument '$1'; known: --seed N, --json FILE, --output FOLDER, key=value" >&2; exit 2 ;;
  esac
  shift
done
[[ $seed =~ ^[0-9]+$ ]] || { echo "demo: --seed needs a number, not '$seed'." >&2; exit 2; }
output=${output:-runs/frozenlake-seed-$seed}
begin=$(date +%s.%N)

say() { printf '\n== %s\n' "$*" >&2; }
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

figure() { awk -v name="\"$1\"" '$0 ~ "\"name\": " name "," { found = 1 } found && /"value"/ { gsub(/[^0-9.eE+-]/, "", $2); print $2; exit }' "$output/train.json"; }
seconds=$(awk -v begin="$begin" -v end="$(date +%s.%N)" 'BEGIN { printf "%.1f", end - begin }')
say "Success on held-out lakes"
printf '%-22s %8s %8s\n' "" before after
printf '%-22s %8s %8s\n' greedy "$(figure success_before)" "$(figure success_after)"
printf '%-22s %8s %8s\n' "temperature 1" "$(figure success_before_sampled)" "$(figure success_after_sampled)"
echo "model       $output/rl/model"
echo "run folder  $output/rl"
echo "seconds     $seconds"

if [[ -n $json ]]; then
  {
    echo "["
    for name in success_before success_after success_before_sampled success_after_sampled; do
      echo "  {\"name\": \"$name\", \"value\": $(figure $name), \"unit\": \"share\", \"seed\": $seed},"
    done
    echo "  {\"name\": \"seconds\", \"value\": $seconds, \"unit\": \"s\", \"seed\": $seed}"
    echo "]"
  } >"$json.tmp"
  mv "$json.tmp" "$json"
fi
