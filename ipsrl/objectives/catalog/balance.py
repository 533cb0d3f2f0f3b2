"""Flow balance: squared residuals of an equation that holds at the target distribution.

With P_F the policy, P_B a backward policy that sums to one over the trajectories into an outcome x, and R > 0:

    trajectory       log Z + sum_t log P_F - log R(x) - sum_t log P_B = 0
    each step        log F(s) + log P_F(s'|s) - log F(s') - log P_B(s|s') = 0,    F(end) = R(x)

Either equation makes the policy sample x with probability R(x) / Z. The value to maximise is minus the squared residual
of an answer, the same at each of its tokens, so the mean over answers (`SequenceMean`) is minus the published loss.
Advantages are log R(x), from `LogReward`. The gradient flows through the policy's log-probabilities and into the
learned log Z or log F; Adam moves each entry at `learning_rate`, only in the steps that use it. The loss needs no
importance ratio: stale samples only change the weights of the trajectories.
"""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import finite, positive, share
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName, SequenceMean, aggregated_by
from ipsrl.objectives.catalog.arguments import Clip, both_sides
from ipsrl.objectives.estimators.answered import equal_among_answered, mean_of_answered
from ipsrl.objectives.estimators.discounting import discounted_sums
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.structures import Metrics, PolicyScores, Rollouts, Sizes, masked_mean, masked_sum


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


LEARNING_RATE = 0.1
"""Learning rate of log Z and log F, a hundred times a usual policy's, as in torchgfn's benchmarks."""


@dataclasses.dataclass(frozen=True)
class TrajectoryBalance(Surrogate):
    """-(log Z + sum log P_F - log R - sum log P_B)^2 (arXiv 2201.13259), with one learned log Z for each prompt.

    log Z starts at 0. The metric `log_partition` is its mean over the groups.
    """

    learning_rate: float = positive(LEARNING_RATE, called="the learning rate of log Z or the flows")
    needs: ClassVar[frozenset[str]] = frozenset({"log_backward"})

    def init_parameters(self, sizes: Sizes) -> dict[str, Array]:
        return {"log_partition": jnp.zeros(sizes.num_prompts)}

    def evaluate(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any, statistics: Any
    ) -> tuple[Array, Metrics]:
        log_partition = parameters["log_partition"][rollouts.prompt_index]
        residual = log_partition[:, None] + _excess(scores, rollouts, advantages)
        return _minus_square(residual, rollouts), _metrics(log_partition)


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


