"""The update of a training step: how a policy learns from a batch of groups."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh

from ipsrl.checking.fields import Checked, at_least
from ipsrl.distributed.per_device import per_device, works_per_device
from ipsrl.distributed.placement import NO_PARAMETER, constrain, follow, placements
from ipsrl.environments.environment import Environment
from ipsrl.measures import diversity
from ipsrl.objectives.estimators.importance import LOG_RATIO_LIMIT, log_importance_ratio
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.structures import (
    Metrics,
    Outcomes,
    PolicyScores,
    Rollouts,
    Scalars,
    Trajectories,
    Weights,
    masked_sum,
    means,
)
from ipsrl.training.forward_passes import OF_EVERY_STEP, optional_fields, policy_scores, random_fields
from ipsrl.training.micro_batches import join, split, totals
from ipsrl.training.sparse_adam import sparse_adam


class Learned(NamedTuple):
    """The part of `TrainState` that an optimiser step changes."""

    parameters: Parameters
    optimizer_state: Any
    objective_parameters: Any
    objective_optimizer_state: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything a run carries from step to step.

    Attributes:
      step: `[]` int32, number of batches of rollouts used so far.
      parameters: trained parameters of the policy.
      optimizer_state: the state of optax's optimiser.
      objective_state: state of the objective's parts, see `Objective.init`.
      objective_parameters: parameters learned by the objective itself, see `Objective.init_parameters`.
      objective_optimizer_state: the state of `sparse_adam`, which moves them.
      seed: `[]` int32, of the run.
      learning_rate: `[]` float32, of this run among others of one program; None for the rate of the settings.
      reference: parameters of the reference policy; None if the run needs none.
      source: the state of the source of groups, see `Source.init`.
      given: `[2]` uint32, checksums of the reward and of stored groups, with which alone a run can be continued; None
        among other runs of one program.
    """

    step: Array
    parameters: Parameters
    optimizer_state: Any
    objective_state: Any
    objective_parameters: Any
    objective_optimizer_state: Any
    seed: Array | None = None
    learning_rate: Array | None = None
    reference: Parameters | None = None
    source: Any = None
    given: Array | None = None

    @classmethod
    def create(
        cls,
        parameters: Parameters,
        objective: Objective,
        optimizer: optax.GradientTransformation,
        environment: Environment,
    ) -> "TrainState":
        """The state before the first step."""
        objective_parameters = objective.init_parameters(environment.sizes)
        return cls(
            step=jnp.int32(0),
            parameters=parameters,
            optimizer_state=optimizer.init(parameters),
            objective_state=objective.init(environment.sizes),
            objective_parameters=objective_parameters,
            objective_optimizer_state=_objective_optimizer(objective).init(objective_parameters),
        )

    @property
    def learned(self) -> Learned:
        """The part that an optimiser step changes."""
        return Learned(self.parameters, self.optimizer_state, self.objective_parameters, self.objective_optimizer_state)


@dataclasses.dataclass(frozen=True)
class Batching(Checked):
    """The split of a batch of rollouts into optimiser steps.

    Attributes:
      epochs: passes over each batch of rollouts.
      mini_batches: optimiser steps in a pass; each takes an equal share of the prompts, with whole groups.
      micro_batches: parts of a mini-batch whose gradients are summed before the optimiser step, to save memory. Sums
        and counts are exact, so their number changes nothing but rounding.
    """

    epochs: int = at_least(1, 1)
    mini_batches: int = at_least(1, 1)
    micro_batches: int = at_least(1, 1)

    @property
    def total_micro_batches(self) -> int:
        """Number of parts into which a batch of rollouts is split."""
        return self.mini_batches * self.micro_batches

    def check(self, prompts_per_step: int) -> None:
        """Raises ValueError if the prompts cannot be split evenly."""
        if prompts_per_step % self.total_micro_batches:
            raise ValueError(
                f"{prompts_per_step} prompts cannot be split into {self.mini_batches} mini-batches of "
                f"{self.micro_batches} micro-batches: choose numbers that divide the prompts per step"
            )


WHOLE_BATCH = Batching()


def check_objective(objective: Objective, environment: Environment, group_size: int, of_groups: frozenset[str]) -> None:
    """Raises ValueError if environment, policy, source and training step do not provide what the objective needs.

    Args:
      of_groups: the optional fields of `Rollouts` that the groups can have, see `Source.optional_fields`.
    """
    objective.check(of_groups | OF_EVERY_STEP, group_size, environment.sizes)


