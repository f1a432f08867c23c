#!/usr/bin/env bash
# Trains a small agent from nothing: fresh weights, two supervised warm-ups, asynchronous GRPO; shows it before and after.
# Usage: demo.sh [--seed N] [--json FILE] [--output FOLDER] [--run FILE] [--short] [key=value ...]
# STOKER names the program; --run is what is trained instead of run.toml, such as python.toml, from the root of the tree.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../shared.sh"

run="$here/run.toml" short=0
read_arguments "--run= --short key=value" "$@"
output=${output:-runs/demo-seed-$seed}
begin=$(date +%s.%N)

# The short form learns as much in fewer steps and asks for less at the end; CI runs it.
if ((short)); then overrides+=(rollout.steps=20 evaluate.tasks=128 train.evaluate_every=0); fi

rm -rf "${output:?}"/{fresh,form,habits,rl,train.json}
mkdir -p "$output"

say "Fresh weights"
"$stoker" init "$output/fresh" size=1M "seed=$seed"
say "Warm-up 1 of 2: clean demonstrations teach the form of a tool call"
"$stoker" --quiet sft "$here/form.toml" "seed=$seed" "model.path=$output/fresh" "output=$output/form"
say "Warm-up 2 of 2: imperfect demonstrations, most of which answer at once with a wrong number"
"$stoker" --quiet sft "$here/habits.toml" "seed=$seed" "model.path=$output/form/model" "output=$output/habits"
say "Asynchronous GRPO"
"$stoker" train "$run" "seed=$seed" "model.path=$output/habits/model" "output=$output/rl" \
  --json "$output/train.json" "${overrides[@]}"

first_purpose="step 0 greedy"
last_step=$("$stoker" episodes "$output/rl" --limit 1000000 | awk '/ step [0-9]+ greedy/ { for (i = 1; i < NF; ++i) if ($i == "step" && $(i + 1) > last) last = $(i + 1) } END { print last }')
say "An episode before training"
"$stoker" episodes "$output/rl" 0.0 --purpose "$first_purpose"
say "The same task after training"
"$stoker" episodes "$output/rl" 0.0 --purpose "step $last_step greedy"

say "Held-out tasks"
report_training "$begin"

# The short form is a test: it fails when nothing was learned.
if ((short)); then
  awk -v before="$(figure success_before "$output/train.json")" -v after="$(figure success_after "$output/train.json")" 'BEGIN { exit !(after >= 0.7 && after - before >= 0.3) }' || {
    echo "demo: the agent did not learn: greedy success must end at 0.7 or more and rise by 0.3." >&2
    exit 1
  }
fi
