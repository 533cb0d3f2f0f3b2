"""Priors of `GraphSearch` that switch thoughts as their demonstrations do, trained further, and read under a penalty.

Even prompts choose a penalty, odd ones report what it does: no answer counts for both.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments.demonstrations import EarlySwitches
from ipsrl.environments.graph_search import START_TOKEN, SWITCH_TOKEN, GraphSearch
from ipsrl.measures.underthinking import underthinking
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.study.curves import Curve, Points
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.loop import check_run
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from ipsrl.training.warm_start import learned_once

SWITCH, PLACEBO = "switch", "placebo"
PRIOR = "prior"
TABLES = 4
"""Of demonstrations, each with 16 to a prompt."""
NEAREST = 3
"""Vertices, the goal apart, whose frequency is next to that of the switch; seeds have one of them in turn."""


@dataclasses.dataclass(frozen=True)
class Searchers:
    """Policies of a graph search, one for each seed of a run.

    A seed decides the initial parameters, the order of demonstrations, the answers that reinforcement learning and an
    evaluation sample, and the token of the placebo. Graphs and demonstrations are the same for all seeds.

    Attributes:
      early: of `EarlySwitches`.
      prior_steps: of supervised training, on 8 prompts with 16 demonstrations each.
      training: of reinforcement learning, on all prompts, without a penalty.
      answers: to each prompt in an evaluation.
    """

    task: GraphSearch
    policy: Transformer
    early: float
    prior_steps: int
    training: TrainSettings
    answers: int

    @functools.cached_property
    def demonstrations(self) -> list[dict[str, Any]]:
        """Rows for `StoredGroups`."""
        # What is only imitated has no importance ratio.
        return [
            row | {"log_probs": [[0.0] * len(answer) for answer in row["answers"]]}
            for table in range(TABLES)
            for row in EarlySwitches(self.early, seed=table).rows(self.task)
        ]

    @functools.cached_property
    def teacher(self) -> Trainer:
        """Supervised training of a prior."""
        how = TrainSettings(self.prior_steps, 8, 16, learning_rate=3e-3, cosine_decay=True)
        source = StoredGroups.of(self.task, self.policy, how.prompts_per_step, self.demonstrations)
        return Trainer(self.task, self.policy, objectives.make("supervised"), how, source)

    def prior(self, seed: int) -> Parameters:
        """From the disk cache, if it was ever taught."""
        taught = {"early": self.early, "tables": TABLES, "steps": self.prior_steps, "seed": seed}
        return learned_once(self.task, self.policy, taught, functools.partial(self._taught, seed))

    def _taught(self, seed: int) -> Parameters:
        recorded = train_ensemble(self.teacher, jnp.array([seed]), _all, self.prior_steps)
        return jax.tree.map(lambda leaf: leaf[0, -1], recorded)

    def trained(self, objective: str, seed: int) -> Parameters:
        """The prior of a seed after reinforcement learning; the prior itself for PRIOR."""
        parameters = self.prior(seed)
        if objective == PRIOR:
            return parameters
        trainer = Trainer(self.task, self.policy, objectives.make(objective), self.training)
        with jax.set_mesh(own_device_mesh()):
            state = trainer.init(seed, parameters)
            for _ in range(self.training.steps):
                state, _ = trainer.step(state)
        return jax.device_get(state.parameters)

    def placebo_token(self, seed: int) -> int:
        """A vertex that demonstrations name nearly as often as they switch; not the goal, which right answers need."""
        tokens = [token for row in self.demonstrations for answer in row["answers"] for token in answer]
        counts = np.bincount(tokens, minlength=self.task.vocabulary_size)
        vertices = START_TOKEN + np.arange(self.task.goal)
        nearest = vertices[np.argsort(abs(counts[vertices] - counts[SWITCH_TOKEN]), kind="stable")[:NEAREST]]
        return int(nearest[seed % NEAREST])

    def measured(self, parameters: Parameters, seed: int, token: int, alpha: float, beta: float) -> dict[str, float]:
        """What answers to odd prompts are under a penalty, and `tuning`, the accuracy on even ones.

        Values are accuracy, `switches` and `tokens` of an answer, and those of `underthinking`, whose score is called
        so. Windows are those of thoughts whatever the token: a switch opens the next one.
        """
        prompts, key = self.task.prompts(jnp.arange(self.task.num_prompts)), stream(seed, 0, "evaluation")
        how = Decoding(penalty=TokenPenalty((token,), alpha, beta, starts=(SWITCH_TOKEN,)))
        sampled = jax.device_get(
            sample_groups(self.task, self.policy, parameters, prompts, key, self.answers, decoding=how)
        )
        thoughts, right = self.task.thoughts(sampled), np.asarray(self.task.verify(sampled).rewards) > 0
        scored = underthinking(thoughts.first_correct[1::2], thoughts.tokens[1::2], right[1::2])
        return {
            "accuracy": float(right[1::2].mean()),
            "tuning": float(right[::2].mean()),
            "switches": float(thoughts.switches[1::2].mean()),
            "tokens": float(thoughts.tokens[1::2].mean()),
            "underthinking": scored["score"],
            "weighted_underthinking": scored["weighted"],
            "promising": scored["promising"],
        }

    def curve(
        self,
        objective: str,
        seeds: Sequence[int],
        alphas: Sequence[float],
        betas: Sequence[float],
        labels: Mapping[str, Any],
    ) -> Curve:
        """What is measured after training under each penalty; of a prior also with the penalty on the placebo's token.

        Points have the labels `penalised`, SWITCH or PLACEBO, `alpha` and `beta`. An alpha of 0 is added.

        Raises:
          ValueError: the objective is unknown or cannot be trained here.
        """
        if objective != PRIOR:
            check_run(self.task, self.policy, objectives.make(objective), self.training, own_device_mesh())
        penalised = (SWITCH, PLACEBO) if objective == PRIOR else (SWITCH,)
        cells = list(itertools.product(penalised, (0.0, *alphas), betas))

        def of_seed(seed: int) -> list[dict[str, float]]:
            parameters = self.trained(objective, seed)
            tokens = {SWITCH: SWITCH_TOKEN, PLACEBO: self.placebo_token(seed)}
            # Without strength neither token nor window counts.
            plain = self.measured(parameters, seed, SWITCH_TOKEN, 0.0, 0.0)
            return [
                self.measured(parameters, seed, tokens[name], alpha, beta) if alpha else plain
                for name, alpha, beta in cells
            ]

        def compute() -> Points:
            found = [of_seed(seed) for seed in seeds]
            places = dict(zip(("penalised", "alpha", "beta"), zip(*cells, strict=True), strict=True))
            values = {name: [[of_cell[name] for of_cell in row] for row in found] for name in found[0][0]}
            step = 0 if objective == PRIOR else self.training.steps
            return Points([step] * len(cells), places | values, seeds)

        return Curve({**labels, "objective": objective}, compute, within=("penalised", "alpha", "beta"))


def _all(parameters: Parameters) -> Parameters:
    return parameters
