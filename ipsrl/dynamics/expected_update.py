"""The exact mean of one training update of any objective, over all groups that a policy can sample.

The gradient of the training step itself (`ipsrl.training.step.gradient`) is computed for every possible group, and
averaged with the probabilities of the groups. A group is described by the count of each trajectory, so
the groups are the count vectors, C(M + G - 1, G) of M trajectories, with a multinomial distribution.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import gammaln

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, at_least, positive
from ipsrl.dynamics.setting import Setting
from ipsrl.dynamics.softmax.finite_groups import count_vectors
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.environments.state_graph import StateGraph
from ipsrl.objectives.objective import Objective
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.training.step import gradient, rollouts_of

MOST_GROUPS = 200_000
"""Maximum number of groups that are enumerated."""
LARGEST_GROUP_OF_THREE = (math.isqrt(8 * MOST_GROUPS + 1) - 3) // 2
"""The largest group whose outcomes, one of three for each answer, have at most `MOST_GROUPS` counts: (G+1)(G+2)/2."""
BLOCK = 512
"""Number of groups whose updates are computed at once."""


@dataclasses.dataclass(frozen=True)
class Steps(Checked):
    """Several steps of gradient descent on each batch of groups, so that importance ratios leave 1 and clips act.

    Attributes:
      number: passes over the batch.
      size: of a step, the factor of the gradient.
    """

    number: int = at_least(1, 4, called="number of steps")
    size: float = positive(0.5, called="size of a step")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over sampled groups.

    Attributes:
      update: the mean, in the shape of the logits.
      standard_error: of each entry, from the spread between antithetic pairs, which are independent. It ignores
        outcomes too rare to be sampled: if a rare one has a large weight, as under inverse probabilities, the true
        error may be thousands of times larger (moreover float32 random numbers have a resolution of 1.2e-7).
      groups: number of sampled groups.
    """

    update: Array
    standard_error: Array
    groups: int = dataclasses.field(metadata={"static": True})


@checked
def expected_update(
    objective: Objective,
    logits: Array,
    rewards: Array | Reward,
    group_size: int,
    *,
    environment: StateGraph | None = None,
    reference: Array | None = None,
    objective_state: tuple | None = None,
    off_policy: OffPolicyAnswers | None = None,
    steps: Steps | None = None,
    num_keys: int = 8,
) -> Array:
    """Mean of minus the gradient by the logits, over the groups that the policy samples for one prompt.

    This is the mean update of stochastic gradient descent with a small step and one prompt in a batch, divided by the
    step size; it includes all optimiser steps of the objective on a batch. With `steps` it is the mean of (z_k - z) /
    size, z_k the logits after k steps on one batch, which need not be small: the weights of the batch stay, importance
    ratios, clips and penalties follow the logits. Parts that use the whole batch see one group; a part that breaks ties
    among answers by their order or by rounding (`kl_cov`) sees each group in one order.

    `logits`, `rewards` and `reference` may be traced, and mapped by `jax.vmap`; the computation has the dtype of
    `logits`, or float32 if that has fewer bits. An outcome of logit -inf has no effect. Do not differentiate this
    function: an objective stops the gradient of its weights, so `jax.jacfwd` would treat them as constants. Its
    derivative is `Field.jacobians`.

    Args:
      objective: any objective that needs no text.
      logits: `[K]` of a bandit with K arms, or `[S, V]` of a table on `environment`.
      rewards: `[K]`, of the outcomes; or a `Reward`, whose noise is part of what the mean is over.
      group_size: G.
      environment: has one prompt and defines the trajectories; its own rewards are used only by a `Reward` that reads
        them. An objective that reads `reward_parts` asks for `rewards` that are its own. A bandit by default.
      reference: logits of the reference policy, shaped as `logits`; uniform over legal actions by default.
      objective_state: state of the objective, carried from batch to batch; the initial state by default.
      off_policy: puts off-policy answers into groups, as in the training loop.
      steps: on each batch; a single small one by default.
      num_keys: for objectives that sample at random, the number of (fixed) keys to average over; each is used with
        every rotation of the group, so that no sample is favoured.

    Returns:
      an array in the shape of `logits`.

    Raises:
      ValueError: the objective cannot be computed here, shapes do not fit, or there are too many groups to enumerate
        (then use `estimated_update`).
    """
    if num_keys < 1:
        raise ValueError(f"num_keys is {num_keys}, it must be at least 1")
    check_groups = functools.partial(_check_groups, group_size=group_size, off_policy=off_policy)
    setting = Setting.of(
        objective, logits, rewards, group_size, environment, reference, objective_state, off_policy, check_groups
    )
    # With rewards that are random there are more than walks.
    walks = setting.log_probs.shape[0]
    check_groups(walks)
    own_answers = group_size - (off_policy is not None)
    counts = count_vectors(walks, own_answers)
    coefficients = gammaln(own_answers + 1) - gammaln(counts + 1).sum(axis=1)
    log_chances = coefficients + jnp.where(counts > 0, counts * setting.log_probs, 0.0).sum(axis=1)
    members = np.repeat(np.tile(np.arange(walks), len(counts)), counts.ravel()).reshape(len(counts), own_answers)
    if off_policy is not None:
        members = np.column_stack([np.tile(np.arange(walks), len(counts)), np.repeat(members, walks, axis=0)])
        log_chances = (log_chances[:, None] + _log_distribution_of_best(setting, off_policy)).ravel()
    keys = jax.random.split(jax.random.key(0), (len(members), num_keys if "keys" in objective.needs else 1))
    updates = _updates(objective, steps, setting, members, keys)
    chances = jnp.exp(log_chances).astype(updates.dtype)
    # The update of an impossible group may be infinite or NaN.
    updates = jnp.where(chances[:, None, None] > 0, updates, 0.0)
    return jnp.tensordot(chances, updates, axes=1).reshape(logits.shape)


