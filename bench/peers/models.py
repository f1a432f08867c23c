#!/usr/bin/env python3
"""Stoker beside PyTorch, JAX, transformers, TRL, Tunix and llama.cpp on the same shapes, all in this call.

  models.py [--rounds N] [--json FILE] [PART ...]

PART: train_small (3.3 million parameters, 64 rows of 96 tokens a step), sample_small (the same model; 1, 8 and 64 prompts of 32
tokens, 64 new ones), grpo_small (its GRPO step: 8 prompts of 8 samples), train_smollm2 (768 tokens a step), smollm2 and gemma3
(decoding, prefill and scoring in bfloat16); all of them by default. Every round measures Stoker and each peer in turn, so that
what else the machine does meets them alike; a figure is the best of the rounds, and its ratio the median of the rounds'. Load
averages are printed with each round. Where both sides have several forms, such as compute types, a ratio is that of Stoker's best
over the named form of the peer, or over its best. What a peer's figure includes is said in its script. All use every processor.

Needs model_bench and grpo_bench in build/release/bench ('./dev build release model_bench grpo_bench'). Peers live in virtual
environments under build/bench/peers, made on the first call from PyPI; PyTorch's takes 6 GB, and llama.cpp is compiled for this
machine in some ten minutes. A peer that cannot be installed is named and left out. Only the standard library is used here.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from environments import FOLDER, HERE, ROOT, environment

BENCHES = os.path.join(ROOT, "build", "release", "bench")
TYPES = ("float32", "bfloat16")
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


def stoker(kind, group, program="model_bench"):
    """Figures of one model and type, by what follows these in their names."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        subprocess.run([os.path.join(BENCHES, program), "--only", f"{kind}_{group}", "--json", path], check=True,
                       stdout=subprocess.DEVNULL)
        with open(path) as file:
            figures = json.load(file)
    return {f["name"][len(kind) + 1:]: f["value"] for f in figures}


class Report:
    def __init__(self):
        self.figures = []

    def rate(self, name, values, unit="tokens/s"):
        """The best of the rounds."""
        self._add(name, max(values), unit)

    def ratio(self, name, own, peer):
        """The median of the rounds'."""
        self._add(name, statistics.median(a / b for a, b in zip(own, peer)), "times")

    def _add(self, name, value, unit):
        self.figures.append({"name": name, "value": value, "unit": unit})
        print(f"{name:<56} {value:12.2f} {unit}", flush=True)


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


def start(peers):
    """{NAME: Peer} of {NAME: (environment, script, argument ...)}; without those whose environment cannot be made."""
    started = {}
    for name, (place, *command) in peers.items():
        python = environment(place)
        if python is not None:
            started[name] = Peer(python, *command)
    return started


def best_of(results, figure):
    """Of each round, the best of some forms: [{form: figures}]."""
    return [max(figures[figure] for figures in forms.values()) for forms in results]


def compare(report, rounds, own, peers, figures, unit="tokens/s"):
    """own() gives {form: figures}; peers are named FAMILY_FORM; figures: {name of the report's: name in both}."""
    started = start(peers)
    results = rounds_of(rounds, own, started)
    for title, figure in figures.items():
        for form in results[0]["own"]:
            report.rate(f"{title}_{form}", [r["own"][form][figure] for r in results], unit)
        best = best_of([r["own"] for r in results], figure)
        for name in started:
            report.rate(f"{name}_{title}", [r[name][figure] for r in results], unit)
            report.ratio(f"{title}_over_{name}", best, [r[name][figure] for r in results])
        for family in sorted({name.split("_")[0] for name in started}):
            if sum(name.startswith(family) for name in peers) == 1:
                continue
            forms = [{name: r[name] for name in started if name.startswith(family)} for r in results]
            report.ratio(f"{title}_over_best_{family}", best, best_of(forms, figure))


def training(report, rounds, model, rows, figure):
    """Forward, backward and AdamW."""
    peers = {f"torch_{form}": ("trl", "torch_training.py", model, str(rows), form) for form in (*TYPES, "compiled")}
    if model == "qwen3_3m":
        peers.update({f"jax_{form}": ("tunix", "jax_training.py", form) for form in TYPES})

    def own():
        return {kind: {"training": stoker(f"{model}_{kind}", "training")[figure]} for kind in TYPES}

    compare(report, rounds, own, peers, {f"{model}_training": "training"})


def sampling(report, rounds):
    peers = {f"tunix_{form}": ("tunix", "tunix_sampling.py", form) for form in TYPES}
    peers.update({f"transformers_{form}": ("trl", "transformers_sampling.py", form) for form in TYPES})
    compare(report, rounds, lambda: {kind: stoker(f"qwen3_3m_{kind}", "sampling", "grpo_bench") for kind in TYPES}, peers,
            {f"qwen3_3m_sampling_{count}": f"sampling_{count}" for count in (1, 8, 64)})


def grpo(report, rounds):
    peers = {f"trl_{form}": ("trl", "trl_grpo.py", form) for form in TYPES}
    peers.update({f"tunix_{form}": ("tunix", "tunix_grpo.py", form) for form in ("batched", "agentic")})

    def own():
        return {kind: {"step": stoker(f"qwen3_3m_{kind}", "grpo", "grpo_bench")["grpo_step"]} for kind in TYPES}

    compare(report, rounds, own, peers, {"qwen3_3m_grpo": "step"}, "steps/s")


def generation(report, rounds, model):
    compare(report, rounds, lambda: {"bfloat16": stoker(f"{model}_bfloat16", "generation")},
            {"llama_cpp": ("llama", "llama_generation.py", model, FOLDER)}, {f"{model}_{name}": name for name in GENERATION})


PARTS = {
    "train_small": lambda report, rounds: training(report, rounds, "qwen3_3m", 64, "training_recompute_none"),
    "sample_small": sampling,
    "grpo_small": grpo,
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
    for program in ("model_bench", "grpo_bench"):
        if not os.path.exists(os.path.join(BENCHES, program)):
            parser.error(f"build/release/bench/{program} is missing; './dev build release {program}' builds it")
    report = Report()
    for part in arguments.parts or PARTS:
        PARTS[part](report, arguments.rounds)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report.figures, file, indent=1)


if __name__ == "__main__":
    main()
