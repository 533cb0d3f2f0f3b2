"""Priors of `GraphSearch` that switch thoughts as their demonstrations do, trained further, and read under a penalty.

Even prompts choose a penalty, odd ones report what it does: no answer counts for both.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.thought_switching.underthinking import underthinking
from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments.demonstrations import EarlySwitches
from ipsrl.environments.graph_search import START_TOKEN, SWITCH_TOKEN, GraphSearch
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.study.curves import Curve, Points
from ipsrl.training.loop import check_run
from ipsrl.training.measured import measured
from ipsrl.training.priors import Imitators
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

SWITCH, PLACEBO = "switch", "placebo"
PRIOR = "prior"
PLACES = ("penalised", "alpha", "beta")
NEAREST = 3
"""Vertices, the goal apart, whose frequency is next to that of the switch; seeds have one of them in turn."""


@dataclasses.dataclass(frozen=True)
class Searchers:
    """Policies of a graph search, one for each seed of a run.

    A seed decides its prior, as in `Imitators`, the answers that training and evaluation sample, and the token of the
    placebo.

    Attributes:
      early: of `EarlySwitches`.
      prior_steps: of `Imitators`.
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
    def prior(self) -> Imitators:
        """Seed -> parameters before reinforcement learning."""
        return Imitators(self.task, self.policy, EarlySwitches(self.early), self.prior_steps)

    def trained(self, objective: str, seed: int) -> Parameters:
        """The prior of a seed after reinforcement learning; the prior itself for PRIOR."""
        parameters = self.prior(seed)
        if objective == PRIOR:
            return parameters
        trainer = Trainer(self.task, self.policy, objectives.make(objective), self.training)
        [trained] = measured(
            trainer, seed, parameters, lambda last, _: jax.device_get(last), [self.training.steps]
        )
        return trained

    def placebo_token(self, seed: int) -> int:
        """A vertex that demonstrations name nearly as often as they switch; not the goal, which right answers need."""
        tokens = [token for row in self.prior.rows for answer in row["answers"] for token in answer]
        counts = np.bincount(tokens, minlength=self.task.vocabulary_size)
        vertices = START_TOKEN + np.arange(self.task.goal)
        differences = abs(counts[vertices] - counts[SWITCH_TOKEN])
        return int(vertices[np.argsort(differences, kind="stable")[seed % NEAREST]])

    def measured(
        self, parameters: Parameters, seed: int, token: int, alpha: float, beta: float
    ) -> dict[str, float]:
        """What answers to odd prompts are under a penalty, and `tuning`, the accuracy on even ones.

        Values are accuracy, `switches` and `tokens` of an answer, and those of `underthinking`, whose score is called
        so. Windows are those of thoughts whatever the token: a switch opens the next one.
        """
        prompts = self.task.prompts(jnp.arange(self.task.num_prompts))
        key = stream(seed, 0, "evaluation")
        how = Decoding(penalty=TokenPenalty((token,), alpha, beta, starts=(SWITCH_TOKEN,)))
        sampled = jax.device_get(
            sample_groups(self.task, self.policy, parameters, prompts, key, self.answers, how)
        )
        thoughts = self.task.thoughts(sampled)
        right = np.asarray(self.task.verify(sampled).right)
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
        search: str,
    ) -> Curve:
        """What is measured after training under each penalty; of a prior also with the penalty on the placebo's token.

        Points have the labels `penalised`, SWITCH or PLACEBO, `alpha` and `beta`. An alpha of 0 is added. `search` is
        a label of the curve.

        Raises:
          ValueError: the objective is unknown or cannot be trained here.
        """
        if objective != PRIOR:
            check_run(
                self.task, self.policy, objectives.make(objective), self.training, own_device_mesh()
            )
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
            places = dict(zip(PLACES, zip(*cells, strict=True), strict=True))
            values = {
                name: [[of_cell[name] for of_cell in row] for row in found] for name in found[0][0]
            }
            step = 0 if objective == PRIOR else self.training.steps
            return Points([step] * len(cells), places | values, seeds)

        return Curve({"search": search, "objective": objective}, compute, within=PLACES)