@checked
def estimated_update(
    objective: Objective,
    logits: Array,
    rewards: Array | Reward,
    group_size: int,
    key: Array,
    *,
    pairs: int = 4096,
    environment: StateGraph | None = None,
    reference: Array | None = None,
    objective_state: tuple | None = None,
    off_policy: OffPolicyAnswers | None = None,
    steps: Steps | None = None,
) -> Estimate:
    """`expected_update` with too many groups to enumerate: the mean over antithetic pairs of sampled groups.

    If a group samples its trajectories from uniform numbers u, in the order of their rewards, its partner uses 1 - u;
    each has the right distribution. The gain depends on objective and point. The error relative to as many independent
    groups of 8, at 10 random points of 3 and of 6 arms (normal logits, uniform rewards), was on average 0.85 and 0.94
    for reinforce and 0.85 and 0.91 for grpo, but 0.91 to 1.00 for dr_grpo, ips_reinforce, ips_dr_grpo and ips_grpo; at
    single points it was 0.3 to 1.16, so it may also be slightly larger.

    Args:
      objective, logits, rewards, group_size, environment, reference, objective_state, off_policy, steps: as in
        `expected_update`.
      key: the same key gives the same groups.
      pairs: half the number of groups, at least 2.

    Raises:
      ValueError: the objective cannot be computed here, shapes do not fit, or there are fewer than 2 pairs.
    """
    if pairs < 2:
        raise ValueError(f"pairs is {pairs}, but a standard error needs at least 2")
    of_groups, of_draws = jax.random.split(key)
    setting = Setting.of(objective, logits, rewards, group_size, environment, reference, objective_state, off_policy)
    # Above 0, because inverting 0 would give the first trajectory even if it is impossible.
    dtype = setting.log_probs.dtype
    uniform = jax.random.uniform(of_groups, (pairs, group_size), dtype, minval=jnp.finfo(dtype).tiny)
    uniform = jnp.concatenate([uniform, 1 - uniform])
    order = jnp.lexsort((setting.outcomes.outcome_id[0], setting.outcomes.rewards[0]))

    def inverted(log_probs, numbers):
        cumulative = jnp.cumsum(jnp.exp(log_probs[order]))
        # Rounding may leave the last sum slightly below 1.
        return order[jnp.searchsorted(cumulative / cumulative[-1], numbers)]

    members = inverted(setting.log_probs, uniform)
    if off_policy is not None:
        members = members.at[:, 0].set(inverted(_log_distribution_of_best(setting, off_policy), uniform[:, 0]))
    updates = _updates(objective, steps, setting, members, jax.random.split(of_draws, (2 * pairs, 1)))
    of_pairs = updates.reshape(2, pairs, *logits.shape).mean(axis=0)
    return Estimate(of_pairs.mean(axis=0), of_pairs.std(axis=0, ddof=1) / math.sqrt(pairs), 2 * pairs)


