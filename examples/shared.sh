# Sourced by the scripts of the examples: their arguments, and the figures that they read and write.
# shellcheck shell=bash disable=SC2034

stoker=${STOKER:-stoker}
program=$(basename "$0" .sh)
seed=1 json="" output="" overrides=()

# read_arguments KNOWN ARGUMENTS: sets seed, json, output and what KNOWN names beside them: "--name=" takes a value, "--name"
# is set to 1, "key=value" collects overrides of the run file.
read_arguments() {
  local known=" --seed= --json= --output= $1 "
  shift
  while (($#)); do
    if [[ $1 =~ ^--[a-z_]+$ && $known == *" $1= "* ]]; then
      [[ -n ${2-} ]] || { echo "$program: $1 needs a value." >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift
    elif [[ $1 =~ ^--[a-z_]+$ && $known == *" $1 "* ]]; then
      printf -v "${1#--}" 1
    elif [[ $1 != --* && $1 == *=* && $known == *" key=value "* ]]; then
      overrides+=("$1")
    else
      echo "$program: unknown argument '$1'; known:${known//= / VALUE }" >&2
      exit 2
    fi
    shift
  done
  [[ $seed =~ ^[0-9]+$ ]] || { echo "$program: --seed needs a number, not '$seed'." >&2; exit 2; }
}

say() { printf '\n== %s\n' "$*" >&2; }

# figure NAME FILE: a figure of a file that a verb's --json wrote; nothing when it holds no such figure.
figure() {
  awk -v name="\"$1\"" '$0 ~ "\"name\": " name "," { found = 1 } found && /"value"/ { gsub(/[^0-9.eE+-]/, "", $2); print $2; exit }' "$2"
}

# write_figures: lines of NAME VALUE [UNIT] from standard input, written to the file of --json if there is one.
write_figures() {
  [[ -n $json ]] || return 0
  awk -v seed="$seed" 'BEGIN { printf "[" }
    $2 !~ /^[-+0-9.eE]+$/ { print "There is no figure " $1 "; the log above says why." > "/dev/stderr"; bad = 1; exit 1 }
    { printf "%s\n  {\"name\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"seed\": %s}", (NR > 1 ? "," : ""), $1, $2, $3, seed }
    END { if (!bad) print "\n]" }' >"$json.tmp"
  mv "$json.tmp" "$json"
}

# report_training BEGIN: success before and after $output/rl, whose figures are in $output/train.json, the most memory that
# a run in $output held, and the seconds since BEGIN, printed and written.
report_training() {
  local seconds memory name lines=""
  seconds=$(awk -v begin="$1" -v end="$(date +%s.%N)" 'BEGIN { printf "%.1f", end - begin }')
  memory=$(grep -ho '"process/peak_memory_bytes":[0-9.e+]*' "$output"/*/metrics.jsonl \
    | awk -F: '$2 + 0 > most { most = $2 + 0 } END { printf "%.2f", most / 1e9 }')
  for name in success_before success_after success_before_sampled success_after_sampled; do
    if [[ -n $(figure $name "$output/train.json") ]]; then lines+="$name $(figure $name "$output/train.json") share"$'\n'; fi
  done
  printf '%-22s %8s %8s\n' "success" before after
  awk '$1 ~ /_before/ { before[$1 ~ /sampled/] = $2 } $1 ~ /_after/ { printf "%-22s %8s %8s\n", $1 ~ /sampled/ ? "temperature 1" : "greedy", before[$1 ~ /sampled/], $2 }' <<<"$lines"
  echo "model       $output/rl/model"
  echo "run folder  $output/rl"
  echo "peak memory $memory GB"
  echo "seconds     $seconds"
  write_figures <<<"${lines}peak_memory $memory GB"$'\n'"seconds $seconds s"
}
