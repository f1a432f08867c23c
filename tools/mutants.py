#!/usr/bin/env python3
"""Changes the controller and the orchestrator in small wrong ways, one at a time, and says which of the changes
their tests find.

    git worktree add --detach /tmp/mutants && cd /tmp/mutants
    cmake --preset release
    tools/mutants.py --build build/release                 # all of them
    tools/mutants.py --build build/release --count 10      # ten, spread over all
    tools/mutants.py --list                                # what would be changed

Each mutant is built and given to the tests of controller and orchestrator, then to the explorer. A failure or a
run past its time kills it; one that does not compile does not count. The sources of the tree are changed in place
and restored, so give it a worktree of its own. Exit status 1: fewer than 95 % were killed.
"""

import argparse
import pathlib
import re
import subprocess
import sys

SOURCES = ["controller.cc", "controller_decide.cc", "controller_state.h", "depth_finder.cc", "orchestrator.cc"]
TESTS = "Controller*:Orchestrator*:DepthFinder*:UpdateBoundary*"
SWAPS = [  # pattern, replacement, name
    (r" < ", " <= ", "shift a bound"),
    (r" <= ", " < ", "shift a bound"),
    (r" > ", " >= ", "shift a bound"),
    (r" >= ", " > ", "shift a bound"),
    (r" \+ 1\b", "", "shift a bound"),
    (r" - 1\b", "", "shift a bound"),
    (r" == ", " != ", "negate a condition"),
    (r" != ", " == ", "negate a condition"),
    (r" && ", " || ", "negate a condition"),
    (r" \|\| ", " && ", "negate a condition"),
    (r"\bstd::min\b", "std::max", "swap a choice"),
    (r"\bstd::max\b", "std::min", "swap a choice"),
    (r"\bkDropGroup\b", "kSetAside", "swap an action"),
    (r"\bkStartEpisode\b", "kCancelEpisode", "swap an action"),
    (r"\bkCancelEpisode\b", "kStartEpisode", "swap an action"),
    (r"\bkFinish\b", "kGiveUp", "swap an action"),
    (r"\bkScored\b", "kFailed", "swap an action"),
    (r"\bkFailed\b", "kScored", "swap an action"),
    (r"\+\+", "--", "count backwards"),
    (r"(?<![-\w])--(?=\w)", "++", "count backwards"),
    (r" = true;", " = false;", "swap a choice"),
    (r" = false;", " = true;", "swap a choice"),
]
STATEMENT = re.compile(r"^\s+(?!return|case|break|throw|const|auto|using|static|if|for|while|switch|\[\[)"
                       r"[a-z_+\-][\w.:>\-+\[\]]*(\(.*\)| (=|\+=|-=) .*)?;$")


def drops(line):
    """A whole statement on one line that declares nothing; without it, the line is empty."""
    return STATEMENT.match(line) and (re.match(r"^\s+[\w.>\-\[\]+]+(\(| = | \+= | -= |;)", line) is not None)


def mutants_of(path):
    """Each as (path, number of the line from 0, what is done, the line then)."""
    before = ""
    for number, line in enumerate(path.read_text().splitlines()):
        begins = before.rstrip()[-1:] in ("", ";", "{", "}", ":")  # a statement, not its second line
        before = line.split("//")[0] if line.split("//")[0].strip() else before
        code = line.split("//")[0].rstrip()
        if not line.startswith("  ") or not code or "fmt::format" in code or '"' in code or "#include" in code:
            continue
        if "template" in code or "internal_error" in code or "->" in code and "auto" in code:
            continue
        for pattern, replacement, name in SWAPS:
            for match in re.finditer(pattern, code):
                yield path, number, name, code[:match.start()] + replacement + code[match.end():]
        condition = re.match(r"^(\s*(?:\} else )?if \()(.*)(\)(?: \{| return.*;| break;| continue;)?)$", code)
        if condition and ";" not in condition.group(2) and condition.group(2).count("(") == \
                condition.group(2).count(")"):
            yield (path, number, "negate a condition",
                   f"{condition.group(1)}!({condition.group(2)}){condition.group(3)}")
        if begins and drops(code):
            yield path, number, "drop a statement", ""


def run(command, seconds):
    """The exit status; None: it took longer."""
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return None


def judge(build, arguments):
    """How the changed tree fares: 'invalid', 'survived', or what killed it."""
    folder = pathlib.Path(build) / "src" / "rollout"
    if run(["ninja", f"-j{arguments.jobs}", "-C", build, "rollout_test", "rollout_explorer"], 900) != 0:
        return "invalid"
    tests = [("tests", [str(folder / "rollout_test"), f"--gtest_filter={TESTS}", "--gtest_brief=1"]),
             ("explorer", [str(folder / "rollout_explorer"), str(arguments.runs)])]
    for name, command in tests:
        status = run(command, arguments.seconds)
        if status is None:
            return f"killed by the time of the {name}"
        if status != 0:
            return f"killed by the {name}"
    return "survived"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="a configured build folder of this tree")
    parser.add_argument("--count", type=int, default=0, help="so many, spread over all; 0: all")
    parser.add_argument("--runs", type=int, default=1000, help="of the explorer, for each mutant")
    parser.add_argument("--seconds", type=float, default=120, help="after which a test program counts as hung")
    parser.add_argument("--jobs", type=int, default=2, help="of the build")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent / "src" / "rollout"
    mutants = [mutant for name in SOURCES for mutant in mutants_of(root / name)]
    if 0 < arguments.count < len(mutants):
        mutants = [mutants[i * len(mutants) // arguments.count] for i in range(arguments.count)]
    if arguments.list:
        for path, number, name, line in mutants:
            print(f"{path.name}:{number + 1}: {name}: {line.strip() or '(empty)'}")
        print(f"{len(mutants)} mutants")
        return 0
    if judge(arguments.build, arguments) != "survived":
        sys.exit("The tree as it is does not build, or its own tests fail: there is nothing to compare with.")
    killed, survived, invalid = 0, [], 0
    for path, number, name, line in mutants:
        original = path.read_text()
        lines = original.splitlines()
        lines[number] = line
        try:
            path.write_text("\n".join(lines) + "\n")
            verdict = judge(arguments.build, arguments)
        finally:
            path.write_text(original)
        where = f"{path.name}:{number + 1}: {name}: {line.strip() or '(empty)'}"
        print(f"{verdict}: {where}", flush=True)
        killed += verdict.startswith("killed")
        invalid += verdict == "invalid"
        if verdict == "survived":
            survived.append(where)
    judged = killed + len(survived)
    print(f"{judged} mutants ({invalid} more did not build): {killed} killed, {len(survived)} survived")
    return 0 if judged > 0 and killed >= 0.95 * judged else 1


if __name__ == "__main__":
    sys.exit(main())
