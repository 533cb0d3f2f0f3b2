"""Regression of the implicit reward beta log(pi / anchor) of answers on rewards.

The policy that maximises E[r] - beta KL(pi || anchor) is anchor exp(r / beta) / Z: its implicit reward is r - beta log
Z. As in `balance`, each token of an answer has minus the loss of the answer, so the mean over answers (`SequenceMean`)
is minus the published loss, and no importance ratio is needed: stale samples only change the weights of the answers.
`BellmanRegression` does the same for single tokens.
"""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.checking.fields import positive
from ipsrl.objectives.advantages import GroupMean, NoBaseline, group_centred
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, aggregated_by
from ipsrl.objectives.estimators.answered import equal_among_answered, mean_of_answered
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.structures import Metrics, PolicyScores, Rollouts, Sizes, masked_mean, masked_sum


@dataclasses.dataclass(frozen=True)
class AugmentedLikelihood(Surrogate):
    """-(log P_prior + sigma R - log P_agent)^2 of whole answers (REINVENT, arXiv 1704.07555).

    The prior is the reference policy, the agent the policy being trained; log P is the sum over the answer's tokens.
    There is no log Z in the equation, so not all residuals can vanish unless Z = sum_x P_prior exp(sigma R) is 1: at
    the tilted distribution P_prior exp(sigma R) / Z they are log Z, the same for each answer.
    """

    sigma: float = positive(128.0)
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_tilt = masked_sum(scores.log_probs - rollouts.reference_log_probs, rollouts.token_mask, axis=-1)
        losses = (self.sigma * advantages[..., 0] - log_tilt) ** 2
        return jnp.broadcast_to(-losses[..., None], rollouts.tokens.shape), {}


def reinvent(sigma: float = 128.0) -> Objective:
    """REINVENT (arXiv 1704.07555): loss (log P_prior + sigma R - log P_agent)^2 of whole answers, mean over answers.

    The prior is the reference policy. For answers that the policy itself sampled, with delta the residual,

        E[gradient] = -2 E[delta grad log P_agent] = -2 sigma grad (E[R] - KL(agent || prior) / sigma)

    exactly, since sigma times what is in brackets is E[delta], and E[grad log P_agent] = 0. So the expected updates
    rest at P_prior exp(sigma R) / Z, where delta is log Z for each answer; but no baseline removes the mean of delta,
    which adds noise to each group. For answers with another distribution q (stale or replayed ones; there is no
    importance ratio) nothing cancels: a table of logits rests where q delta = P_agent E_q[delta], which is the tilted
    distribution only if log Z = 0 or q equals it, and approaches q where sigma R is large: replay imitates.

    Degenerate: none; groups with equal rewards still train, those without reward towards the prior.
    Evidence: code (MolecularAI/REINVENT4, schwallergroup/saturn); sigma is saturn's, REINVENT4 has 120.
    Peers: REINVENT4, saturn.
    """
    return Objective(advantages=NoBaseline(), surrogate=AugmentedLikelihood(sigma), aggregation=SequenceMean())


