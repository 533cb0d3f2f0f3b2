"""The exact mean of one training update of any objective, over all groups that a policy can sample.

The gradient of the training step itself (`ipsrl.training.step.gradient`) is computed for every possible group, and
averaged with the probabilities of the groups. A group is described by the count of each trajectory, so
the groups are the count vectors, C(M + G - 1, G) of M trajectories, with a multinomial distribution.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from scipy.special import gammaln

from ipsrl.arguments import checked, shown
from ipsrl.dynamics.finite_groups import count_vectors
from ipsrl.dynamics.trajectories import every_trajectory, every_walk
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.environment import dictates
from ipsrl.environments.state_graph import StateGraph
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import Reward, RewardTable
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Sampled
from ipsrl.structures import Outcomes, Trajectories
from ipsrl.training.step import check_objective, gradient, rollouts_of

MOST_GROUPS = 200_000
"""Maximum number of groups that are enumerated."""
NO_REWARDS = (
    "the reward reads those of the environment, and there are none: give it verifier=RewardTable(...), or give an "
    "environment"
)
BLOCK = 512
"""Number of groups whose updates are computed at once."""


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
    num_keys: int = 8,
) -> Array:
    """Mean of minus the gradient by the logits, over the groups that the policy samples for one prompt.

    This is the mean update of stochastic gradient descent with a small step and one prompt in a batch, divided by the
    step size; it includes all optimiser steps of the objective on a batch. Parts that use the whole batch see one
    group. `logits`, `rewards` and `reference` may be traced, and mapped by `jax.vmap`; the computation has the dtype of
    `logits`, or float32 if that has fewer bits. An outcome of logit -inf has no effect. Do not differentiate this
    function itself, wrap it in `differentiable` first: an objective stops the gradient of its weights, so `jax.jacfwd`
    would treat them as constants.

    Args:
      objective: any objective that needs no text.
      logits: `[K]` of a bandit with K arms, or `[S, V]` of a table on `environment`.
      rewards: `[K]`, of the outcomes; or a `Reward`, whose noise is part of what the mean is over.
      group_size: G.
      environment: has one prompt and defines the trajectories; its own rewards are used only by a `Reward` that reads
        them. A bandit by default.
      reference: logits of the reference policy, shaped as `logits`; uniform over legal actions by default.
      objective_state: state of the objective, carried from batch to batch; the initial state by default.
      off_policy: puts off-policy answers into groups, as in the training loop.
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
    own_answers = group_size - (off_policy is not None)

    def check_groups(walks: int) -> None:
        # Of very large groups no exact number is computed.
        groups = math.comb(walks + own_answers - 1, own_answers) if min(walks - 1, own_answers) < 100 else math.inf
        if groups * (1 if off_policy is None else walks) > MOST_GROUPS:
            raise ValueError(
                f"{walks} trajectories in groups of {group_size} make more than {MOST_GROUPS} different groups: use "
                "estimated_update, which samples them"
            )

    setting = _setting(
        objective, logits, rewards, group_size, environment, reference, objective_state, off_policy, check_groups
    )
    walks = setting.log_probs.shape[0]
    check_groups(walks)
    counts = count_vectors(walks, own_answers)
    coefficients = gammaln(own_answers + 1) - gammaln(counts + 1).sum(axis=1)
    log_chances = coefficients + jnp.where(counts > 0, counts * setting.log_probs, 0.0).sum(axis=1)
    members = np.repeat(np.tile(np.arange(walks), len(counts)), counts.ravel()).reshape(len(counts), own_answers)
    if off_policy is not None:
        members = np.column_stack([np.tile(np.arange(walks), len(counts)), np.repeat(members, walks, axis=0)])
        log_chances = (log_chances[:, None] + _log_distribution_of_best(setting, off_policy)).ravel()
    keys = jax.random.split(jax.random.key(0), (len(members), num_keys if "keys" in objective.needs else 1))
    updates = _updates(objective, setting, members, keys)
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
) -> Estimate:
    """`expected_update` with too many groups to enumerate: the mean over antithetic pairs of sampled groups.

    If a group samples its trajectories from uniform numbers u, in the order of their rewards, its partner uses 1 - u;
    each has the right distribution. The gain depends on objective and point. The error relative to as many independent
    groups of 8, at 10 random points of 3 and of 6 arms (normal logits, uniform rewards), was on average 0.85 and 0.94
    for reinforce and 0.85 and 0.91 for grpo, but 0.91 to 1.00 for dr_grpo, ips_reinforce, ips_dr_grpo and ips_grpo; at
    single points it was 0.3 to 1.16, so it may also be slightly larger.

    Args:
      objective, logits, rewards, group_size, environment, reference, objective_state, off_policy: as in
        `expected_update`.
      key: the same key gives the same groups.
      pairs: half the number of groups, at least 2.

    Raises:
      ValueError: the objective cannot be computed here, shapes do not fit, or there are fewer than 2 pairs.
    """
    if pairs < 2:
        raise ValueError(f"pairs is {pairs}, but a standard error needs at least 2")
    of_groups, of_draws = jax.random.split(key)
    setting = _setting(objective, logits, rewards, group_size, environment, reference, objective_state, off_policy)
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
    updates = _updates(objective, setting, members, jax.random.split(of_draws, (2 * pairs, 1)))
    of_pairs = updates.reshape(2, pairs, *logits.shape).mean(axis=0)
    return Estimate(of_pairs.mean(axis=0), of_pairs.std(axis=0, ddof=1) / math.sqrt(pairs), 2 * pairs)


