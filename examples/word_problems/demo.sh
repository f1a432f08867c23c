#!/usr/bin/env bash
# Trains SmolLM2-135M-Instruct to solve arithmetic word problems with a calculator: a short supervised warm-up, then
# asynchronous GRPO. Takes up to an hour on two cores; with --resume an interrupted one goes on.
# Usage: demo.sh [--model FILE] [--seed N] [--json FILE] [--output FOLDER] [--resume] [key=value ...]
# STOKER names the program; --model a GGUF file or model directory.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../shared.sh"

model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf resume=0
read_arguments "--model= --resume key=value" "$@"
output=${output:-runs/word-problems-seed-$seed}
begin=$(date +%s.%N)

if ((!resume)); then rm -rf "${output:?}"/{form,rl,train.json}; fi
mkdir -p "$output"

# What a phase goes on from, if anything.
resumed() { if [[ -e $output/$1/run.toml ]]; then echo --resume; fi; }

if [[ ! -e $output/form/model ]]; then
  say "Warm-up: demonstrations teach the form of a call, and a little of how a story becomes an expression"
  # shellcheck disable=SC2046
  "$stoker" sft "$here/form.toml" "seed=$seed" "model.path=$model" "output=$output/form" $(resumed form)
fi
say "Asynchronous GRPO"
# shellcheck disable=SC2046
"$stoker" train "$here/run.toml" "seed=$seed" "model.path=$output/form/model" "output=$output/rl" \
  --json "$output/train.json" "${overrides[@]}" $(resumed rl)

say "Held-out problems"
report_training "$begin"
