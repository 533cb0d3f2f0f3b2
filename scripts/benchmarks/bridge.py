"""The cost of an objective of ipsrl inside TRL's trainer, and whether ragged answers compile anything again."""

import argparse
import dataclasses
import functools
import statistics
import tempfile
from typing import Any

import numpy as np

from benchmarks import measuring
from benchmarks.grpo_step import Compilations
from benchmarks.workloads import COMPARED, Workload
from ipsrl import extras, objectives

STEPS, FIRST_STEPS = 40, 10


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(commands, "bridge", run, "time objectives inside TRL's trainer", runs=15)
    command.add_argument("--workload", choices=COMPARED, default="S", help="of workloads.py, by default %(default)s")
    command.add_argument("--objective", default="grpo", help="of ipsrl, by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    objectives.make(arguments.objective)
    extras.require("trl")
    # First, because an objective that does not fit is refused here, before TRL says anything.
    programs = programs_of_ragged_steps(arguments.objective)
    timing = time_trl(COMPARED[arguments.workload], arguments.objective, arguments.runs)
    late = sum(programs[FIRST_STEPS:])
    print(
        f"{arguments.workload}: TRL {timing.theirs}, with {arguments.objective} of ipsrl {timing.ours} seconds a step"
    )
    print(f"ratio {timing.ratio:.3f}")
    print(f"ragged answers: {sum(programs[:FIRST_STEPS])} programs in {FIRST_STEPS} steps, {late} in the {STEPS} after")
    return {"bridge": timing, "programs": programs}


@dataclasses.dataclass(frozen=True)
class BridgeTiming:
    """Whole steps without the optimiser's: sampling, rewards, loss and gradient.

    Attributes:
      theirs, ours: seconds of a step.
      ratio: ours to theirs, median over neighbouring steps.
    """

    theirs: measuring.Spread
    ours: measuring.Spread
    ratio: float


def time_trl(workload: Workload, objective: str, runs: int) -> BridgeTiming:
    """Times GRPO in TRL beside an objective in TRL's trainer."""
    extras.require("trl")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from benchmarks.peers import grpo_task, trl_grpo
    from ipsrl.integrations.outcomes import exact_text
    from ipsrl.integrations.trl import IPSRLTrainer

    # As PyTorch runs it by itself: what it may compile beside costs minutes, and is the same for both.
    settings = trl_grpo.BEST["S"] | {"compile": "none", "dtype": "float32"}
    prompts = grpo_task.texts(workload)
    rows = [
        {"prompt": prompts[number // workload.group_size]} for number in range(workload.prompts * workload.group_size)
    ]
    with tempfile.TemporaryDirectory() as folder:
        steps = []
        for kind, ours in ((GRPOTrainer, {}), (IPSRLTrainer, {"objective": objective, "outcome_of": exact_text})):
            given = trl_grpo.arguments(workload, settings, folder)
            if ours:
                # The objective stands in its place.
                given.loss_type = GRPOConfig.loss_type
            made = kind(
                trl_grpo.model(workload, settings),
                lambda completion_ids, **_: grpo_task.Rewards(workload)(completion_ids),
                args=given,
                train_dataset=Dataset.from_dict({"prompt": prompts}),
                processing_class=trl_grpo.tokenizer(workload.vocabulary_size),
                **ours,
            )
            # As `train` sets it.
            made.current_gradient_accumulation_steps = 1
            made.model.train()
            steps.append(functools.partial(made.training_step, made.model, rows, None))
        pairs = measuring.pairs(*steps, runs)
    theirs, ours = (measuring.Spread.of(times) for times in zip(*pairs, strict=True))
    return BridgeTiming(theirs, ours, statistics.median(slow / fast for fast, slow in pairs))


def programs_of_ragged_steps(objective: str) -> list[int]:
    """How many programs each of some steps compiles whose answers have other lengths each time."""
    extras.require("torch")
    import torch

    from ipsrl.integrations.guest import GuestObjective
    from ipsrl.integrations.torch_bridge import TorchBridge

    group_size, longest, rows, counts = 8, 64, 64, []
    provided = frozenset({"reference_log_probs", "log_backward"})
    guest = GuestObjective(objective, group_size, "TRL", provided, right_above=0.0)
    bridge, rng = TorchBridge(guest, longest), np.random.default_rng(0)
    programs = Compilations()
    for _ in range(FIRST_STEPS + STEPS):
        before = programs.count
        length = int(rng.integers(2, longest + 1))
        mask = torch.from_numpy(np.arange(length) < rng.integers(1, length + 1, (rows, 1)))
        scores = [torch.rand(rows, length, requires_grad=True) for _ in range(2)]
        batch, _ = bridge.weigh(
            np.repeat(np.arange(rows // group_size), group_size).tolist(),
            torch.rand(rows),
            rng.integers(0, 3, rows).astype(np.int32),
            torch.zeros(rows, length, dtype=torch.int32),
            mask,
            torch.zeros(rows, dtype=torch.bool),
            -scores[0].detach(),
            scores[1].detach(),
            -scores[0].detach(),
        )
        bridge.loss(-scores[0], scores[1], batch, bridge.count(mask))[0].backward()
        counts.append(programs.count - before)
    return counts