def _check_groups(walks: int, group_size: int, off_policy: OffPolicyAnswers | None) -> None:
    """Raises ValueError if there are too many groups of so many trajectories to enumerate."""
    own = group_size - (off_policy is not None)
    # Of very large groups no exact number is computed.
    groups = math.comb(walks + own - 1, own) if min(walks - 1, own) < 100 else math.inf
    if groups * (1 if off_policy is None else walks) > MOST_GROUPS:
        raise ValueError(
            f"{walks} trajectories in groups of {group_size} make more than {MOST_GROUPS} different groups: use "
            "estimated_update, which samples them"
        )


def _log_distribution_of_best(setting: Setting, off_policy: OffPolicyAnswers) -> Array:
    """`[M]`, log-probability of each trajectory to be the first with the highest reward among the refinements."""
    log_probs, rewards = setting.log_probs, setting.outcomes.rewards[0]
    if off_policy.actor == "reference":
        answers = every_trajectory(setting.environment, setting.reference["logits"])
        of_answers = answers.behaviour_log_probs[0].sum(axis=-1)
        log_probs = jnp.repeat(of_answers, len(log_probs) // len(of_answers)) + setting.log_noise
    probs = jnp.exp(log_probs)
    below = jnp.where(rewards < rewards[:, None], probs, 0.0).sum(axis=1, keepdims=True)
    not_above = jnp.where(rewards <= rewards[:, None], probs, 0.0).sum(axis=1, keepdims=True)
    # Answers before it have lower rewards, answers after it no higher ones.
    before = np.arange(off_policy.answers)
    return log_probs + jnp.log((below**before * not_above ** before[::-1]).sum(axis=1))


@functools.partial(jax.jit, static_argnames=("objective", "steps"))
def _updates(objective: Objective, steps: Steps | None, setting: Setting, members: Array, keys: Array) -> Array:
    """`[N, S, V]`, the update of each group: `members` `[N, G]` are the trajectories it holds.

    Args:
      keys: `[N, D]`; averages over D keys and, for objectives that use them, over all rotations of the group.
    """
    # An off-policy answer stays first.
    rotations = members.shape[1] if "keys" in objective.needs and not setting.has_off_policy else 1
    scored: dict[str, Any] = {"policy": setting.policy, "objective": objective, "temperature": 1.0}

    def of_group(group, key):
        trajectories, outcomes = jax.tree.map(
            lambda leaf: leaf[:, group], (dataclasses.replace(setting.trajectories, prompts=None), setting.outcomes)
        )
        off_policy = jnp.zeros((1, len(group)), bool).at[:, 0].set(True) if setting.has_off_policy else None
        trajectories = dataclasses.replace(trajectories, prompts=setting.trajectories.prompts, off_policy=off_policy)
        rollouts = rollouts_of(setting.parameters, setting.reference, None, trajectories, outcomes, key, **scored)
        weights, _, _ = objective.weigh(rollouts, setting.objective_state)
        start, size = setting.parameters["logits"], 0.0 if steps is None else steps.size

        def after_pass(total, _):
            for of_step in objective.weights_of_steps(weights, rollouts):
                both = {"logits": start + size * total}, setting.objective_parameters
                (of_policy, _), _, _ = gradient(both, None, (trajectories, rollouts, of_step), **scored)
                total = total - of_policy["logits"]
            return total, None

        passes = 1 if steps is None else steps.number
        return jax.lax.scan(after_pass, jnp.zeros_like(start), length=passes)[0]

    def of_draws(group_and_keys):
        group, keys = group_and_keys
        turned = jax.vmap(jnp.roll, in_axes=(None, 0))(group, jnp.arange(rotations))
        of_all = jax.vmap(jax.vmap(of_group, in_axes=(None, 0)), in_axes=(0, None))
        return of_all(turned, keys).mean(axis=(0, 1))

    # In blocks of equal size, filled up with the first groups: a shorter last one would be compiled separately.
    groups = members.shape[0]
    blocks = -(-groups // BLOCK)
    size = -(-groups // blocks)
    filled_up = jnp.arange(blocks * size) % groups
    updates = jax.lax.map(of_draws, (members[filled_up], keys[filled_up]), batch_size=size)
    return updates[:groups]
