"""Memory of a step of GRPO: of its process, and of the compiled programs."""

import argparse
from typing import Any

from benchmarks import grpo_step, measuring
from benchmarks.workloads import WORKLOADS


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(commands, "memory", run, "measure the memory of whole steps of GRPO", runs=5)
    command.add_argument("--workloads", default="S,M,L", help="of workloads.py, by default %(default)s")
    grpo_step.add_settings(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    names = measuring.chosen("workloads", arguments.workloads, WORKLOADS)
    found = {}
    print("workload  of the process, MiB  of sampling beside its arguments  of the update, MiB")
    for name in names:
        with grpo_step.start(name, memory=True, **grpo_step.settings_of(arguments)) as ours:
            for _ in range(arguments.runs):
                ours.step()
            found[name] = {"process": ours.peak_memory(), "programs": ours.first["temporary"]} | ours.description
        process = "unknown" if found[name]["process"] is None else f"{found[name]['process']:.0f}"
        sampling, update = (found[name]["programs"][part] / 2**20 for part in ("sampling", "update"))
        print(f"{name:8}  {process:>19}  {sampling:32.1f}  {update:18.1f}", flush=True)
    return {"memory": found}
