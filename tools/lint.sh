#!/usr/bin/env bash
# The rules of the house that a compiler does not check. Run by './dev lint' in the root of the tree:
#   tools/lint.sh [--text-only] [--all | FILE...]    without files: those changed since the last commit of origin/main,
#                                                    or else since the commit before
# --text-only leaves out what needs a compiler. Exits 1 when a rule is broken.
set -euo pipefail

text_only=0
files=()
all=0
for argument in "$@"; do
  case $argument in
    --text-only) text_only=1 ;;
    --all) all=1 ;;
    -*) echo "lint: there is no option $argument" >&2; exit 2 ;;
    *) files+=("$argument") ;;
  esac
done

list_files() {
  if ((all)); then
    git ls-files --cached --others --exclude-standard
    return
  fi
  local since
  since=$(git merge-base origin/main HEAD 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || git hash-object -t tree /dev/null)
  git diff --name-only --diff-filter=d "$since"
  git ls-files --others --exclude-standard
}
if ((${#files[@]} == 0)); then
  mapfile -t files < <(list_files | grep -E '^(src|bench|tools)/.*\.(cc|h)$' | sort -u | while read -r file; do if [[ -f $file ]]; then echo "$file"; fi; done)
fi
if ((${#files[@]} == 0)); then
  echo "lint: no source has changed"
  exit 0
fi

broken=0
complain() {
  echo "$1"
  broken=1
}

# Rules on the text of one file; prints "file:line: what is wrong".
text_rules() {
  perl -e '
    my %heavy_header = map { $_ => 1 } qw(boost toml++ spdlog CLI protozero dnnl benchmark);
    my %depends;   # area => {area it may include}
    sub depends_of {
      my $area = shift;
      return $depends{$area} if $depends{$area};
      my %known = ($area => 1);
      if (open my $in, "<", "src/$area/CMakeLists.txt") {
        local $/; my $text = <$in>;
        $text =~ s/#.*//g;
        while ($text =~ /DEPENDS\s+([a-z_\s]+)/g) { for my $next (split " ", $1) { $known{$_} = 1 for keys %{depends_of($next)}; } }
      }
      return $depends{$area} = \%known;
    }
    # Functions of more than 60 lines, by the indentation that clang-format gives: at file level and in classes.
    sub long_functions {
      my ($file, @lines) = @_;
      my %first;   # indentation => line on which the declaration at hand began
      for (my $i = 0; $i < @lines; ++$i) {
        next unless $lines[$i] =~ /^( {0,4})(?=[A-Za-z~\[])/ && length($1) % 2 == 0 || $lines[$i] =~ /\{$/;
        $first{length $1} = $i if defined $1 && $lines[$i] !~ /^\s*(public|private|protected):/;
        next unless $lines[$i] =~ /\{$/;
        for my $indent (0, 2) {
          my $start = $first{$indent};
          next unless defined $start;
          my $head = join " ", @lines[$start .. $i];
          next if $head =~ /[;}]/ || $head !~ /\(/ || $head =~ /^\s*(namespace|class|struct|enum|union|extern)\b/ || $head =~ /= *[\[{]/;
          my $end = $i;
          ++$end while $end < @lines && $lines[$end] !~ /^ {$indent}\}/;
          my $length = $end - $start + 1;
          print "$file:", $start + 1, ": a function of $length lines; split it (at most 60)\n" if $length > 60;
          $i = $end;
          %first = ();
          last;
        }
      }
    }
    my %is_area = map { m{^src/(\w+)/}; ($1 => 1) } glob("src/*/");
    for my $file (@ARGV) {
      open my $in, "<", $file or die "lint: cannot read $file: $!\n";
      local $/; my $text = <$in>;
      my @lines = split /\n/, $text, -1;
      my $header = $file =~ /(?<!-inl)\.h$/;  # an -inl.h is included once for each instruction set
      my $test = $file =~ m{_test\.cc$|test_support\.|/testing/};
      my ($area) = $file =~ m{^src/(\w+)/};
      my $limit = $header ? 160 : 500;
      my $count = @lines - 1;
      print "$file: $count lines; split it (at most $limit)\n" if $count > $limit && !$test;
      print "$file:1: a header starts with #pragma once\n" if $header && $text !~ /^(\/\/[^\n]*\n)*\s*#pragma once/;
      long_functions($file, @lines) unless $test;
      my $number = 0;
      for my $line (@lines) {
        ++$number;
        my $at = "$file:$number:";
        print "$at unfinished work has no place in the tree\n" if $line =~ /\b(TODO|FIXME|XXX)\b/;
        print "$at a test keeps its files in a TestFolder (base/testing/test_folder.h): tests run side by side\n"
          if $test && $file !~ /test_folder\.h$/ && $line =~ /\bTempDir\(|temp_directory_path|"\/tmp\b|\bmkdtemp\b|\btmpnam\b/;
        if ($line =~ /^#include <([^>\/]+)\//) { print "$at <$1/...> belongs in a .cc file\n" if $header && $heavy_header{$1}; }
        if ($area && $line =~ /^#include "(\w+)\//) {
          print "$at area $area does not declare that it depends on $1 (src/$area/CMakeLists.txt)\n"
            if $is_area{$1} && !$test && !depends_of($area)->{$1};
        }
      }
      # Lambda coroutines with captures: the captures die with the lambda object, before the frame.
      my $bare = $text;
      $bare =~ s{("(?:[^"\\\n]|\\.)*"|\x27(?:[^\x27\\\n]|\\.)\x27|//[^\n]*)}{ my $x = $1; $x =~ s/[^\n]/ /g; $x }ge;
      while ($bare =~ /(?<![\w\)\]])\[[^\]\[]+\]\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*(?:mutable\s*)?(?:noexcept\s*)?(?:->\s*[\w:<>,\s&*]+?)?\s*(\{(?:[^{}]++|(?1))*\})/g) {
        my ($body, $start) = ($1, $-[0]);
        pos($bare) = $-[1] + 1;
        1 while $body =~ s/\[\s*\]\s*(?:\([^()]*\))?\s*(?:->\s*[\w:<>,\s&*]+?)?\s*(\{(?:[^{}]++|(?1))*\})//g;
        next unless $body =~ /\bco_(await|return|yield)\b/;
        my $line = 1 + (substr($bare, 0, $start) =~ tr/\n//);
        print "$file:$line: a lambda coroutine has captures; pass its state as parameters\n";
      }
    }' -- "$@"
}

# Each header compiles on its own.
check_headers() {
  local command
  # shellcheck disable=SC2016
  command='clang++-19 -std=c++20 -fsyntax-only -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-pragma-once-outside-header -Isrc -Itools -x c++ "$1" || echo "$1: does not compile on its own"'
  printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 bash -c "$command" -- 2>&1
}

output=$(text_rules "${files[@]}")
[[ -z $output ]] || complain "$output"

if ((!text_only)); then
  headers=()
  sources=()
  for file in "${files[@]}"; do
    if [[ $file == *-inl.h ]]; then :; elif [[ $file == *.h ]]; then headers+=("$file"); else sources+=("$file"); fi
  done
  if ((${#headers[@]})); then
    output=$(check_headers "${headers[@]}")
    [[ -z $output ]] || complain "$output"
  fi
  if ((${#sources[@]})); then
    output=$(printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 1 clang-tidy-19 --quiet -p build/release 2>/dev/null) || complain "$output"
  fi
fi

if ((broken)); then exit 1; fi
echo "lint: ${#files[@]} files keep the rules"
