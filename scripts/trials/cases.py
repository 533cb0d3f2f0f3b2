"""The kinds of runs that are killed."""

import dataclasses
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from trials.processes import ROOT, Command, python

TOGETHER, FIRST, CHILD = "all processes", "a main process", "a child"


@dataclasses.dataclass(frozen=True)
class Case:
    """A kind of run.

    Attributes:
      name: for --cases.
      title: for the table.
      lines: (out, work) -> arguments of each process of a command that starts the run in the folder `out`, or continues
        it. What it needs is in the folder `work`.
      kills: how many by default.
      kills_per_run: how many befall one run before it is left to end.
      victims: what a kill may hit; it is chosen at random.
      restarts_from_zero: whether a killed run has no checkpoints.
      prepare: (work) -> None: makes what the run needs.
    """

    name: str
    title: str
    lines: Callable[[Path, Path], list[list[str]]]
    kills: int
    kills_per_run: int
    victims: tuple[str, ...] = (TOGETHER,)
    restarts_from_zero: bool = False
    prepare: Callable[[Path], None] = lambda work: None


HYPOSPACE = ("-m", "experiments.hypospace", "--preset=smoke", "--objectives=grpo", "--seeds=0", "--resume")


def _single(out: Path, work: Path) -> list[list[str]]:
    return [python(*HYPOSPACE, "--steps=300", "--checkpoint_every=3", "--evaluate_every=100", f"--out={out}")]


def _sweep(out: Path, launcher: str, grid: str) -> list[str]:
    return python(
        ROOT / "scripts" / "sweep.py",
        "--experiment=hypergrid",
        "--preset=smoke",
        f"--grid={grid}",
        f"--launcher={launcher}",
        "--restarts=1000",
        "--retry",
        f"--out={out}",
    )


def _vmapped(out: Path, work: Path) -> list[list[str]]:
    return [_sweep(out, "vmap", "objectives=grpo;seeds=0,1,2,3;steps=3000;evaluate_every=500")]


def small_sweep(out: Path, work: Path) -> list[list[str]]:
    """Four runs with checkpoints, two at a time."""
    return [
        _sweep(out, "local(workers=2)", "objectives=grpo;seeds=0,1,2,3;steps=100;evaluate_every=50;checkpoint_every=5")
    ]


def _two_hosts(out: Path, work: Path) -> list[list[str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [
        python(
            *HYPOSPACE,
            "--steps=90",
            "--checkpoint_every=3",
            "--evaluate_every=90",
            "--host_devices=2",
            "--multihost",
            f"--coordinator=127.0.0.1:{port}",
            "--num_processes=2",
            f"--process_id={process}",
            "--join_timeout=30",
            f"--out={out}",
        )
        for process in range(2)
    ]


def _language_model(out: Path, work: Path) -> list[list[str]]:
    return [
        python(
            *HYPOSPACE,
            "--policy=hf",
            f"--model_dir={work / 'tiny'}",
            "--lora_rank=4",
            "--max_tokens=8",
            "--answers=4",
            "--prompts_per_step=4",
            "--group_size=4",
            "--steps=120",
            "--checkpoint_every=3",
            "--evaluate_every=120",
            f"--out={out}",
        )
    ]


def _make_model(work: Path) -> None:
    if not (work / "tiny" / "config.json").exists():
        line = python(ROOT / "scripts" / "make_checkpoint.py", "--family=qwen2", f"--out={work / 'tiny'}")
        if Command([line], work / "tiny.log").status():
            sys.exit(f"error: no model could be made: see {work / 'tiny.log'}")


CASES = (
    Case("single", "one run (HypoSpace)", _single, kills=100, kills_per_run=10),
    Case("vmapped", "four runs as one program (hypergrid)", _vmapped, 40, 10, restarts_from_zero=True),
    Case("sweep", "a sweep of four runs (hypergrid)", small_sweep, 60, 10, (TOGETHER, FIRST, CHILD)),
    Case("hosts", "two hosts on one machine (HypoSpace)", _two_hosts, 40, 5, (TOGETHER, FIRST)),
    Case(
        "lora", "LoRA of a language model (HypoSpace)", _language_model, 60, 10, (TOGETHER, FIRST), prepare=_make_model
    ),
)
