#!/usr/bin/env python3
"""Stoker's orchestration beside Tunix's own, on the same work in this call: episodes of four turns, groups of eight.

  orchestration.py [--rounds N] [--json FILE] [--tokenizer FILE]

Turns a second with a model that answers at once, and how busy 256 episodes keep one whose latency is lognormal, 50 ms in the
mean. Stoker is throughput_bench, with its renderer, parser, tool, trace and event log. Tunix is measured in its barest form and as
its learner uses it (tunix_orchestration.py). Every round measures each in turn; a figure is the best of the rounds, and a ratio the
median of the rounds'.

Needs build/release/bench/throughput_bench ('./dev bench throughput_bench' builds it) and Qwen3's tokenizer.json or tokenizer.json.gz
(that of ../shared/data by default). Tunix lives in a virtual environment under build/bench/peers, made on the first call from PyPI.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from environments import HERE, ROOT, environment

BENCH = os.path.join(ROOT, "build", "release", "bench", "throughput_bench")
EPISODES = {("bare", 64): 2048, ("bare", 1024): 4096, ("learner", 64): 1024, ("learner", 1024): 3072}
BUSY_EPISODES = 2048  # of 256 at once


def stoker():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        subprocess.run([BENCH, "--json", path], check=True, stdout=subprocess.DEVNULL)
        with open(path) as file:
            return {figure["name"]: figure["value"] for figure in json.load(file)}


def tunix(python, tokenizer, form, concurrent, episodes, mean_seconds):
    command = [python, os.path.join(HERE, "tunix_orchestration.py"), form, str(concurrent), str(episodes), str(mean_seconds)]
    done = subprocess.run([*command, tokenizer], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def round_of(python, tokenizer):
    """Stoker's figures of one round, and Tunix's: {(name, form): value}."""
    figures = {}
    for (form, concurrent), episodes in EPISODES.items():
        figures[f"turns_per_second_{concurrent}", form] = tunix(python, tokenizer, form, concurrent, episodes, 0)["turns_per_second"]
    for form in ("bare", "learner"):
        figures["utilisation_256", form] = tunix(python, tokenizer, form, 256, BUSY_EPISODES, 0.05)["utilisation"]
    return stoker(), figures


class Report:
    def __init__(self):
        self.figures = []

    def add(self, name, value, unit):
        self.figures.append({"name": name, "value": value, "unit": unit})
        print(f"{name:<46} {value:12.3f} {unit}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--tokenizer", default=os.path.join(ROOT, "..", "shared", "data", "tokenizers", "qwen3",
                                                                "tokenizer.json.gz"))
    arguments = parser.parse_args()
    if not os.path.exists(BENCH):
        parser.error("build/release/bench/throughput_bench is missing; './dev bench throughput_bench' builds it")
    if not os.path.exists(arguments.tokenizer):
        parser.error(f"there is no {arguments.tokenizer}; --tokenizer names a tokenizer.json of Qwen3")
    python = environment("tunix")
    if python is None:
        sys.exit(1)
    rounds = []
    for number in range(arguments.rounds):
        print(f"round {number + 1}: load {os.getloadavg()[0]:.1f}", flush=True)
        rounds.append(round_of(python, arguments.tokenizer))
    report = Report()
    for name in rounds[0][0]:
        report.add(name, max(own[name] for own, _ in rounds), "1/s" if name.startswith("turns") else "share")
    for name, form in rounds[0][1]:
        report.add(f"tunix_{form}_{name}", max(peer[name, form] for _, peer in rounds), "1/s" if name.startswith("turns") else "share")
        report.add(f"{name}_over_tunix_{form}", statistics.median(own[name] / peer[name, form] for own, peer in rounds), "times")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report.figures, file, indent=1)


if __name__ == "__main__":
    main()
