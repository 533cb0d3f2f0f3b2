"""Whole steps of GRPO beside those of other trainers, which do the same work at their best settings."""

import argparse
import contextlib
import dataclasses
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measuring, peer_environments
from benchmarks.contender import Contender
from benchmarks.workloads import COMPARED

OURS = "ipsrl"
MODULES = {"trl": "benchmarks.peers.trl_grpo", "tunix": "benchmarks.peers.tunix_grpo"}
"""Peer -> its program."""

BUSY = 0.5
"""CPU load by other processes above which times are meaningless."""

FAR = 0.1
"""Tolerance around one half: a random model prefers some tokens."""


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "peers", run, "time steps of GRPO beside those of TRL and Tunix, each in an environment of its own", 7
    )
    command.add_argument("--workloads", default="S", help="of workloads.py, by default %(default)s")
    command.add_argument("--peers", default=",".join(MODULES), help="by default %(default)s")
    command.add_argument(
        "--hugepages",
        choices=("true", "false"),
        default="true",
        help="whether all of them may have huge pages of memory (glibc), by default %(default)s",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    workloads = measuring.chosen("workloads", arguments.workloads, COMPARED)
    peers = measuring.chosen("peers", arguments.peers, MODULES)
    interpreters = {peer: peer_environments.python(peer) for peer in peers}
    load, measured = os.getloadavg()[0], {}
    if load > BUSY * os.cpu_count():
        # On two CPUs at load 6, a step of TRL on S takes 15 seconds, and 1.4 with that variable.
        print(
            f"This machine is busy, load {load:.1f}: threads of PyTorch spin while they wait for each other: do not "
            "trust the ratios (GOMP_SPINCOUNT=0 in the environment lets them sleep: cheaper here, dearer elsewhere)"
        )
    for workload in workloads:
        with contextlib.ExitStack() as stack:
            contenders = [
                stack.enter_context(contender)
                for contender in make(workload, interpreters, hugepages=arguments.hugepages == "true")
            ]
            measured[workload] = measure(contenders, arguments.runs)
        print(f"{workload}: {COMPARED[workload]}", *table(measured[workload]), sep="\n", flush=True)
    return {"steps": measured, "hugepages": arguments.hugepages == "true"}


def make(workload: str, interpreters: Mapping[str, Path], hugepages: bool) -> list[Contender]:
    """Ours and the peers, not started yet.

    Args:
      interpreters: of each peer.
      hugepages: the same for all, because PyTorch and XLA gain alike.
    """
    environment = variables() | {
        "GLIBC_TUNABLES": f"glibc.malloc.hugetlb={int(hugepages)}",
        # The first step measures compilation: it must not use an earlier cache.
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    }
    programs = {OURS: (sys.executable, "benchmarks.grpo_step")}
    programs |= {peer: (str(python), MODULES[peer]) for peer, python in interpreters.items()}
    return [
        Contender(name, [python, "-m", module, f"--workload={workload}"], environment)
        for name, (python, module) in programs.items()
    ]


def variables(*folders: Path) -> dict[str, str]:
    """Variables of all contenders, which import from the folder of scripts and from these folders."""
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parents[1], *folders))),
        # Not from the current folder, which may be another clone of this repository.
        "PYTHONSAFEPATH": "1",
        # No downloads, and no warnings or progress of libraries.
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONWARNINGS": "ignore",
    }


@dataclasses.dataclass(frozen=True)
class Steps:
    """Measurements of one contender.

    Attributes:
      name: of the contender.
      seconds: of its steps.
      ratio: median ratio of its steps to ours of the same round.
      first_step: seconds from its start to the end of its first step.
      peak_memory: in MiB, if the system reports it.
      reward: mean of all steps but the first.
      description: its description of itself.
      times: seconds of each step.
    """

    name: str
    seconds: measuring.Spread
    ratio: float
    first_step: float
    peak_memory: float | None
    reward: float
    description: dict[str, Any]
    times: list[float]


def measure(contenders: Sequence[Contender], runs: int) -> list[Steps]:
    """Measures contenders, started, of which the first is the one to compare with; errors as of `rounds`."""
    return steps_of(contenders, rounds(contenders, runs))


def rounds(contenders: Sequence[Contender], runs: int) -> dict[str, list[dict[str, Any]]]:
    """Lets contenders, started, alternate, in another order each round, after one to warm up: the reports of each.

    Raises:
      ValueError: they do not do the same work, or do not get the same rewards.
    """
    check_same_work([contender.description for contender in contenders])
    reports: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    for number in range(runs + 1):
        for contender in in_turn(contenders, number):
            reports[contender.name].append(contender.step())
    check_rewards({name: steps[0]["reward"] for name, steps in reports.items()})
    return reports


def steps_of(contenders: Sequence[Contender], reports: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Steps]:
    """The steps of each contender, from the reports of `rounds`."""
    times = {name: [step["seconds"] for step in steps[1:]] for name, steps in reports.items()}
    reference = times[contenders[0].name]
    return [
        Steps(
            contender.name,
            measuring.Spread.of(times[contender.name]),
            ratio(times[contender.name], reference),
            contender.first_step,
            contender.peak_memory(),
            statistics.mean(step["reward"] for step in reports[contender.name]),
            contender.description,
            times[contender.name],
        )
        for contender in contenders
    ]


def in_turn(contenders: Sequence[Any], number: int) -> list[Any]:
    """The order of a round: each starts equally often, and the direction changes every time."""
    start = number // 2 % len(contenders)
    order = [*contenders[start:], *contenders[:start]]
    return order[::-1] if number % 2 else order


def ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    """The median over rounds of a time's ratio to the reference's time in the same round."""
    return statistics.median(time / other for time, other in zip(times, reference, strict=True))


def check_same_work(descriptions: Sequence[Mapping[str, Any]]) -> None:
    """Raises ValueError if the models differ by more than one per cent in parameters, or the steps in tokens."""
    first, *others = descriptions
    for other in others:
        if other["tokens_per_step"] != first["tokens_per_step"]:
            raise ValueError(
                f"{other['name']} samples {other['tokens_per_step']} tokens in a step, "
                f"but {first['name']} {first['tokens_per_step']}"
            )
        if abs(other["parameters"] - first["parameters"]) > 0.01 * first["parameters"]:
            raise ValueError(
                f"{other['name']} has {other['parameters']} parameters, but {first['name']} {first['parameters']}"
            )


def check_rewards(rewards: Mapping[str, float]) -> None:
    """Raises ValueError if a mean reward is not near one half, the value for an untrained model."""
    for name, reward in rewards.items():
        if abs(reward - 0.5) > FAR:
            raise ValueError(f"{name} has a mean reward of {reward:.3f} at first, which should be near 0.5")


def table(measured: Sequence[Steps]) -> list[str]:
    """One line for the measurements of each, and one for its description."""
    lines = ["         seconds a step               ratio  first step  peak MiB  reward"]
    for steps in measured:
        memory = "?" if steps.peak_memory is None else f"{steps.peak_memory:.0f}"
        lines.append(
            f"{steps.name:7}  {steps.seconds!s:27}  {steps.ratio:5.2f}  {steps.first_step:10.1f}  "
            f"{memory:>8}  {steps.reward:6.3f}"
        )
    return lines + [described(steps) for steps in measured]


def described(steps: Steps) -> str:
    """A contender's versions and settings."""
    versions = ", ".join(f"{name} {version}" for name, version in steps.description["versions"].items())
    settings = ", ".join(f"{name}={value}" for name, value in steps.description["settings"].items())
    return f"{steps.name:7}  {versions}; {settings}"
