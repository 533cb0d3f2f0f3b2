"""Supervised training: imitation of given answers."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.advantages import NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Surrogate
from ipsrl.structures import Metrics, PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class Likelihood(Surrogate):
    """A log pi of answers by whomever, without importance ratio.

    With `prompts` the tokens of a prompt count as well, once for each group and with weight 1, so that a mean over
    tokens is one over those of answers and prompts:

        (A log pi + sum over the prompt's tokens of log pi / (the group's answer tokens)) N / (N + prompt tokens),

    N the answer tokens of the mini-batch. A prompt without an answer is left out of the sum.
    """

    prompts: bool = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"prompt_log_probs"}) if self.prompts else frozenset()

    def statistics(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Array] | None:
        """Numbers of tokens of answers and of prompts."""
        if not self.prompts:
            return None
        return rollouts.token_mask.sum(dtype=jnp.float32), rollouts.prompt_mask.sum(dtype=jnp.float32)

    def evaluate(
        self,
        scores: PolicyScores,
        rollouts: Rollouts,
        advantages: Array,
        parameters: None,
        statistics: tuple[Array, Array] | None,
    ) -> tuple[Array, Metrics]:
        values = advantages * scores.log_probs
        statistics = self.statistics(scores, rollouts, advantages) if statistics is None else statistics
        if statistics is None:
            return values, {}
        of_answers, of_prompts = statistics
        prompt = masked_sum(scores.prompt_log_probs, rollouts.prompt_mask, axis=-1)
        tokens = rollouts.token_mask.sum(axis=(1, 2))
        values += (prompt / jnp.maximum(tokens, 1))[:, None, None]
        return values * of_answers / (of_answers + of_prompts), {}


def supervised(prompts: bool = False, aggregation: AggregationName = "token_mean") -> Objective:
    """Supervised training on given answers (ours): loss -r log pi, the mean over tokens; with r = 1 maximum likelihood.

    Made for `StoredGroups`: demonstrations have the reward 1, and rewards of 0 leave answers out, as in rejection
    sampling. `prompts` adds the tokens of the prompts to the mean over tokens, with weight 1, as a language model is
    pretrained on questions and answers alike. On answers of the policy's own it is `reinforce`, but for the mean.

    Degenerate: answers without reward have no gradient, but their tokens count in the mean.
    Evidence: derived (closed form of the expected update).
    Peers: TRL, Tunix.
    """
    if prompts and aggregation != "token_mean":
        raise ValueError(f"aggregation={aggregation} is no mean over tokens: prompts=True needs token_mean")
    return Objective(advantages=NoBaseline(), surrogate=Likelihood(prompts), aggregation=aggregated_by(aggregation))