@dataclasses.dataclass(frozen=True)
class GroupVariance(Surrogate):
    """Minus half the variance in the group of beta log(pi / pi') - A (GVPO, arXiv 2504.19599), which needs no Z.

        - G / (2 (G - 1)) (f_g - mean of f)^2,    f = beta log(pi / pi') - A

    pi' is the policy that sampled (`behaviour`) or the `reference`. The gradient also flows through the mean, which
    makes no difference, as in `balance.GroupBalance`. Answers without tokens do not count.
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


def gvpo(beta: float = 0.1, anchor: Literal["behaviour", "reference"] = "behaviour") -> Objective:
    """GVPO (arXiv 2504.19599): loss 1/2 variance in the group of beta log(pi / pi') - r, log pi of the whole answer.

    The variance divides by G - 1. Over any answers its minimum is pi' exp(r / beta) / Z, as the group's mean cancels
    log Z. `anchor` is pi': the policy that sampled (the released code), or the reference. With the policy that sampled
    the first step on a batch is beta times that of RLOO, and equally good answers are lost; further steps are held
    back. With the reference the mean update on-policy is beta times the gradient of E[r] - beta KL(pi || pi_ref), so
    that they keep the reference's ratio.

    Degenerate: groups with equal rewards are still pulled back to pi'.
    Evidence: code (verl-recipe); the mean updates are derived.
    Peers: verl-recipe.
    """
    return Objective(advantages=GroupMean(), surrogate=GroupVariance(beta, anchor), aggregation=SequenceMean())


@dataclasses.dataclass(frozen=True)
class OptimalAdvantage(RolloutPart):
    """A = r - V*, V* = beta log( sum w exp(r / beta) / sum w ) over answers of the reference: A*-PO (arXiv 2505.20686).

    w = pi_ref / mu, the probabilities of the whole answer, is 1 for answers that the reference itself has sampled, as
    the paper's are; for the policy's own, this is self-normalised importance sampling, between the lowest and the
    highest reward. `value`:

        first     V* of the prompt's first group, kept for the rest of the training; within that group, as `others`;
                  of several first groups in one batch, the mean of their V* is kept
        others    V* of the other answers of the group, anew each time

    so that V* never depends on the answer that it is subtracted from. Answers without tokens do not count. The state is
    a table over prompts.
    """

    beta: float = positive(0.5, called="beta1, the temperature of the optimal value,")
    value: Literal["first", "others"] = "first"
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})
    smallest_group: ClassVar[int] = 2

    def init(self, sizes: Sizes) -> Any:
        """The kept V* and whether there is one, both `[num_prompts]`; () for `others`."""
        if self.value == "others":
            return ()
        return {"value": jnp.zeros(sizes.num_prompts), "known": jnp.zeros(sizes.num_prompts, bool)}

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        answered = rollouts.answered
        others = answered[:, None, :] & ~jnp.eye(values.shape[-1], dtype=bool)
        silent = equal_among_answered(values, rollouts)
        advantages = values - self._value_of(values, rollouts, others)
        advantages = jnp.where(silent | ~others.any(axis=-1), 0.0, advantages)
        if self.value == "others":
            return advantages, state
        prompts = rollouts.prompt_index
        known, kept = state["known"][prompts], state["value"][prompts]
        whole = self._value_of(values, rollouts, answered[:, None, :])[:, 0]
        whole = masked_mean(whole, rollouts.same_prompt, axis=-1)
        new_state = {
            "value": state["value"].at[prompts].set(jnp.where(known, kept, whole)),
            "known": state["known"].at[prompts].set(True),
        }
        return jnp.where(known[:, None], values - kept[:, None], advantages), new_state

    def _value_of(self, values: Array, rollouts: Rollouts, counted: Array) -> Array:
        """V* over the counted answers, `[P, N, G]` bool -> `[P, N]`; over all where there are none."""
        counted |= ~counted.any(axis=-1, keepdims=True)
        log_weight = rollouts.reference_log_probs - rollouts.behaviour_log_probs
        log_weight = masked_sum(log_weight, rollouts.token_mask, axis=-1)[:, None, :]
        log_share = jax.nn.log_softmax(jnp.where(counted, log_weight, -jnp.inf), axis=-1)
        largest = jnp.where(counted, values[:, None, :], -jnp.inf).max(axis=-1, keepdims=True)
        below = jnp.where(counted, (values[:, None, :] - largest) / self.beta, 0.0)
        # The first form is exact for small rewards, the second where only the largest counts.
        less = (jnp.exp(log_share) * jnp.expm1(below)).sum(axis=-1)
        log_mean = jnp.where(less > -0.5, jnp.log1p(less), logsumexp(log_share + below, axis=-1))
        return largest[..., 0] + self.beta * log_mean


@dataclasses.dataclass(frozen=True)
class AdvantageRegression(Surrogate):
    """-(beta log(pi / pi_ref) - A)^2 of whole answers (A*-PO, arXiv 2505.20686): A = r - V*, V* = beta log Z."""

    beta: float = positive(1e-3, called="beta2, the temperature of the policy,")
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        log_tilt = masked_sum(scores.log_probs - rollouts.reference_log_probs, rollouts.token_mask, axis=-1)
        losses = (self.beta * log_tilt - advantages[..., 0]) ** 2
        return jnp.broadcast_to(-losses[..., None], rollouts.tokens.shape), {}


def a2po(beta1: float = 0.5, beta2: float = 1e-3, value: Literal["first", "others"] = "first") -> Objective:
    """A*-PO (arXiv 2505.20686): loss (beta2 log(pi / pi_ref) - (r - V*))^2, V* = beta1 log of mean_ref exp(r / beta1).

    V* is the optimal value of a prompt, from answers of the reference that the paper samples before training. Our
    reading: it is that of the prompt's `first` group, weighted to the reference, which it is at the start; or of the
    `others` in each group, see `OptimalAdvantage`. Over any answers the minimum is pi_ref exp(r / beta2) / Z if V* =
    beta2 log Z, so if beta1 = beta2; on-policy V* is only a baseline, and the mean update is 2 beta2 times the gradient
    of E[r] - beta2 KL(pi || pi_ref), whatever beta1. With the default of beta2 equally good answers return to the
    reference's ratio, but a thousand times more slowly than wrong ones are lost. TRL drops prompts that the reference
    never solves; here they pull the policy to the reference.

    Degenerate: a prompt's first group, if its rewards are equal, pulls to the reference; so does every such group whose
    reward is V*.
    Evidence: code (TRL); estimating V* from groups is our reading, the mean update is derived.
    Peers: TRL.
    """
    return Objective(
        advantages=OptimalAdvantage(beta1, value),
        surrogate=AdvantageRegression(beta2),
        aggregation=SequenceMean(),
    )


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


def rover(beta: float = 1.0, standardise: bool = False, aggregation: AggregationName = "token_mean") -> Objective:
    """ROVER (arXiv 2509.24981): loss (Q - sg(A + mean over a' of Q(s', a')))^2, Q = beta log(pi / pi_old), A centred.

    pi_old is the policy before the first optimiser step on the batch, which takes one more scoring pass; s' the state
    of the next token, a' any of its tokens; A = r - group mean at every token, as for Countdown, or divided by the
    standard deviation, as for mathematics (`standardise`). beta is the paper's rho, 1, with four mini-batches a step.

    The paper analyses a softmax of the uniform policy's exact Q, which is the uniform policy on equal rewards. But Q
    restarts from zero at each batch: at pi = pi_old the residual is -A, and the gradient -2 beta A grad log pi, 2 beta
    times that of `dr_grpo(aggregation=token_mean)`, so that equally good answers are lost. Further steps regress a
    single token on pi_old exp(A / beta), which keeps ties in large groups; in pairs, where the rarer answer is often
    missing, they lose it faster. In longer answers the mean over a' is beta (KL(u || pi_old) - KL(u || pi)), u uniform,
    which falls as a token is unlearned at s', so that moves to s' are held back. Equal rewards move nothing, however
    many paths an outcome has.

    Degenerate: groups with equal rewards get exactly zero where the policy is the one that sampled, and pull back to it
    where it has moved.
    Evidence: code (its repository); what it does is derived.
    """
    return Objective(
        advantages=group_centred(standardise),
        surrogate=BellmanRegression(beta),
        aggregation=aggregated_by(aggregation),
    )
