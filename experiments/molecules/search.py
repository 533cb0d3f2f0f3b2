"""Searches for molecules of high reward, from the same prior, that end when a budget of evaluations is spent."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.molecules.measures import (
    circles,
    evaluations_until,
    internal_diversity,
    similarities,
)
from experiments.molecules.prior import GROUPS, Pretraining, mesh_of_groups
from experiments.molecules.rdkit_properties import fingerprints
from ipsrl import objectives
from ipsrl.environments.molecules.chemistry import Molecule
from ipsrl.environments.molecules.environment import Molecules
from ipsrl.environments.molecules.rewards import MoleculeReward
from ipsrl.measures.diversity import distinct_outcomes, effective_outcomes, largest_outcome_share
from ipsrl.records.run_log import require_finite
from ipsrl.rollouts.sources.source import Groups
from ipsrl.study.curves import Curve, Points
from ipsrl.training.settings import TrainSettings, make_batch_filters
from ipsrl.training.step import TrainState
from ipsrl.training.trainer import Scalars, Trainer

THRESHOLDS = {"80": 0.80, "85": 0.85}
LEARNING_RATE = 1e-3
"""The learning rate of Adam, for policies of the small size."""
SHOWN = 6
"""Molecules of each run whose drawings are kept."""
PATIENCE = 3
"""Factor of the steps that would do if every string were a new molecule, after which a search gives up."""


@dataclasses.dataclass(frozen=True)
class SearchArm:
    """How a policy learns.

    Attributes:
      objective: its specification; empty for a policy that does not learn, the placebo.
      identity: which molecules are the same outcome, see `Molecules`.
      filters: around the source of groups, see `make_batch_filters`.
    """

    objective: str
    identity: str = "canonical"
    filters: str = ""


@dataclasses.dataclass(frozen=True)
class MoleculeSearch:
    """Reinforcement learning with a budget.

    A budget counts different valid molecules, in the order in which they are first sampled: the reward of a repetition
    is known, and costs nothing. A search ends with the first step that completes the budget, of which only the part
    within it counts, or gives up, see `PATIENCE`: a policy that only repeats itself would never end.

    Attributes:
      pretraining: of the prior.
      reward: of molecules.
      group_size: strings in each of the `GROUPS` groups of a step.
      budget: of evaluations.
      records: parts of the budget; a search is recorded where it has spent 0 to all of them.
      samples: of the final policy, for measures of what it can still produce.
      rate_scale: factor of the learning rate.
    """

    pretraining: Pretraining
    reward: MoleculeReward
    group_size: int
    budget: int
    records: int
    samples: int
    rate_scale: float = 1.0

    def environment(self, identity: str = "canonical") -> Molecules:
        return dataclasses.replace(
            self.pretraining.environment, reward=self.reward, identity=identity
        )

    def trainer(self, arm: SearchArm) -> Trainer:
        """The trainer of an arm; the arm's steps are not used."""
        rate = LEARNING_RATE * self.rate_scale
        filters = make_batch_filters(arm.filters)
        how = TrainSettings(1, GROUPS, self.group_size, learning_rate=rate, wrappers=filters)
        # The placebo samples as GRPO does.
        objective = objectives.make(arm.objective or "grpo")
        return Trainer(self.environment(arm.identity), self.pretraining.policy, objective, how)

    def run(self, arm: SearchArm, seed: int) -> dict[str, Any]:
        """Runs one search: the molecules that it finds, and the strings that its last policy produces.

        Returns:
          name -> `[records + 1]` values along the budget: `yield_80` and `yield_85`, the number of molecules found with
          at least that reward, and `share_80`, the former over the budget; `evaluated`; `strings`, the number of
          strings sampled, and `repeats`, the number of those that repeat a molecule of their group. Name -> one number,
          of the end: `burden_80` and `burden_85` (OB100), `diversity` (IntDiv1) and `circles` (#Circles) of the
          molecules found with a reward of at least 0.80, and those of `produced`. And `best`, the SMILES strings of the
          `SHOWN` best molecules, and `best_rewards`.
        """
        trainer, environment = self.trainer(arm), self.environment()
        found: dict[str, Molecule] = {}
        strings, repeats, evaluated = [0], [0], [0]
        in_step = GROUPS * self.group_size
        with jax.set_mesh(mesh_of_groups()):
            prior = jax.tree.map(jnp.asarray, self.pretraining.parameters)
            # A step donates the parameters.
            start = jax.tree.map(jnp.copy, prior)
            state = trainer.begin(jnp.int32(seed), None, start, None)
            for step in range(1, 1 + PATIENCE * math.ceil(self.budget / in_step)):
                state, groups, _ = trainer.ask(state)
                read = environment.molecules(jax.device_get(groups[0]))
                for molecule in filter(None, itertools.chain(*read)):
                    found.setdefault(molecule.canonical, molecule)
                # Filters put the answers that they add behind those of the policy.
                of_policy = [group[: self.group_size] for group in read]
                strings.append(step * in_step)
                repeats.append(repeats[-1] + sum(map(_repeats, of_policy)))
                evaluated.append(min(len(found), self.budget))
                if len(found) >= self.budget:
                    break
                if arm.objective:
                    state, metrics = _learned(trainer, state, groups)
                    require_finite(jax.device_get(metrics), step, "none")
                else:
                    state = dataclasses.replace(state, step=state.step + 1)
            # The prior's environment is the same for all arms, and so is the program that samples.
            sample = self.pretraining.sampled(state.parameters, self.samples, seed, prior)
        in_budget = list(found.values())[: self.budget]
        sampling = {"strings": strings, "repeats": repeats}
        return self.measured(in_budget, sampling, evaluated) | self.produced(*sample)

    def measured(
        self, found: list[Molecule], sampling: dict[str, list[int]], evaluated: list[int]
    ) -> dict[str, Any]:
        """See `run`."""
        rewards = np.array([molecule.reward for molecule in found])
        values: dict[str, Any] = {}
        for name, threshold in THRESHOLDS.items():
            reached = rewards >= threshold
            values[f"yield_{name}"] = [int(reached[:mark].sum()) for mark in self.marks]
            values[f"burden_{name}"] = evaluations_until(rewards, threshold)
        values["share_80"] = np.array(values["yield_80"]) / self.budget
        values["evaluated"] = np.minimum(self.marks, len(found))
        # Of steps that found nothing new, the first of their level is when it was reached.
        levels, first = np.unique(evaluated, return_index=True)
        for name, counted in sampling.items():
            values[name] = np.interp(self.marks, levels, np.array(counted)[first])
        names = np.array([molecule.canonical for molecule in found])
        similar = similarities(fingerprints(names[rewards >= THRESHOLDS["80"]]))
        best = np.argsort(-rewards, stable=True)[:SHOWN]
        return values | {
            "diversity": internal_diversity(similar),
            "circles": circles(similar),
            "best": names[best],
            "best_rewards": rewards[best],
        }

    def produced(self, texts: list[str], log_ratios: np.ndarray) -> dict[str, float]:
        """Measures a sample of the policy.

        valid: the share of strings that are molecules.
        unique_valid: the number of different molecules over that of strings.
        mean_reward: the mean reward of a string, 0 where it is no molecule.
        scaffolds: exp(H) of the scaffolds of valid strings.
        top: the share of the most frequent molecule among all strings.
        divergence: KL(policy || prior) of strings, in nats.
        """
        molecules = self.environment().read(texts)
        rewards = [0.0 if molecule is None else molecule.reward for molecule in molecules]
        canonical, scaffolds = (
            jnp.array(list(map(self.environment(identity).outcome, molecules)))
            for identity in ("canonical", "scaffold")
        )
        number = len(molecules)
        valid = number - molecules.count(None)
        return {
            "valid": valid / number,
            "unique_valid": int(distinct_outcomes(canonical)) / number,
            "mean_reward": sum(rewards) / number,
            "scaffolds": float(effective_outcomes(scaffolds)),
            "top": float(largest_outcome_share(canonical)) * valid / number,
            "divergence": float(np.mean(log_ratios)),
        }

    @property
    def marks(self) -> np.ndarray:
        """`[records + 1]`, the evaluations at which a search is recorded."""
        marks = np.linspace(0, self.budget, self.records + 1)
        return np.rint(marks).astype(int)

    def curve(self, name: str, arm: SearchArm, seed: int) -> Curve:
        """`run`; steps are evaluations.

        Raises:
          ValueError: the arm cannot be trained here.
        """
        try:
            with jax.set_mesh(mesh_of_groups()):
                self.trainer(arm).check()
        except ValueError as error:
            outcomes = f"the arm {name}, whose outcomes are {arm.identity}"
            raise ValueError(f"{outcomes}: {error}") from error

        def compute() -> Points:
            found = self.run(arm, seed)
            arrays = {kept: found.pop(kept) for kept in ("best", "best_rewards")}
            # What is measured at the end only has no value before.
            before = [np.nan] * self.records
            values = {
                kept: [value if np.ndim(value) else [*before, value]]
                for kept, value in found.items()
            }
            return Points(self.marks, values, [seed], arrays)

        return Curve({"part": "search", "arm": name, "seed": seed}, compute)


@functools.partial(jax.jit, static_argnames="trainer", donate_argnames="state")
def _learned(trainer: Trainer, state: TrainState, groups: Groups) -> tuple[TrainState, Scalars]:
    return trainer.learn(state, groups)


def _repeats(group: list[Molecule | None]) -> int:
    """How many strings of a group repeat a molecule of it."""
    valid = [molecule.canonical for molecule in group if molecule is not None]
    return len(valid) - len(set(valid))
