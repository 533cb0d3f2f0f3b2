"""The setting of an update: every trajectory of one prompt, with its probability and its reward."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ipsrl.checking.arguments import shown
from ipsrl.checking.fields import Range
from ipsrl.dynamics.trajectories import every_trajectory, every_walk
from ipsrl.environments.environment import dictates
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.state_graph import StateGraph
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import ALLOWED, Reward, RewardTable
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Sampled
from ipsrl.structures import Outcomes, Sizes, Trajectories
from ipsrl.training.step import check_objective

NO_REWARDS = (
    "the reward reads those of the environment, and there are none: give it verifier=RewardTable(...), or give an "
    "environment"
)
FINITE = Range("hold finite numbers", np.isfinite)
# An outcome of logit -inf is impossible.
POSSIBLE = Range(FINITE.phrase, lambda logits: (logits < np.inf) & (logits.max(-1, keepdims=True) > -np.inf))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Setting:
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
        return Tabular.of(self.environment)

    @classmethod
    def of(
        cls,
        objective: Objective,
        logits: Array,
        rewards: Array | Reward,
        group_size: int,
        environment: StateGraph | None,
        reference: Array | None,
        objective_state: Any,
        off_policy: OffPolicyAnswers | None,
        check_walks: Callable[[int], None] | None = None,
    ) -> Self:
        """The setting that arguments of `expected_update` describe.

        `check_walks` may refuse their number before any trajectory is computed.

        Raises:
          ValueError: one of them is wrong, or they do not fit together: the state is not one of this objective, the
            rewards read what the environment lacks, or they replace those of an environment with several, which the
            objective reads.
        """
        logits = _as_floats("logits", logits, POSSIBLE)
        reference = jnp.zeros_like(logits) if reference is None else _as_floats("reference", reference)
        if not isinstance(rewards, Reward):
            rewards = _as_floats("rewards", rewards, ALLOWED)
        # A bandit made for `rewards` has none that could be read.
        has_own_rewards = environment is not None
        if environment is None:
            environment = Bandit((0.0,) * (logits if isinstance(rewards, Reward) else rewards).shape[-1])
        if dictates(environment):
            raise ValueError("the walks of an environment that dictates tokens cannot be enumerated: train on samples")
        if environment.num_prompts != 1:
            raise ValueError(
                f"environment has {environment.num_prompts} prompts, but the mean is over one prompt's groups"
            )
        if isinstance(rewards, Reward):
            rewards.check(environment.sizes)
            if not has_own_rewards and rewards.reads_environment:
                raise ValueError(NO_REWARDS)
        else:
            _check_shape("rewards", rewards, (environment.num_outcomes,))
            rewards = RewardTable(rewards[None])
        table_shape = (environment.num_observations, environment.vocabulary_size)
        for name, table in (("logits", logits), ("reference", reference)):
            _check_shape(name, table, table_shape[1:] if isinstance(environment, Bandit) else table_shape)
        if off_policy is not None and off_policy.at_most is not None:
            raise ValueError("off_policy must put an answer into every group here: leave at_most out")
        check_computable(objective, environment, Tabular(*table_shape), group_size, off_policy)
        carried, learned = _states(objective, objective_state, environment.sizes, logits.dtype)
        logits, reference = logits.reshape(table_shape), reference.reshape(table_shape)
        if check_walks is not None:
            check_walks(len(every_walk(environment)[0]))
        trajectories = every_trajectory(environment, logits, top_tokens=objective.top_tokens)
        outcomes = environment.verify(trajectories)
        if not has_own_rewards:
            outcomes = dataclasses.replace(outcomes, rewards=jnp.full_like(outcomes.rewards, jnp.nan))
        possible, probs = rewards.possible(trajectories, outcomes)
        if not has_own_rewards and not isinstance(possible, Tracer) and np.isnan(possible).any():
            raise ValueError(NO_REWARDS)
        if "reward_parts" in objective.needs and not _are_same(possible, outcomes.rewards[..., None]):
            raise ValueError(
                "the objective reads several rewards of each answer, which the environment gives, so the rewards must "
                "be the environment's own: give environment.outcome_space(0).rewards"
            )
        right_above = rewards.right_above(outcomes)
        # A trajectory that may get one of N rewards is N trajectories with one reward each.
        times = possible.shape[-1]
        trajectories, outcomes = jax.tree.map(
            lambda leaf: jnp.repeat(leaf, times, axis=1), (dataclasses.replace(trajectories, prompts=None), outcomes)
        )
        given, log_noise = possible.astype(logits.dtype).reshape(1, -1), jnp.log(probs.astype(logits.dtype)).ravel()
        return cls(
            parameters={"logits": logits},
            reference={"logits": reference},
            objective_state=carried,
            objective_parameters=learned,
            trajectories=dataclasses.replace(trajectories, prompts=environment.prompts(jnp.array([0]))),
            outcomes=dataclasses.replace(outcomes, rewards=given, right_above=right_above),
            log_probs=trajectories.behaviour_log_probs[0].sum(axis=-1) + log_noise,
            log_noise=log_noise,
            environment=environment,
            has_off_policy=off_policy is not None,
        )


def _states(objective: Objective, given: Any, sizes: Sizes, dtype: Any) -> tuple[Any, Any]:
    """The state of an objective, `given` or that before the first batch, and its own initial parameters."""
    carried = objective.init(sizes)
    if given is not None:
        if not _same_shapes(given, carried):
            raise ValueError("objective_state is not one of this objective: give what its `weigh` returned, or none")
        carried = given
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf,
        (carried, objective.init_parameters(sizes)),
    )


def check_computable(
    objective: Objective, environment: StateGraph, policy: Tabular, group_size: int, off_policy: OffPolicyAnswers | None
) -> None:
    """Raises ValueError if groups that a table samples, with off-policy answers or without, lack what is needed."""
    fields = Sampled(environment, policy, 1, group_size, top_tokens=objective.top_tokens).optional_fields
    check_objective(objective, environment, group_size, fields if off_policy is None else off_policy.provides(fields))


def _as_floats(name: str, table: Array, allowed: Range = FINITE) -> Array:
    """A table with 32 bits or more in a number; raises ValueError if known numbers are outside of their range."""
    table = jnp.asarray(table)
    if table.ndim == 0 or not (jnp.issubdtype(table.dtype, jnp.floating) or jnp.issubdtype(table.dtype, jnp.integer)):
        raise ValueError(f"{name} has the shape {table.shape} and the type {table.dtype}, it must be a table of floats")
    if table.size == 0 or not (isinstance(table, Tracer) or np.all(allowed.holds(np.asarray(table, np.float64)))):
        raise ValueError(f"{name} is {shown(np.asarray(table).tolist())}, it must {allowed.phrase}")
    return table.astype(jnp.promote_types(table.dtype, jnp.float32))


def _check_shape(name: str, table: Array, right: tuple[int, ...]) -> None:
    if table.shape != right:
        raise ValueError(f"{name} has shape {table.shape}, expected {right}")


def _are_same(one: Array, other: Array) -> bool:
    """Whether two arrays have the same numbers, up to 32 bits, as far as they are known."""
    is_known = not isinstance(one, Tracer) and not isinstance(other, Tracer)
    return not is_known or np.array_equal(np.float32(one), np.float32(other))


def _same_shapes(one: Any, other: Any) -> bool:
    """Whether two trees have the same structure, with arrays of the same shapes."""
    structures = {(jax.tree.structure(tree), *map(jnp.shape, jax.tree.leaves(tree))) for tree in (one, other)}
    return len(structures) == 1
