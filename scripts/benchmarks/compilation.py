"""Time until the first step is done, and the number of programs that a run compiles."""

import argparse
import tempfile
from typing import Any

from benchmarks import grpo_step, measuring
from benchmarks.workloads import WORKLOADS

STEPS = 50


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(commands, "compile", run, "time the first step, and count compilations", runs=5)
    command.add_argument("--workloads", default="S", help="of workloads.py, by default %(default)s")
    grpo_step.add_settings(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    names = measuring.chosen("workloads", arguments.workloads, WORKLOADS)
    settings = grpo_step.settings_of(arguments)
    found = {}
    print("workload  first step, cold  first step, warm       programs after step 1, 2 and 50")
    for name in names:
        # An empty cache folder.
        with tempfile.TemporaryDirectory() as folder:
            environment = {"IPSRL_CACHE": folder}
            with grpo_step.start(name, environment=environment, **settings) as cold:
                programs = [cold.first["programs"]]
                programs += [cold.step()["programs"] for _ in range(STEPS - 1)]
            warm = []
            for _ in range(arguments.runs):
                with grpo_step.start(name, environment=environment, **settings) as again:
                    warm.append(again.first_step)
        counts = (programs[0], programs[1], programs[-1])
        spread = measuring.Spread.of(warm)
        found[name] = {"cold": cold.first_step, "warm": spread, "programs": counts}
        print(f"{name:8}  {cold.first_step:14.1f} s  {spread!s:21}  {', '.join(map(str, counts))}", flush=True)
    return {"compile": found}