@checked
def differentiable(field: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of logits with its true derivative, for `jax.jacfwd`.

    The weights of an objective may depend on the policy (inverse probabilities, a divergence in the reward). The
    objective stops their gradient, so automatic differentiation of its mean update would miss that dependence. The
    derivative is the central difference of the values, exact to about 1e-10 in float64, and 1e-4 in float32.
    """

    @jax.custom_jvp
    def function(logits):
        return field(logits)

    @function.defjvp
    def derivative(primals, tangents):
        (logits,), (direction,) = primals, tangents
        step = jnp.finfo(logits.dtype).eps ** (1 / 3)
        difference = field(logits + step * direction) - field(logits - step * direction)
        return field(logits), difference / (2 * step)

    return function


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Setting:
    """Data shared by all groups.

    Attributes:
      parameters, reference: of the policy that is trained, and of the reference policy.
      objective_state, objective_parameters: of the objective, before the update.
      trajectories, outcomes: every trajectory, as one group.
      log_probs: `[M]`, log-probability of each trajectory with its reward.
      log_noise: `[M]`, log-probability of the reward given the trajectory.
      environment: environment of the trajectories.
      has_off_policy: whether the first answer of each group is off-policy.
    """

    parameters: Parameters
    reference: Parameters
    objective_state: Any
    objective_parameters: Any
    trajectories: Trajectories
    outcomes: Outcomes
    log_probs: Array
    log_noise: Array
    environment: StateGraph = dataclasses.field(metadata={"static": True})
    has_off_policy: bool = dataclasses.field(metadata={"static": True})

    @property
    def policy(self) -> Tabular:
        return Tabular(self.environment.num_observations, self.environment.vocabulary_size)


def check_computable(
    objective: Objective, environment: StateGraph, policy: Tabular, group_size: int, off_policy: OffPolicyAnswers | None
) -> None:
    """Raises ValueError if groups that a table samples, with off-policy answers or without, lack what is needed."""
    fields = Sampled(environment, policy, 1, group_size, top_tokens=objective.top_tokens).optional_fields
    check_objective(objective, environment, group_size, fields if off_policy is None else off_policy.provides(fields))


def _as_floats(name: str, table: Array, holds: Callable[[np.ndarray], np.ndarray] = np.isfinite) -> Array:
    """A table with 32 bits or more in a number; raises ValueError if its known numbers are not finite."""
    table = jnp.asarray(table)
    if table.ndim == 0 or not (jnp.issubdtype(table.dtype, jnp.floating) or jnp.issubdtype(table.dtype, jnp.integer)):
        raise ValueError(f"{name} has the shape {table.shape} and the type {table.dtype}, it must be a table of floats")
    if table.size == 0 or not (isinstance(table, Tracer) or holds(np.asarray(table, np.float64)).all()):
        raise ValueError(f"{name} is {shown(np.asarray(table).tolist())}, it must hold finite numbers")
    return table.astype(jnp.promote_types(table.dtype, jnp.float32))


def _setting(
    objective, logits, rewards, group_size, environment, reference, objective_state, off_policy, check_walks=None
) -> _Setting:
    # An outcome of logit -inf is impossible.
    logits = _as_floats("logits", logits, lambda table: (table < np.inf) & (table.max(-1, keepdims=True) > -np.inf))
    if reference is not None:
        reference = _as_floats("reference", reference)
    if not isinstance(rewards, Reward):
        rewards = _as_floats("rewards", rewards)
    has_rewards = environment is not None
    if environment is None:
        environment = Bandit((0.0,) * (logits if isinstance(rewards, Reward) else rewards).shape[-1])
    if dictates(environment):
        raise ValueError("the walks of an environment that dictates tokens cannot be enumerated: train on samples")
    if environment.num_prompts != 1:
        raise ValueError(f"environment has {environment.num_prompts} prompts, but the mean is over one prompt's groups")
    table_shape = (environment.num_observations, environment.vocabulary_size)
    expected: dict[str, tuple] = {}
    if not isinstance(rewards, Reward):
        expected["rewards"] = (rewards.shape, (environment.num_outcomes,))
        rewards = RewardTable(rewards[None])
    else:
        rewards.check(environment.sizes)
        if not has_rewards and rewards.reads_environment:
            raise ValueError(NO_REWARDS)
    for name, table in {"logits": logits, "reference": logits if reference is None else reference}.items():
        expected[name] = (table.shape, table_shape[1:] if isinstance(environment, Bandit) else table_shape)
    for name, (shape, right) in expected.items():
        if shape != right:
            raise ValueError(f"{name} has shape {shape}, expected {right}")
    if off_policy is not None and off_policy.at_most is not None:
        raise ValueError("off_policy must put an answer into every group here: leave at_most out")
    policy = Tabular(*table_shape)
    check_computable(objective, environment, policy, group_size, off_policy)
    if check_walks is not None:
        check_walks(len(every_walk(environment)[0]))
    table = logits.reshape(table_shape)
    carried = objective.init(environment.sizes)
    if objective_state is not None:
        if not _same_shapes(objective_state, carried):
            raise ValueError("objective_state is not one of this objective: give what its `weigh` returned, or none")
        carried = objective_state
    learned = objective.init_parameters(environment.sizes)
    carried, learned = jax.tree.map(
        lambda leaf: leaf.astype(logits.dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, (carried, learned)
    )
    trajectories = every_trajectory(environment, table, top_tokens=objective.top_tokens)
    outcomes = environment.verify(trajectories)
    if not has_rewards:
        outcomes = dataclasses.replace(outcomes, rewards=jnp.full_like(outcomes.rewards, jnp.nan))
    possible, probs = rewards.possible(trajectories, outcomes)
    if not has_rewards and not isinstance(possible, Tracer) and np.isnan(possible).any():
        raise ValueError(NO_REWARDS)
    # A trajectory that may get one of N rewards is N trajectories with one reward each.
    times = possible.shape[-1]
    trajectories = jax.tree.map(
        lambda leaf: jnp.repeat(leaf, times, axis=1), dataclasses.replace(trajectories, prompts=None)
    )
    outcomes = jax.tree.map(lambda leaf: jnp.repeat(leaf, times, axis=1), outcomes)
    log_noise = jnp.log(probs.astype(logits.dtype)).ravel()
    return _Setting(
        parameters={"logits": table},
        objective_state=carried,
        objective_parameters=learned,
        reference={"logits": jnp.zeros_like(table) if reference is None else reference.reshape(table_shape)},
        trajectories=dataclasses.replace(trajectories, prompts=environment.prompts(jnp.array([0]))),
        outcomes=dataclasses.replace(outcomes, rewards=possible.astype(logits.dtype).reshape(1, -1)),
        log_probs=trajectories.behaviour_log_probs[0].sum(axis=-1) + log_noise,
        log_noise=log_noise,
        environment=environment,
        has_off_policy=off_policy is not None,
    )


def _same_shapes(one: Any, other: Any) -> bool:
    """Whether two trees have the same structure, with arrays of the same shapes."""
    structures = {(jax.tree.structure(tree), *map(jnp.shape, jax.tree.leaves(tree))) for tree in (one, other)}
    return len(structures) == 1


def _log_distribution_of_best(setting: _Setting, off_policy: OffPolicyAnswers) -> Array:
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


@functools.partial(jax.jit, static_argnames="objective")
def _updates(objective: Objective, setting: _Setting, members: Array, keys: Array) -> Array:
    """`[N, S, V]`, the update of each group: `members` `[N, G]` are the trajectories it holds.

    Args:
      keys: `[N, D]`; averages over D keys and, for objectives that use them, over all rotations of the group.
    """
    # An off-policy answer stays first.
    rotations = members.shape[1] if "keys" in objective.needs and not setting.has_off_policy else 1

    def of_group(group, key):
        trajectories, outcomes = jax.tree.map(
            lambda leaf: leaf[:, group], (dataclasses.replace(setting.trajectories, prompts=None), setting.outcomes)
        )
        off_policy = jnp.zeros((1, len(group)), bool).at[:, 0].set(True) if setting.has_off_policy else None
        trajectories = dataclasses.replace(trajectories, prompts=setting.trajectories.prompts, off_policy=off_policy)
        rollouts = rollouts_of(
            setting.parameters, setting.reference, None, trajectories, outcomes, key, policy=setting.policy,
            objective=objective, temperature=1.0,
        )  # fmt: skip
        weights, _, _ = objective.weigh(rollouts, setting.objective_state)
        both = setting.parameters, setting.objective_parameters

        def of_step(weights):
            batch = trajectories, rollouts, weights
            (of_policy, _), _, _ = gradient(
                both, None, batch, policy=setting.policy, objective=objective, temperature=1.0
            )
            return -of_policy["logits"]

        return sum(map(of_step, objective.weights_of_steps(weights, rollouts)))

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
