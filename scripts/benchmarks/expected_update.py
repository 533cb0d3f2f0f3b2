"""The exact mean of an objective's update over all groups of a bandit."""

import argparse
import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import measuring
from ipsrl.checking import specifications
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.objectives import make

BANDITS = ((5, 16), (3, 64))
"""Outcomes and group sizes."""


def add_command(commands: argparse._SubParsersAction) -> None:
    summary = "time exact means over all groups of a bandit"
    command = measuring.add_command(commands, "expected_update", run, summary, runs=7)
    command.add_argument("--only", default="grpo,ips_grpo,trajectory_balance", help="by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    timings = time_expected_updates(specifications.split(arguments.only), arguments.runs)
    width = max(len(timing["objective"]) for timing in timings)
    print(f"{'objective':{width}}  outcomes  group size  median s  (shortest to longest)  first s")
    for t in timings:
        print(
            f"{t['objective']:{width}}  {t['outcomes']:8}  {t['group_size']:10}  {t['median']:8.3f}  "
            f"{'({shortest:.3f} to {longest:.3f})'.format(**t):21}  {t['first']:7.1f}"
        )
    return {"expected_updates": timings}


def time_expected_updates(chosen: Sequence[str], runs: int) -> list[dict]:
    """Seconds of the exact mean update of each objective, for each of `BANDITS`.

    Raises:
      ValueError: an objective is unknown, or needs text; or there are fewer than five runs.
    """
    measuring.check_runs(runs)
    found = []
    for text in chosen:
        for outcomes, group_size in BANDITS:
            point = jnp.linspace(-0.5, 0.5, outcomes)
            mean = functools.partial(expected_update, make(text), point, 1 + point, group_size)
            started = time.perf_counter()
            jax.block_until_ready(mean())
            first = time.perf_counter() - started
            spread = measuring.Spread.of([measuring.seconds(mean) for _ in range(runs)])
            found.append(
                {
                    "objective": text,
                    "outcomes": outcomes,
                    "group_size": group_size,
                    **dataclasses.asdict(spread),
                    "first": first,
                }
            )
    return found
