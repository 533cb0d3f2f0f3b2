"""Many steps of a bandit with checkpoints: the memory of the process, and its open files, must not grow.

As a program, `python -m trials.long_run FOLDER STEPS`, it is the run that is watched.
"""

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import jax

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_folder import RunFolder
from ipsrl.training.loop import train
from ipsrl.training.settings import TrainSettings
from trials.processes import HANGS, Command, python, wait_until

STRETCHES = 10
"""Parts of equal length of the run, of which one number is reported each."""
WARM = 2
"""How many of them are warm-up."""
GROWTH = 0.01
"""Share by which memory may grow between the first stretch after warm-up and the last."""
CHECKPOINT_EVERY = 1000
"""With each, TensorStore loses 19 KB, see docs/reliability.md."""


def run(folder: Path, steps: int) -> None:
    """Trains; evaluates every thousand steps."""
    rewards = (0.0, 0.5, 1.0)
    settings = TrainSettings(
        steps=steps,
        prompts_per_step=1,
        group_size=8,
        learning_rate=1e-4,
        evaluate_every=1000,
        checkpoint_every=CHECKPOINT_EVERY,
    )

    def evaluate(step: int, parameters: Any) -> Evaluation:
        probs = jax.nn.softmax(jax.device_get(parameters)["logits"][0])
        return Evaluation({"reward": float(probs @ jax.numpy.asarray(rewards))})

    with RunFolder.open(folder, {"steps": steps}, resume=True) as opened:
        train(
            Bandit(rewards),
            Tabular(1, len(rewards)),
            objectives.make("grpo"),
            settings,
            0,
            opened,
            make_mesh("data:1"),
            evaluate=evaluate,
        )


def trial(steps: int, work: Path) -> dict[str, Any]:
    """Watches the run from outside.

    Returns:
      for each stretch the median of the resident memory in MiB, `memory`, and the smallest number of open files,
      `descriptors`, because a checkpoint opens some for a moment; the growth of the memory; and `problems`: a sentence
      for each thing that should not be.
    """
    out = work / "run"
    command = Command([python("-m", "trials.long_run", out, steps)], work / "run.log")
    [main] = command.mains
    memory: list[list[float]] = [[] for _ in range(STRETCHES)]
    descriptors: list[list[int]] = [[] for _ in range(STRETCHES)]

    def over() -> bool:
        done = _last_step(out / "metrics.jsonl")
        if 0 < done < steps and (found := _used(main.pid)):
            stretch = done * STRETCHES // steps
            memory[stretch].append(found[0])
            descriptors[stretch].append(found[1])
        return command.ended

    # A step takes a few milliseconds.
    wait_until(over, HANGS + steps * 0.1, every=0.1)
    if status := command.status():
        return {"problems": [f"the run ended with status {status}: see {command.log}"]}
    if not all(memory):
        return {"problems": [f"{steps} steps are over before they have been watched {STRETCHES} times: take more"]}
    medians = [round(statistics.median(values), 1) for values in memory]
    growth = medians[-1] / medians[WARM] - 1.0
    problems = []
    if growth > GROWTH:
        problems.append(f"memory grew by {growth:.1%} after warm-up")
    fewest = [min(numbers) for numbers in descriptors]
    if max(fewest[WARM:]) > fewest[WARM - 1]:
        problems.append(f"open files grew from {fewest[WARM - 1]} to {max(fewest[WARM:])}")
    return {"memory": medians, "descriptors": fewest, "growth": round(growth, 5), "problems": problems}


def _used(process: int) -> tuple[float, int] | None:
    """Resident memory in MiB and the number of open files; None of a process that has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return (pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(f"/proc/{process}/fd"))) if pages else None
    except OSError:
        return None


def _last_step(log: Path) -> int:
    """The step of the last whole record; 0 without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().split(b"\n")[:-1]
        return json.loads(lines[-1])["step"] if lines else 0
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
