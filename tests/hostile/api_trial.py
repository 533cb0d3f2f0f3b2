"""Malformed calls of the public API, as a user would type them: what they are made of, and what is wrong with an end.

Each row of `REFUSED` is a call and a pattern that is found in what it says.
"""

# The calls are texts, so that a message shows them as they were typed; what they use looks unused.
# ruff: noqa: F401
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives, rewards
from ipsrl.checking import specifications
from ipsrl.command import extensions
from ipsrl.distributed import memory
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.cases import WALKS
from ipsrl.dynamics.expected_training import expected_training
from ipsrl.dynamics.expected_update import Steps, estimated_update, expected_update
from ipsrl.dynamics.field import Field, follow
from ipsrl.dynamics.field import train as train_expected
from ipsrl.dynamics.rest_points import rest_point, rest_points
from ipsrl.dynamics.shared_prompts import SharedPrompts
from ipsrl.dynamics.softmax import finite_groups, flows, survival, two_outcome_training
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.dynamics.verdict import verdict
from ipsrl.environments import catalog as environments
from ipsrl.environments import critiques
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.environments.agents.tools import make_tools
from ipsrl.environments.graphs.bandit import Bandit, VectorBandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.group_log import GroupLog
from ipsrl.environments.language.math_answers import MathAnswers
from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.reading.stop_strings import read_stop_strings
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.tasks.plan_and_execute import PlanAndExecute, carry_out
from ipsrl.measures import answers, distances, diversity, pass_at_k, rewarded, seeds
from ipsrl.objectives.objective import Objective
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.mlp import MLP
from ipsrl.policies.rotary import Llama3Scaling, YarnScaling
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.policies.transformer_config import SlidingWindow
from ipsrl.records import discovery, metric_log, results
from ipsrl.records.monitors import make_monitors
from ipsrl.records.report.page import write_report
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.trackers import read_trackers
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.sources.best_answers import BestAnswers
from ipsrl.rollouts.sources.critics import Shuffled
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Actors, Sampled, wrapped
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.sweeps import sweep_runs
from ipsrl.synthetic_rollouts import synthetic_rollouts
from ipsrl.training import loop, settings
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.storage.checkpoints import Checkpoints
from ipsrl.training.trainer import Trainer
from tests.hostile.calls.environments import REFUSED as OF_ENVIRONMENTS
from tests.hostile.calls.measures import REFUSED as OF_MEASURES
from tests.hostile.calls.objectives import REFUSED as OF_OBJECTIVES
from tests.hostile.calls.records import REFUSED as OF_RECORDS
from tests.hostile.calls.theory import REFUSED as OF_THEORY
from tests.hostile.calls.training import REFUSED as OF_TRAINING
from tests.work import calls_of

MOST_CALLS = 20_000_000
"""A refusal makes no more calls, of functions in Python and in C: what it would refuse must not have been done."""
LONGEST = 600

BANDIT, BOOLEAN, GRPO = Bandit((1.0, 0.5)), HypospaceBoolean(), objectives.make("grpo")
CRITIQUE, TWO_BANDITS = objectives.make("critique_grpo"), Bandit(((1.0, 0.5),) * 2)
FIELD, FIELD_OF_WALKS = Field(GRPO, (1.0, 0.5), 4), Field(GRPO, (1.0, 0.3, 0.6), 3, environment=WALKS)
SAMPLED = (1.0, 0.5), ((0.5, 0.5),), 3, Steps(1)
THREE, WEIGHTS = ([0.4, 0.3, 0.3], [4.0, 1.0, 2.0]), finite_groups.count_weights(8)
LOGITS, REWARDS = jnp.zeros(2), jnp.array([1.0, 0.5])
NAN, INF = float("nan"), float("inf")
ROLLOUTS, SCORES = synthetic_rollouts(0, prompts=2, group=4, length=3)
RUN = TrainSettings(steps=1, prompts_per_step=1, group_size=4)
ROW = {"prompt": 0, "answers": [[5, 2], [7, 2]]}
NESTED: list = []
NESTED.append(NESTED)
FILES = {
    "text.jsonl": "3\n",
    "cut.jsonl": '{"prompt": 0, "answers": [[5',
    "row.jsonl": json.dumps(ROW | {"prompt": 99999}),
    "run/config.json": "[]",
    "run/summary.json": "{}",
    "finished/config.json": '{"seed": 0}',
    "finished/metrics.jsonl": '{"step": 1, "reward": 0.5}\n',
    "finished/summary.json": '{"complete": true}',
}
"""Files in the folder that calls are given as `FOLDER`."""


def settings_of(**changed) -> TrainSettings:
    return TrainSettings(**{"steps": 1, "prompts_per_step": 1, "group_size": 4, **changed})


def trainer(**changed) -> Trainer:
    """A run of a bandit of which some arguments are replaced."""
    return Trainer(**{"environment": BANDIT, "policy": Tabular(1, 2), "objective": GRPO, "settings": RUN, **changed})


def pushes(text, group_size=4):
    """Advantage-weighted frequencies of two outcomes."""
    return two_outcome_training.advantage_weighted_frequencies(objectives.make(text), (4.0, 1.0), group_size)


def cell(group_size=8) -> two_outcome_training.Cell:
    """Runs of two outcomes that start with equal probabilities."""
    return two_outcome_training.Cell(GRPO, (4.0, 1.0), group_size, 0.1, 0.0)


def begun(seed=0, **given):
    """The state before the first step of such a run."""
    with jax.set_mesh(make_mesh("replica:-1")):
        return trainer().init(seed, **given)


def stored(rows, environment=BOOLEAN, prompts_per_step=1, **given) -> StoredGroups:
    policy = Tabular(environment.num_observations, environment.vocabulary_size)
    return StoredGroups.of(environment, policy, prompts_per_step, rows, **given)


REFUSED = [*OF_OBJECTIVES, *OF_THEORY, *OF_MEASURES, *OF_ENVIRONMENTS, *OF_TRAINING, *OF_RECORDS]


@dataclasses.dataclass(frozen=True)
class Ending:
    """The end of a call: its value or an exception, and the number of calls that it made itself."""

    value: Any
    error: BaseException | None
    calls: int


def made(call: str, folder: Path) -> Ending:
    def end() -> tuple[Any, BaseException | None]:
        try:
            return eval(call, {**globals(), "FOLDER": folder}), None
        except Exception as raised:
            return None, raised

    calls, (value, error) = calls_of(end)
    return Ending(value, error, calls)


def write_files(folder: Path) -> None:
    (folder / "empty").mkdir()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def faults(found: Ending, message: str) -> list[str]:
    """Faults in the answer to a malformed call; none if the call was refused as it must be."""
    said = str(found.error)
    wrong = {
        "it was accepted": found.error is None,
        f"it raised {type(found.error).__name__}": not isinstance(found.error, ValueError | TypeError | OSError),
        f"it said {said[:200]!r}": not re.search(message, said) or "\n" in said,
        f"it said {len(said)} characters": len(said) > LONGEST,
        f"it made {found.calls} calls": found.calls > MOST_CALLS,
    }
    return [fault for fault, holds in wrong.items() if holds]
