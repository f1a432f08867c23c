#!/usr/bin/env bash
# The demo with its calculator and its reward in Python, beside the native one: trains the one in Python as the demo does,
# then measures the time of a step of both by turns, so that whatever else the machine does meets both alike.
# Usage: compare.sh [--seed N] [--json FILE] [--output FOLDER] [--rounds N], in the root of the tree; STOKER names the program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../shared.sh"

output=runs/compare rounds=25 steps=24
read_arguments "--rounds=" "$@"

STOKER=$stoker "$here/demo.sh" --seed "$seed" --run "$here/python.toml" --output "$output/demo" --json "$output/demo.json"

# Mean seconds of a step of a short run without evaluations; the first two steps fill the pipeline.
step_seconds() {
  local run=$1 folder=$2
  rm -rf "${folder:?}"
  "$stoker" --quiet train "$run" "seed=$seed" "model.path=$output/demo/habits/model" "output=$folder" "rollout.steps=$steps" \
    train.evaluate_every=0 train.evaluate_at_start=false train.evaluate_at_end=false checkpoint.every_steps=0 >/dev/null
  sed -n 's/.*"step_time":\([0-9.e+-]*\).*/\1/p' "$folder/metrics.jsonl" |
    awk 'NR > 2 { sum += $1; ++count } END { if (!count) exit 1; printf "%.6f", sum / count }'
}

pairs=""
for ((round = 1; round <= rounds; ++round)); do
  # Whoever comes first changes from round to round.
  if ((round % 2)); then
    native=$(step_seconds "$here/run.toml" "$output/native")
    python=$(step_seconds "$here/python.toml" "$output/python")
  else
    python=$(step_seconds "$here/python.toml" "$output/python")
    native=$(step_seconds "$here/run.toml" "$output/native")
  fi
  echo "round $round: a step takes $native s, with Python $python s" >&2
  pairs+="$native $python"$'\n'
done

# The median over the rounds of a column, or of the ratio.
median() { awk "NF { print $1 }" <<<"$pairs" | sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
native=$(median '$1') python=$(median '$2') ratio=$(median '$2 / $1')
printf 'step time: native %s s, with Python %s s, ratio %s\n' "$native" "$python" "$ratio"

if [[ -n $json ]]; then
  {
    sed '$d' "$output/demo.json" | sed '$s/$/,/'
    echo "  {\"name\": \"step_time_native\", \"value\": $native, \"unit\": \"s\", \"seed\": $seed},"
    echo "  {\"name\": \"step_time_python\", \"value\": $python, \"unit\": \"s\", \"seed\": $seed},"
    echo "  {\"name\": \"step_time_ratio\", \"value\": $ratio, \"unit\": \"\", \"seed\": $seed}"
    echo "]"
  } >"$json.tmp"
  mv "$json.tmp" "$json"
fi
