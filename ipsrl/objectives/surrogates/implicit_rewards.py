"""Regression of the implicit reward beta log(pi / anchor) of answers on rewards: `[P, G, T]` values to maximise.

The policy that maximises E[r] - beta KL(pi || anchor) is anchor exp(r / beta) / Z: its implicit reward is r - beta log
Z. As in `flow_balance`, each token of an answer has minus the loss of the answer, so the mean over answers
(`SequenceMean`) is minus the published loss, and no importance ratio is needed: stale samples only change the weights
of the answers. `BellmanRegression` does the same for single tokens.
"""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.objectives.estimators.answered import equal_among_answered, mean_of_answered
from ipsrl.objectives.objective import Metrics, Surrogate
from ipsrl.structures import PolicyScores, Rollouts, masked_sum


@dataclasses.dataclass(frozen=True)
class GroupVariance(Surrogate):
    """Minus half the variance in the group of beta log(pi / pi') - A (GVPO, arXiv 2504.19599), which needs no Z.

        - G / (2 (G - 1)) (f_g - mean of f)^2,    f = beta log(pi / pi') - A

    pi' is the policy that sampled (`behaviour`) or the `reference`. The gradient also flows through the mean, which
    makes no difference, as in `GroupBalance`. Answers without tokens do not count.
    """

    beta: float = positive(0.1)
    anchor: Literal["behaviour", "reference"] = "behaviour"
    smallest_group: ClassVar[int] = 2

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"reference_log_probs"} if self.anchor == "reference" else ())

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        anchor = rollouts.reference_log_probs if self.anchor == "reference" else rollouts.behaviour_log_probs
        log_tilt = masked_sum(scores.log_probs - anchor, rollouts.token_mask, axis=-1)
        excess = self.beta * log_tilt - advantages[..., 0]
        answers = rollouts.answered.sum(axis=-1, keepdims=True)
        # A group of one has no variance.
        factor = answers / (2 * jnp.maximum(answers - 1, 1))
        silent = equal_among_answered(excess, rollouts)
        losses = factor * jnp.where(silent, 0.0, excess - mean_of_answered(excess, rollouts)) ** 2
        return jnp.broadcast_to(-losses[..., None], rollouts.tokens.shape), {}


@dataclasses.dataclass(frozen=True)
class AdvantageRegression(Surrogate):
    """-(beta log(pi / pi_ref) - A)^2 of whole answers (A*-PO, arXiv 2505.20686): A = r - V*, V* = beta log Z."""

    beta: float = positive(1e-3, called="beta2, the temperature of the policy,")
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_tilt = masked_sum(scores.log_probs - rollouts.reference_log_probs, rollouts.token_mask, axis=-1)
        losses = (self.beta * log_tilt - advantages[..., 0]) ** 2
        return jnp.broadcast_to(-losses[..., None], rollouts.tokens.shape), {}


@dataclasses.dataclass(frozen=True)
class BellmanRegression(Surrogate):
    """Minus the squared error of a Bellman equation of the uniform policy, at each token (ROVER, arXiv 2509.24981).

        - (Q(s, a) - sg(A + mean over a' of Q(s', a')))^2,    Q = beta log(pi / pi_old)

    pi_old is the policy before the first optimiser step on the batch, s' the state of the next token that the policy
    chose, and a' all tokens that are possible there; after the last token the mean is 0. sg stops the gradient.
    """

    beta: float = positive(1.0)
    on_policy: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"proximal_log_probs", "proximal_mean_log_probs"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        if scores.mean_log_probs is None:
            raise ValueError("the objective reads mean_log_probs, which these scores do not have: take Policy.score's")
        mask = rollouts.token_mask
        value = self.beta * jnp.where(mask, scores.log_probs - rollouts.proximal_log_probs, 0.0)
        means = self.beta * (scores.mean_log_probs - rollouts.proximal_mean_log_probs)
        target = jax.lax.stop_gradient(advantages + _at_next_token(means, mask))
        return -((value - target) ** 2), {}


def _at_next_token(values: Array, mask: Array) -> Array:
    """`[P, G, T]`, the values at the next token where the mask is True; 0 after the last one."""
    length = mask.shape[-1]
    places = jnp.where(mask, jnp.arange(length), length)
    from_here = jax.lax.cummin(places, axis=2, reverse=True)
    after = jnp.concatenate([from_here[..., 1:], jnp.full_like(places[..., :1], length)], axis=-1)
    return jnp.take_along_axis(values, after, axis=-1, mode="fill", fill_value=0.0)
