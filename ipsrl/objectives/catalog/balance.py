"""Squared residuals as objectives: GFlowNet losses, FlowRL, REINVENT, and regressions of an implicit reward."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.checking.fields import finite, positive
from ipsrl.objectives.advantages.baselines import GroupMean, GroupMeanStd, NoBaseline, group_centred
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.estimators.answered import equal_among_answered
from ipsrl.objectives.objective import Objective, RolloutPart
from ipsrl.objectives.surrogates.flow_balance import (
    LEARNING_RATE,
    AugmentedLikelihood,
    DetailedBalance,
    GroupBalance,
    RewardTiltBalance,
    SubTrajectoryBalance,
    TrajectoryBalance,
)
from ipsrl.objectives.surrogates.implicit_rewards import AdvantageRegression, BellmanRegression, GroupVariance
from ipsrl.structures import Rollouts, Sizes, masked_mean, masked_sum


@dataclasses.dataclass(frozen=True)
class LogReward(RolloutPart):
    """A = max(exponent * log r, floor): the log-reward of flow balance.

    The target distribution is proportional to r^exponent. Rewards of zero and negative rewards get `floor`: their
    target odds against a reward of one are exp(floor) to 1.
    """

    floor: float = finite(-10.0, called="log_reward_floor")
    exponent: float = positive(1.0, called="reward_exponent")

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        positive = values > 0
        log_rewards = self.exponent * jnp.log(jnp.where(positive, values, 1.0))
        return jnp.where(positive, jnp.maximum(log_rewards, self.floor), self.floor)


def trajectory_balance(
    log_reward_floor: float = -10.0, reward_exponent: float = 1.0, learning_rate: float = LEARNING_RATE
) -> Objective:
    """TB (arXiv 2201.13259): loss (log Z + sum log P_F - log R - sum log P_B)^2, log Z learned for each prompt.

    Zero exactly if the policy's distribution is R / Z; R = r^reward_exponent. Rewards of zero count as
    exp(log_reward_floor) (our reading). `learning_rate` is that of log Z, which starts at 0. P_B is the environment's
    backward policy.

    Degenerate: none; groups with equal rewards still show how far the policy is from their odds.
    Evidence: paper (the formula); the learning rate is that of torchgfn's benchmarks, the floor our reading.
    Peers: torchgfn, gfnx.
    """
    return Objective(
        advantages=LogReward(log_reward_floor, reward_exponent),
        surrogate=TrajectoryBalance(learning_rate),
        aggregation=SequenceMean(),
    )


def vargrad(log_reward_floor: float = -10.0, reward_exponent: float = 1.0) -> Objective:
    """VarGrad (arXiv 2302.05446): TB's loss with log Z = group mean of log R + sum log P_B - sum log P_F.

    Trajectory balance with nothing learned beside the policy: the variance of the residual in the group. Arguments as
    in `trajectory_balance`. The gradient is the same with and without a gradient through the mean.

    Degenerate: groups of equal answers have zero loss and no gradient; equal rewards alone are not enough.
    Evidence: derived; torchgfn calls it the log-partition variance loss.
    Peers: torchgfn.
    """
    return Objective(
        advantages=LogReward(log_reward_floor, reward_exponent),
        surrogate=GroupBalance(),
        aggregation=SequenceMean(),
    )


def detailed_balance(
    log_reward_floor: float = -10.0,
    reward_exponent: float = 1.0,
    learning_rate: float = LEARNING_RATE,
    aggregation: AggregationName = "sequence_mean",
) -> Objective:
    """DB (arXiv 2111.09266): loss (log F(s) + log P_F(s'|s) - log F(s') - log P_B(s|s'))^2 at each action, F(end) = R.

    log F is a learned table over prompts and states, which starts at 0; other arguments as in `trajectory_balance`.
    Averaging over each answer's actions, then over answers, is our reading; `sequence_sum` adds the actions,
    `token_mean` weighs all actions equally.

    Degenerate: none; groups with equal rewards still show how far flows and policy are from balance.
    Evidence: paper (the formula); aggregation, learning rate and floor are our reading.
    Peers: torchgfn, gfnx.
    """
    return Objective(
        advantages=LogReward(log_reward_floor, reward_exponent),
        surrogate=DetailedBalance(learning_rate),
        aggregation=aggregated_by(aggregation),
    )


def subtrajectory_balance(
    decay: float = 0.9,
    log_reward_floor: float = -10.0,
    reward_exponent: float = 1.0,
    learning_rate: float = LEARNING_RATE,
) -> Objective:
    """SubTB (arXiv 2209.12782): DB's residuals summed over each part i < j, squared, weights decay^(j - i).

    The residual of a part is log F(s_i) + sum (log P_F - log P_B) - log F(s_j), F(end) = R; flows and other arguments
    as in `detailed_balance`, the limit of `decay` (the paper's lambda) -> 0. All parts are summed by `discounted_sums`,
    at a cost that grows with the length of the trajectory, not with the number of its parts.

    Degenerate: none; groups with equal rewards still show how far flows and policy are from balance.
    Evidence: paper (the formula); decay 0.9 is a library's default (torchgfn), learning rate and floor are our reading.
    Peers: torchgfn, gfnx.
    """
    return Objective(
        advantages=LogReward(log_reward_floor, reward_exponent),
        surrogate=SubTrajectoryBalance(learning_rate, decay),
        aggregation=SequenceMean(),
    )


def flowrl(
    beta: float = 15.0,
    clip: Clip = 0.2,
    partition: Literal["table", "group"] = "table",
    released_weight: bool = False,
    learning_rate: float = LEARNING_RATE,
    unbiased_std: bool = False,
) -> Objective:
    """FlowRL (arXiv 2509.15207): loss w (log Z + m(log pi) - beta norm(r) - m(log pi_ref))^2, m token mean, w rho.

    Means are over the answer's tokens; w is the answer's importance ratio, without gradient, clipped to 1 - low to 1 +
    high by `clip`. `released_weight` follows the released code, which computes the clipped weight but multiplies by the
    unclipped one. Our reading: the paper's log Z is a network of three layers on the prompt's hidden states; here it is
    a learned `table` over prompts, with its own `learning_rate`, or the `group`'s mean, which is not learned.

    Degenerate: if rewards are equal, A is 0 and the policy is trained to sample the reference.
    Evidence: paper and code; partition, its learning rate and the std's convention are our reading.
    """
    if partition == "group" and learning_rate != LEARNING_RATE:
        raise ValueError(f"learning_rate={learning_rate} belongs to partition=table: leave it out")
    if released_weight and clip != 0.2:
        raise ValueError(f"released_weight does not clip: omit clip={clip}")
    return Objective(
        advantages=GroupMeanStd(unbiased=unbiased_std),
        surrogate=RewardTiltBalance(beta, *both_sides(clip), partition, released_weight, learning_rate),
        aggregation=SequenceMean(),
    )


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
