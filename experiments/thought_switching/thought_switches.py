"""Priors of `GraphSearch` that switch thoughts as their demonstrations do, trained further, and read under a penalty.

Even prompts choose a penalty, odd ones report what it does: no answer counts for both.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import numpy as np

from experiments.thought_switching.underthinking import underthinking
from ipsrl.environments.tasks.graph_search import START_TOKEN, SWITCH_TOKEN
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.randomness import stream
from ipsrl.study.curves import Curve
from ipsrl.training.measured import measured
from ipsrl.training.supervised.priors import Learners

SWITCH, PLACEBO = "switch", "placebo"
PRIOR = "prior"
NEAREST = 3
"""Vertices, the goal apart, whose frequency is next to that of the switch; seeds have one of them in turn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Searchers(Learners):
    """Policies of a `GraphSearch`, one for each seed of a run, that imitate `EarlySwitches` and learn from rewards.

    They train without a penalty. A seed decides also the answers of an evaluation and the token of the placebo.

    Attributes:
      answers: to each prompt in an evaluation.
    """

    answers: int

    def trained(self, objective: str, seed: int) -> Parameters:
        """The prior of a seed after reinforcement learning; the prior itself for PRIOR."""
        if objective == PRIOR:
            return self(seed)
        trainer, places = self.trainer(objective), [self.training.steps]
        [trained] = measured(
            trainer, seed, self(seed), lambda last, _: jax.device_get(last), places
        )
        return trained

    def placebo_token(self, seed: int) -> int:
        """A vertex that demonstrations name nearly as often as they switch; not the goal, which right answers need."""
        tokens = [token for row in self.rows for answer in row["answers"] for token in answer]
        counts = np.bincount(tokens, minlength=self.task.vocabulary_size)
        vertices = START_TOKEN + np.arange(self.task.goal)
        differences = abs(counts[vertices] - counts[SWITCH_TOKEN])
        return int(vertices[np.argsort(differences, kind="stable")[seed % NEAREST]])

    def measured(
        self, parameters: Parameters, seed: int, token: int, alpha: float, beta: float
    ) -> dict[str, float]:
        """Measures answers to odd prompts under a penalty; `tuning` is the accuracy on even prompts.

        Values are accuracy, `switches` and `tokens` of an answer, and those of `underthinking`. Windows are those of
        thoughts whatever the token: a switch opens the next one.
        """
        how = Decoding(penalty=TokenPenalty((token,), alpha, beta, starts=(SWITCH_TOKEN,)))
        key = stream(seed, 0, "evaluation")
        sampled = self.sampled(parameters, key, self.answers, how)
        thoughts = self.task.thoughts(sampled)
        right = np.asarray(self.task.verify(sampled).right)
        return {
            "accuracy": float(right[1::2].mean()),
            "tuning": float(right[::2].mean()),
            "switches": float(thoughts.switches[1::2].mean()),
            "tokens": float(thoughts.tokens[1::2].mean()),
        } | underthinking(thoughts.first_correct[1::2], thoughts.tokens[1::2], right[1::2])

    def curve(
        self,
        objective: str,
        seeds: Sequence[int],
        alphas: Sequence[float],
        betas: Sequence[float],
        search: str,
    ) -> Curve:
        """Values of `measured` after training, with a point for each penalty.

        A prior also has points with the penalty on the placebo's token. Points have the labels `penalised`, SWITCH or
        PLACEBO, `alpha` and `beta`. An alpha of 0 is added. `search` is a label of the curve.

        Raises:
          ValueError: the objective is unknown or cannot be trained here.
        """
        if objective != PRIOR:
            self.trainer(objective)
        penalised = (SWITCH, PLACEBO) if objective == PRIOR else (SWITCH,)
        cells = list(itertools.product(penalised, (0.0, *alphas), betas))

        def run(seed: int) -> list[dict[str, float | str]]:
            parameters = self.trained(objective, seed)
            tokens = {SWITCH: SWITCH_TOKEN, PLACEBO: self.placebo_token(seed)}
            # Without strength neither token nor window counts.
            plain = self.measured(parameters, seed, SWITCH_TOKEN, 0.0, 0.0)
            return [
                {"penalised": name, "alpha": alpha, "beta": beta}
                | (self.measured(parameters, seed, tokens[name], alpha, beta) if alpha else plain)
                for name, alpha, beta in cells
            ]

        steps = [0 if objective == PRIOR else self.training.steps] * len(cells)
        labels = {"search": search, "objective": objective}
        return Curve.of_runs(labels, steps, run, seeds, ("penalised", "alpha", "beta"))
