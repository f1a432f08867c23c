#!/usr/bin/env bash
# Trains the demo's agent where tools hang and environments raise (faults.toml) while its engine process is killed every few
# seconds; then evaluates it in a world without faults and counts what failed, by class.
# Usage: faults.sh [--seed N] [--json FILE] [--output FOLDER], in the root of the tree; STOKER names the program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../shared.sh"

output=runs/faults seconds_between_kills=4
read_arguments "" "$@"
command -v pkill >/dev/null || { echo "$program: pkill is missing; install it (Debian: procps)." >&2; exit 2; }
rm -rf "${output:?}"/{fresh,form,habits,rl,eval-before,eval-after}
mkdir -p "$output"

"$stoker" init "$output/fresh" size=1M "seed=$seed"
"$stoker" --quiet sft "$here/form.toml" "seed=$seed" "model.path=$output/fresh" "output=$output/form"
"$stoker" --quiet sft "$here/habits.toml" "seed=$seed" "model.path=$output/form/model" "output=$output/habits"

"$stoker" train "$here/faults.toml" "seed=$seed" "model.path=$output/habits/model" "output=$output/rl" &
training=$!
trap 'kill "$training" 2>/dev/null || true' EXIT
kills=0
while kill -0 "$training" 2>/dev/null; do
  sleep "$seconds_between_kills"
  if pkill -KILL -P "$training" -f 'engine serve'; then kills=$((kills + 1)); fi
done
wait "$training"
trap - EXIT

evaluate() { "$stoker" --quiet eval "$here/run.toml" "seed=$seed" "model.path=$1" "output=$output/$2" --json "$output/$2.json" >&2; }
evaluate "$output/habits/model" eval-before
evaluate "$output/rl/model" eval-after
"$stoker" trace summary "$output/rl" --json "$output/summary.json"

# Attempts that ended in each failure, and engines lost, as the run's logs have them.
failed=$(sed -n 's/.*"failure":"\([a-z_]*\.[a-z_]*\)".*/\1/p' "$output/rl/events.jsonl" | sort | uniq -c)
count() { awk -v name="$1" '$2 == name { sum += $1 } END { print sum + 0 }' <<<"$failed"; }
lost=$(grep -c '"event":"lost"' "$output/rl/engine_events.jsonl" || true)
printf '\n%-34s %8s\n' "attempts that failed" "" && awk '{ printf "  %-32s %8d\n", $2, $1 }' <<<"$failed"
printf '%-34s %8d\n' "engine processes killed" "$kills" "engines lost" "$lost"
printf '%-34s %8s %8s\n' "success without faults" before after
printf '%-34s %8s %8s\n' "  greedy" "$(figure eval/greedy/success "$output/eval-before.json")" "$(figure eval/greedy/success "$output/eval-after.json")"
printf '%-34s %8s %8s\n' "  temperature 1" "$(figure eval/temperature_1/success "$output/eval-before.json")" "$(figure eval/temperature_1/success "$output/eval-after.json")"

write_figures <<END
success_before $(figure eval/greedy/success "$output/eval-before.json") share
success_after $(figure eval/greedy/success "$output/eval-after.json") share
success_before_sampled $(figure eval/temperature_1/success "$output/eval-before.json") share
success_after_sampled $(figure eval/temperature_1/success "$output/eval-after.json") share
tools_hung $(count tool.timeout) attempts
environments_raised $(count environment.broken) attempts
engines_killed $kills
engines_lost $lost
END