def state_placements(
    state: TrainState, policy: Policy, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """The placement of every leaf of a state: parameters and their optimiser state follow the policy's placement rules;
    all other leaves are replicated.
    """
    rules = policy.placement_rules
    parameters = placements(rules, state.parameters, mesh)
    return dataclasses.replace(
        jax.tree.map(lambda _: NO_PARAMETER, state),
        parameters=parameters,
        optimizer_state=follow(optimizer, parameters, state.optimizer_state),
        reference=placements(rules, state.reference, mesh),
    )


def update(
    state: TrainState,
    trajectories: Trajectories,
    outcomes: Outcomes,
    key: Array,
    frozen: Parameters | None = None,
    *,
    policy: Policy,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    batching: Batching,
    temperature: float,
) -> tuple[TrainState, Scalars]:
    """Runs all optimiser steps of one batch of rollouts.

    Args:
      state: its parameters are those that sampled the trajectories.
      key: for objectives that sample at random.
      frozen: parameters that the policy reads beside those of the state and of the reference; None for none.
      policy, objective, optimizer, batching, temperature: static under jit, see `compiled_update`.

    Returns:
      the new state, and metrics as scalars.
    """
    scored: dict[str, Any] = {"policy": policy, "objective": objective, "temperature": temperature}
    read, number = (state.parameters, state.reference, frozen), batching.total_micro_batches
    rollouts = rollouts_of(*read, trajectories, outcomes, key, micro_batches=number, **scored)
    weights, objective_state, metrics = objective.weigh(rollouts, state.objective_state)

    def steps_of_mini_batch(learned, mini_batch):
        trajectories, rollouts, weights = mini_batch
        found = []
        for of_step in objective.weights_of_steps(weights, rollouts):
            parameters, batch = (learned.parameters, learned.objective_parameters), (trajectories, rollouts, of_step)
            gradients, *measured = gradient(parameters, frozen, batch, micro_batches=batching.micro_batches, **scored)
            learned = apply(learned, gradients, policy, objective, optimizer)
            found.append(measured)
        return learned, jax.tree.map(lambda *measured: jnp.stack(measured), *found)

    def epoch(learned, _):
        return jax.lax.scan(steps_of_mini_batch, learned, mini_batches)

    mini_batches = split((trajectories, rollouts, weights), batching.mini_batches)
    learned, (step_metrics, differences) = jax.lax.scan(epoch, state.learned, length=batching.epochs)

    metrics = metrics | group_metrics(rollouts) | jax.tree.map(jnp.sum, step_metrics)
    scalars = means(metrics)
    # Both are the same policy before the first optimiser step: any difference is an error of sampler or scorer.
    scalars["sampler_scorer_difference"] = differences[0, 0, 0]
    scalars["parameter_norm"] = optax.tree.norm(learned.parameters)
    after = dataclasses.replace(state, step=state.step + 1, objective_state=objective_state, **learned._asdict())
    return after, scalars


def rollouts_of(
    parameters: Parameters,
    reference: Parameters | None,
    frozen: Parameters | None,
    trajectories: Trajectories,
    outcomes: Outcomes,
    key: Array,
    *,
    policy: Policy,
    objective: Objective,
    temperature: float,
    micro_batches: int = 1,
) -> Rollouts:
    """Groups with all that the objective needs; what takes a forward pass is computed for one micro-batch at a time.

    Args:
      parameters: of the policy before the first optimiser step on the batch.
      reference: of the reference policy; None if the objective needs none.
      frozen: as in `update`.
    """

    def of_all(shared, micro_batches):
        def of_micro_batch(micro_batch):
            return optional_fields(objective.needs, policy, *shared, micro_batch, temperature)

        return jax.lax.map(of_micro_batch, micro_batches)

    prompts_each = len(outcomes.rewards) // micro_batches
    passes = per_device(of_all, prompts_each, in_axes=(None, 1), out_axes=1)
    optional = join(passes((parameters, reference, frozen), split(trajectories, micro_batches)))
    return Rollouts.of(trajectories, outcomes, **optional, **random_fields(objective.needs, key, len(outcomes.rewards)))


def gradient(
    parameters: tuple[Parameters, Any],
    frozen: Parameters | None,
    batch: tuple[Trajectories, Rollouts, Weights],
    *,
    policy: Policy,
    objective: Objective,
    temperature: float,
    micro_batches: int = 1,
) -> tuple[tuple[Parameters, Any], Metrics, Array]:
    """The gradient of an objective's loss on a mini-batch, its loss divided by its count.

    Args:
      parameters: of the policy, and of the objective (`Objective.init_parameters`).
      frozen: as in `update`.
      batch: a mini-batch; the weights are its prompts' rows of those that `Objective.weigh` found for the whole batch.

    Returns:
      the gradients by both, metrics as `(sum, count)` pairs, and the largest |log ratio| of scorer and sampler.
    """
    placed = placements(policy.placement_rules, parameters[0], jax.sharding.get_abstract_mesh())
    score = functools.partial(policy_scores, objective.surrogate.needs, policy, temperature=temperature)
    loss = functools.partial(_loss, score, objective)

    def statistics(shared, micro_batch):
        trajectories, rollouts, weights = micro_batch
        return objective.statistics(score(*shared, trajectories), rollouts, weights), ()

    def gradient_and_sums(shared, micro_batch):
        both_parameters, frozen, sums = shared
        (of_policy, of_objective), (loss_and_count, metrics, difference) = jax.grad(loss, has_aux=True)(
            both_parameters, frozen, micro_batch, sums
        )
        # Each device then receives only its share of the sum over devices.
        return (constrain(of_policy, placed), of_objective, loss_and_count, metrics), difference

    parts = split(batch, micro_batches)
    # The loss computes the statistics itself, from the same forward pass, where it sees the whole mini-batch: neither
    # with several micro-batches, nor where each device sees its own prompts alone. An objective without statistics sums
    # nothing here, and the compiler drops its forward passes.
    sums = None
    if micro_batches > 1 or works_per_device(len(batch[1].rewards) // micro_batches):
        sums, _ = totals(statistics, (parameters[0], frozen), parts)
    (of_policy, of_objective, (loss_sum, count), metrics), difference = totals(
        gradient_and_sums, (parameters, frozen, sums), parts
    )
    # Where each device has run its own program, the gradient has not been sharded before.
    of_policy = constrain(of_policy, placed)
    # Without a token of the policy there is nothing to learn.
    divisor = jnp.where(count == 0, 1.0, count)
    of_policy, of_objective = jax.tree.map(lambda leaf: leaf / divisor, (of_policy, of_objective))
    metrics |= {"loss": (loss_sum, count), "gradient_norm": (optax.tree.norm(of_policy), jnp.float32(1))}
    return (of_policy, of_objective), metrics, difference


def _loss(score, objective, both_parameters, frozen, micro_batch, statistics):
    """The loss of a micro-batch, and `(loss and count, metrics, largest |log ratio|)`."""
    parameters, objective_parameters = both_parameters
    trajectories, rollouts, weights = micro_batch
    scores = score(parameters, frozen, trajectories)
    output = objective.loss(scores, rollouts, weights, objective_parameters, statistics)
    log_ratio = log_importance_ratio(scores, rollouts)
    metrics = output.metrics | token_metrics(scores, log_ratio, rollouts)
    return output.loss_sum, ((output.loss_sum, output.count), metrics, jnp.abs(log_ratio).max())


def apply(
    learned: Learned,
    gradients: tuple[Parameters, Any],
    policy: Policy,
    objective: Objective,
    optimizer: optax.GradientTransformation,
) -> Learned:
    """One step of both optimisers, with the gradients by the parameters of the policy and of the objective."""
    placed = placements(policy.placement_rules, learned.parameters, jax.sharding.get_abstract_mesh())
    updates, optimizer_state = optimizer.update(gradients[0], learned.optimizer_state, learned.parameters)
    objective_updates, objective_optimizer_state = _objective_optimizer(objective).update(
        gradients[1], learned.objective_optimizer_state
    )
    return Learned(
        constrain(optax.apply_updates(learned.parameters, updates), placed),
        constrain(optimizer_state, follow(optimizer, placed, learned.optimizer_state)),
        optax.apply_updates(learned.objective_parameters, objective_updates),
        objective_optimizer_state,
    )


compiled_update = jax.jit(
    update,
    static_argnames=("policy", "objective", "optimizer", "batching", "temperature"),
    donate_argnames="state",
)


def token_metrics(scores: PolicyScores, log_ratio: Array, rollouts: Rollouts) -> Metrics:
    """Entropy of the policy, and its divergence from the behaviour policy, as `(sum, count)` pairs over tokens."""
    tokens = rollouts.token_mask.sum(dtype=jnp.float32)
    # The k3 estimator: non-negative at every token, and an unbiased estimate of KL(behaviour || policy).
    moved = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return {
        "token_entropy": (masked_sum(scores.entropy, rollouts.token_mask), tokens),
        "behaviour_kl": ((jnp.expm1(moved) - moved).sum(), tokens),
    }


def group_metrics(rollouts: Rollouts) -> Metrics:
    """Metrics of a batch of groups, as `(sum, count)` pairs over samples or over groups.

    Only outcomes of right answers count: many different mistakes are not diversity. `effective_outcomes`, without
    `group_`, are those of the policy, at an evaluation: in a group there are at most as many as answers. Empty places
    of replayed answers are no samples.
    """
    empty = jnp.zeros(rollouts.rewards.shape, bool)
    if rollouts.off_policy is not None:
        empty = rollouts.off_policy & ~rollouts.answered
    samples = (~empty).sum(dtype=jnp.float32)
    groups = jnp.float32(rollouts.rewards.shape[0])
    right = jnp.where(rollouts.right, rollouts.outcome_id, -1)
    return {
        "reward": (rollouts.rewards.sum(), samples),
        "unparsed": (((rollouts.outcome_id < 0) & ~empty).sum(dtype=jnp.float32), samples),
        "truncated": (rollouts.truncated.sum(dtype=jnp.float32), samples),
        "length": (rollouts.token_mask.sum(dtype=jnp.float32), samples),
        "group_distinct_outcomes": (diversity.distinct_outcomes(right).sum(dtype=jnp.float32), groups),
        "group_effective_outcomes": (diversity.effective_outcomes(right).sum(), groups),
        "group_largest_outcome_share": (diversity.largest_outcome_share(right).sum(), groups),
    }


def _objective_optimizer(objective: Objective) -> optax.GradientTransformation:
    return sparse_adam(objective.surrogate.learning_rate)
