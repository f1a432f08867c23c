#!/usr/bin/env bash
# Follows "In five minutes" of docs/attach.md to the letter in an empty folder, and takes the time: files are written as
# they stand there, commands are run, the transcript of `try` is compared. Usage: newcomer.sh [--json FILE]; Stoker must be
# built (./dev build).
set -euo pipefail
STOKER=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export STOKER

json=""
if [[ ${1:-} == --json ]]; then json=$(realpath -m "${2:?--json needs a file}"); shift 2; fi
(($# == 0)) || { echo "newcomer: unknown argument '$1'; known: --json FILE" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/blocks" "$folder/work"
# Each block of code as NUMBER.LANGUAGE.
awk -v folder="$folder/blocks" '
  /^## / { inside = ($0 == "## In five minutes"); next }
  !inside { next }
  /^```/ && file { close(file); file = ""; next }
  /^```/ { file = sprintf("%s/%03d.%s", folder, ++count, substr($0, 4)); printf "" > file; next }
  file { print > file }' "$STOKER/docs/attach.md"

# A command behind "$ ", its input behind "> ", and what it must answer.
follow_transcript() {
  local command answers
  command=$(sed -n '1s/^\$ //p' "$1")
  answers=$(sed -n 's/^> //p' "$1" | bash -c "$command")
  sed '1d; /^> /d' "$1" | while IFS= read -r wanted; do
    grep -qxF -- "$wanted" <<<"$answers" || { echo "newcomer: '$command' did not answer: $wanted" >&2; exit 1; }
  done
}

cd "$folder/work"
begin=$(date +%s.%N)
blocks=0
for block in "$folder"/blocks/*; do
  blocks=$((blocks + 1))
  first=$(head -n 1 "$block")
  case $block in
    *.sh)
      if [[ $first == '$ '* ]]; then
        follow_transcript "$block"
      else
        set +u  # the reader's shell
        # shellcheck disable=SC1090
        source "$block"
        set -u
      fi ;;
    *) cp "$block" "${first#\# }" ;;  # its first line is a comment with the file's name
  esac
done
seconds=$(awk -v begin="$begin" -v end="$(date +%s.%N)" 'BEGIN { printf "%.1f", end - begin }')
steps=$(grep -c '"step_time"' runs/mine/metrics.jsonl)  # other rows are evaluations
echo "$blocks blocks followed in $seconds s; the run has $steps steps."
if [[ -n $json ]]; then
  printf '[{"name": "newcomer_seconds", "value": %s, "unit": "s"}, {"name": "newcomer_steps", "value": %s, "unit": "steps"}]\n' \
    "$seconds" "$steps" >"$json"
fi
