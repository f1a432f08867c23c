#!/usr/bin/env bash
# Seconds from the start of 'stoker generate' to its first token, and its end, in either compute type: the median of seven
# starts after one that reads the file into the page cache. SmolLM2-135M-Instruct has 270 MB of bfloat16 weights, which come
# from a GGUF file here (src/compute/goldens/real_models.sh puts it in place).
# Usage: first_token.sh [--model PATH] [--json FILE], in the root of the tree; STOKER names the program.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../examples/shared.sh"

model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf
read_arguments "--model=" "$@"

lines=""
for type in float32 bfloat16; do
  seconds=()
  for start in {0..7}; do
    begin=$EPOCHREALTIME
    "$stoker" --quiet generate "$model" --compute-type "$type" --prompt "Hello" --temperature 0 --max-tokens 1 >/dev/null
    end=$EPOCHREALTIME
    ((start == 0)) || seconds+=("$(awk "BEGIN { printf \"%.4f\", $end - $begin }")")
  done
  median=$(printf '%s\n' "${seconds[@]}" | sort -g | sed -n 4p)
  echo "first token, $type: $median s (${seconds[*]})"
  lines+="first_token_$type $median s"$'\n'
done
write_figures <<<"${lines%$'\n'}"
