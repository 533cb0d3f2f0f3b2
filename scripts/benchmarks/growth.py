"""Growth of the time of a GRPO step with each size of the work."""

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import grpo_step, measuring
from benchmarks.workloads import WORKLOADS, Workload

FACTORS = (1, 2, 4)
SIZES = ("prompts", "group_size", "prompt_length", "completion_length", "vocabulary_size", "parameters")


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(commands, "growth", run, "time steps of GRPO of several sizes", runs=5)
    command.add_argument("--workload", default="S", help="workload to start from, by default %(default)s")
    command.add_argument("--only", default=",".join(SIZES), help="what grows, by default %(default)s")
    grpo_step.add_settings(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    (name,) = measuring.chosen("workload", arguments.workload, dict.fromkeys(WORKLOADS))
    sizes = measuring.chosen("only", arguments.only, dict.fromkeys(SIZES))
    settings = grpo_step.settings_of(arguments)
    found = {}
    print(f"{'size':17}  {'values':21}  {'seconds a step':21}  exponent: sampling  update")
    for size in sizes:
        values, steps = [], []
        for factor in FACTORS:
            changes = grown(WORKLOADS[name], size, factor)
            with grpo_step.start(name, changes=changes, **settings) as ours:
                steps.append([ours.step() for _ in range(arguments.runs)])
            values.append(ours.description["parameters"] if size == "parameters" else next(iter(changes.values())))
        medians = {
            part: [float(np.median([step[part] for step in same])) for same in steps]
            for part in ("seconds", "sampling", "update")
        }
        found[size] = {"values": values} | medians
        found[size]["exponents"] = {part: exponent(values, times) for part, times in medians.items()}
        shown = (", ".join(map(str, values)), ", ".join(f"{seconds:.3f}" for seconds in medians["seconds"]))
        of_sampling, of_update = (found[size]["exponents"][part] for part in ("sampling", "update"))
        print(f"{size:17}  {shown[0]:21}  {shown[1]:21}  {of_sampling:18.2f}  {of_update:6.2f}", flush=True)
    return {"workload": name, "growth": found}


def grown(workload: Workload, size: str, factor: int) -> dict[str, int]:
    """The fields of a workload that change if one of `SIZES` grows by `factor`.

    Parameters grow by width, with more heads of the same width: the width by the square root of `factor`, rounded to
    heads.
    """
    if size != "parameters":
        return {size: factor * getattr(workload, size)}
    heads = round(workload.num_heads * math.sqrt(factor))
    width = workload.hidden_size // workload.num_heads
    ratio = workload.intermediate_size / workload.hidden_size
    return {
        "hidden_size": heads * width,
        "num_heads": heads,
        # As many queries to a key as before.
        "num_key_value_heads": heads * workload.num_key_value_heads // workload.num_heads,
        "intermediate_size": round(heads * width * ratio),
    }


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """b of the least-squares fit of log seconds = a + b log size."""
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)