@dataclasses.dataclass(frozen=True)
class GroupBalance(Surrogate):
    """Trajectory balance with log Z estimated from the group (VarGrad; log-partition variance, arXiv 2302.05446).

        log Z = mean over the group's answers with tokens of (log R + sum log P_B - sum log P_F)

    The loss is the variance of the residual in the group; nothing is learned beside the policy. The gradient also flows
    through the mean, which makes no difference: with f the residual without log Z,
    d/dtheta mean (f_g - f)^2 = 2 mean (f_g - f) (f_g' - f') = 2 mean (f_g - f) f_g', since f_g - f sums to zero.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"log_backward"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> tuple[Array, Metrics]:
        excess = _excess(scores, rollouts, advantages)
        mean = mean_of_answered(excess, rollouts)
        residual = jnp.where(equal_among_answered(excess, rollouts), 0.0, excess - mean)
        return _minus_square(residual, rollouts), _metrics(-mean)


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


@dataclasses.dataclass(frozen=True)
class StateFlows(Surrogate):
    """Base of the surrogates that learn log F for each state of each prompt, in a table that starts at 0.

    A truncated trajectory counts as ended, with the reward it has.
    """

    learning_rate: float = positive(LEARNING_RATE, called="the learning rate of log Z or the flows")
    needs: ClassVar[frozenset[str]] = frozenset({"step_log_backward"})

    def init_parameters(self, sizes: Sizes) -> dict[str, Array]:
        if sizes.num_states is None:
            raise ValueError("the objective learns a flow for each state, but this environment does not number states")
        return {"log_flows": jnp.zeros((sizes.num_prompts, sizes.num_states))}

    def residuals(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any
    ) -> tuple[Array, Metrics]:
        """log F(s) + log P_F - log F(s') - log P_B of each action, `[P, G, T]`, 0 outside the trajectory."""
        mask = rollouts.token_mask
        flows = parameters["log_flows"]
        # A flat table takes two thirds of the time, for reading and for adding gradients.
        states = rollouts.prompt_index[:, None, None] * flows.shape[-1] + rollouts.observations
        before = flows.ravel()[states]
        is_last = jnp.arange(mask.shape[-1]) == mask.sum(axis=-1, keepdims=True) - 1
        after = jnp.where(is_last, advantages, jnp.pad(before[..., 1:], ((0, 0), (0, 0), (0, 1))))
        residuals = jnp.where(mask, before + scores.log_probs - after - rollouts.step_log_backward, 0.0)
        return residuals, _metrics(before[..., 0])


@dataclasses.dataclass(frozen=True)
class DetailedBalance(StateFlows):
    """-(log F(s) + log P_F(s'|s) - log F(s') - log P_B(s|s'))^2 of each action (arXiv 2111.09266), F(end) = R."""

    def evaluate(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any, statistics: Any
    ) -> tuple[Array, Metrics]:
        residuals, metrics = self.residuals(scores, rollouts, advantages, parameters)
        return -(residuals**2), metrics


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


@dataclasses.dataclass(frozen=True)
class SubTrajectoryBalance(StateFlows):
    """Balance of all parts of a trajectory, with lower weight for longer parts (SubTB, arXiv 2209.12782).

        - sum_{i<j} decay^(j-i) (d_i + ... + d_(j-1))^2 / sum_{i<j} decay^(j-i)

    d are the residuals of detailed balance; in the sum over a part i .. j all flows between its ends cancel. decay -> 0
    gives the mean of detailed balance over the actions. With g_k = 1 + decay + ... + decay^k, the parts that contain
    both actions s <= t of n have the total weight decay^(t-s+1) g_s g_(n-1-t), so the sum over parts is

        decay sum_t g_(n-1-t) d_t (g_t d_t + 2 sum_{s<t} decay^(t-s) g_s d_s)

    The inner sums are `discounted_sums`, so no array holds all parts. On two CPU cores with T = 512 it takes three
    times as long as GRPO; half of that is reading the flows and their gradient, as in detailed balance.
    """

    decay: float = share(0.9)

    def evaluate(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any, statistics: Any
    ) -> tuple[Array, Metrics]:
        residuals, metrics = self.residuals(scores, rollouts, advantages, parameters)
        mask = rollouts.token_mask
        to_come = jnp.maximum(mask.sum(axis=-1, keepdims=True) - 1 - jnp.arange(mask.shape[-1]), 0)
        weights = np.cumsum(self.decay ** np.arange(mask.shape[-1]))
        starts, norms = jnp.array(weights, jnp.float32), jnp.array(np.cumsum(weights), jnp.float32)
        ends = starts[to_come]
        begun = starts * residuals
        # The sum up to t includes t itself: twice the sum, minus d_t, is d_t plus twice the earlier terms.
        squares = (ends * residuals * (2 * discounted_sums(begun, self.decay) - begun)).sum(axis=-1)
        loss = squares / norms[to_come[..., 0]]
        return jnp.broadcast_to(-loss[..., None], mask.shape), metrics


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


@dataclasses.dataclass(frozen=True)
class RewardTiltBalance(Surrogate):
    """-w (log Z + mean log pi - beta A - mean log pi_ref)^2, means over the answer's tokens (FlowRL, arXiv 2509.15207).

    w is the answer's whole importance ratio, a constant, clipped to [1 - low, 1 + high]; `released_weight` does not
    clip it, as the released code does in effect (its log is clamped to +-20 here). A is the group-normalised reward.
    Because of the means, the loss is zero at pi = pi_ref exp(length * (beta A - log Z)).

    The paper's log Z is a network of three layers on the prompt's hidden states. Our reading: a `table` with one
    learned log Z for each prompt, which starts at 0, or the `group`'s mean of beta A + mean log pi_ref - mean log pi, a
    constant for the gradient like a learned one.
    """

    beta: float = positive(15.0)
    low: float = 0.2
    high: float = 0.2
    partition: Literal["table", "group"] = "table"
    released_weight: bool = False
    learning_rate: float = positive(LEARNING_RATE, called="the learning rate of log Z or the flows")
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})

    def __post_init__(self):
        super().__post_init__()
        if not (0.0 <= self.low <= 1.0 and self.high >= 0.0):
            raise ValueError(f"clip range is 1 - {self.low} to 1 + {self.high}: low must lie in [0, 1], high from 0 up")

    def init_parameters(self, sizes: Sizes) -> dict[str, Array]:
        return {"log_partition": jnp.zeros(sizes.num_prompts)} if self.partition == "table" else {}

    def evaluate(
        self, scores: PolicyScores, rollouts: Rollouts, advantages: Array, parameters: Any, statistics: Any
    ) -> tuple[Array, Metrics]:
        mask = rollouts.token_mask
        log_tilt = masked_mean(scores.log_probs - rollouts.reference_log_probs, mask, axis=-1)
        excess = log_tilt - self.beta * advantages[..., 0]
        if self.partition == "table":
            log_partition = parameters["log_partition"][rollouts.prompt_index][:, None]
            residual = log_partition + excess
        else:
            log_partition = -jax.lax.stop_gradient(mean_of_answered(excess, rollouts))
            residual = jnp.where(equal_among_answered(excess, rollouts), 0.0, log_partition + excess)

        log_ratio = masked_sum(scores.log_probs - rollouts.behaviour_log_probs, mask, axis=-1)
        ratio = jax.lax.stop_gradient(jnp.exp(jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)))
        weight = ratio if self.released_weight else jnp.clip(ratio, 1.0 - self.low, 1.0 + self.high)
        values = weight[..., None] * _minus_square(residual, rollouts)
        return values, _metrics(log_partition)


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


def _excess(scores: PolicyScores, rollouts: Rollouts, advantages: Array) -> Array:
    """sum log P_F - log R - sum log P_B, `[P, G]`: the residual of trajectory balance without log Z."""
    return masked_sum(scores.log_probs, rollouts.token_mask, axis=-1) - advantages[..., 0] - rollouts.log_backward


def _minus_square(residual: Array, rollouts: Rollouts) -> Array:
    """`[P, G]` residuals of answers -> `[P, G, T]` values of their tokens."""
    return jnp.broadcast_to(-(residual**2)[..., None], rollouts.tokens.shape)


def _metrics(log_partition: Array) -> Metrics:
    return {"log_partition": (log_partition.sum(), jnp.float32(log_partition.size))}
