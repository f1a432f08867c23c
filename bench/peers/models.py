#!/usr/bin/env python3
"""Stoker beside PyTorch and llama.cpp on the shapes of model_bench, all in this call.

  models.py [--rounds N] [--json FILE] [PART ...]

PART: train_small (3.3 million parameters, 6144 tokens a step), train_smollm2 (768 tokens a step), smollm2 and gemma3
(decoding, prefill and scoring in bfloat16); all of them by default. Every round measures Stoker and each peer in turn, so that
what else the machine does meets them alike; a figure is the best of the rounds, and its ratio the median of the rounds'. Load
averages are printed with each round.

Needs build/release/bench/model_bench ('./dev bench model' builds it). Peers live in virtual environments under
build/bench/peers, made on the first call from PyPI; PyTorch's takes 6 GB, and llama.cpp is compiled for this machine in some
ten minutes. A peer that cannot be installed is named and left out. Only the standard library is used here.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from environments import FOLDER, HERE, ROOT, environment

BENCH = os.path.join(ROOT, "build", "release", "bench", "model_bench")
TRAINING_FORMS = ["float32", "bfloat16", "compiled"]
GENERATION = ["decode_1", "decode_8", "decode_32", "decode_64", "prefill", "score"]


class Peer:
    """A process that measures for each line that it is sent, and is idle in between. It has begun once it says so."""

    def __init__(self, python, script, *arguments):
        self.process = subprocess.Popen([python, os.path.join(HERE, script), *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def measure(self):
        """Its figures; None once the process has ended."""
        try:
            self.process.stdin.write("measure\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already
        self.process.wait()


def stoker(kind, group):
    """Figures of one model and type in model_bench, by what follows these in their names."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        subprocess.run([BENCH, "--only", f"{kind}_{group}", "--json", path], check=True, stdout=subprocess.DEVNULL)
        with open(path) as file:
            figures = json.load(file)
    return {f["name"][len(kind) + 1:]: f["value"] for f in figures}


class Report:
    def __init__(self):
        self.figures = []

    def add(self, name, own, peer):
        """Own and peer's tokens a second, one of each a round."""
        ratio = statistics.median(a / b for a, b in zip(own, peer))
        self.figures.append({"name": name, "value": max(own), "unit": "tokens/s", "baseline": max(peer), "ratio": ratio})
        print(f"{name:<52} {max(own):10.1f} tokens/s, peer {max(peer):10.1f}: {ratio:.2f} times", flush=True)


def rounds_of(count, own, peers):
    """[{"own": figures, NAME: figures}] of each round; a peer that fails is dropped."""
    results = []
    for number in range(count):
        print(f"round {number + 1}: load {os.getloadavg()[0]:.1f}", flush=True)
        results.append({"own": own()})
        for name in list(peers):
            figures = peers[name].measure()
            if figures is None:
                print(f"{name} failed and is left out.", flush=True)
                peers.pop(name).close()
                continue
            results[-1][name] = figures
    for peer in peers.values():
        peer.close()
    return results


def training(report, rounds, model, rows, own_name):
    """Stoker's better compute type against each form of PyTorch, and against the best of them."""
    python = environment("torch")
    if python is None:
        return
    peers = {form: Peer(python, "torch_training.py", model, str(rows), form) for form in TRAINING_FORMS}

    def own():
        return {kind: stoker(f"{model}_{kind}", "training")[own_name] for kind in ("float32", "bfloat16")}

    results = rounds_of(rounds, own, peers)
    for form in peers:
        for kind in ("float32", "bfloat16"):
            report.add(f"{model}_training_{kind}_over_torch_{form}", [r["own"][kind] for r in results],
                       [r[form]["training"] for r in results])
    if peers:
        report.add(f"{model}_training_over_best_torch", [max(r["own"].values()) for r in results],
                   [max(r[form]["training"] for form in peers) for r in results])


def generation(report, rounds, model):
    python = environment("llama")
    if python is None:
        return
    peers = {"llama": Peer(python, "llama_generation.py", model, FOLDER)}
    results = rounds_of(rounds, lambda: stoker(f"{model}_bfloat16", "generation"), peers)
    for name in GENERATION if peers else []:
        report.add(f"{model}_bfloat16_{name}_over_llama_cpp", [r["own"][name] for r in results],
                   [r["llama"][name] for r in results])


PARTS = {
    "train_small": lambda report, rounds: training(report, rounds, "qwen3_3m", 64, "training_recompute_none"),
    "train_smollm2": lambda report, rounds: training(report, rounds, "smollm2_135m", 8, "training"),
    "smollm2": lambda report, rounds: generation(report, rounds, "smollm2_135m"),
    "gemma3": lambda report, rounds: generation(report, rounds, "gemma3_270m"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("parts", nargs="*", metavar="PART")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if not os.path.exists(BENCH):
        parser.error("build/release/bench/model_bench is missing; './dev bench model' builds it")
    report = Report()
    for part in arguments.parts or PARTS:
        PARTS[part](report, arguments.rounds)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report.figures, file, indent=1)


if __name__ == "__main__":
    main()
