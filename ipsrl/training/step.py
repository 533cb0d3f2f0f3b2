"""One training step: sample groups, let the environment judge them, update the policy."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.measures import diversity
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Prompts, Rollouts, Trajectories, Verdict, masked_sum
from ipsrl.training.randomness import stream


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """All that a run carries from step to step, and all that a checkpoint holds.

    Attributes:
      step: `[]` int32, batches of rollouts used so far.
      parameters: of the policy.
      optimizer_state: of optax.
      objective_state: what the objective's parts carry, see `Objective.init`.
    """

    step: Array
    parameters: Parameters
    optimizer_state: Any
    objective_state: Any

    @classmethod
    def create(
        cls,
        parameters: Parameters,
        objective: Objective,
        optimizer: optax.GradientTransformation,
        environment: Environment,
    ) -> "TrainState":
        """The state before the first step."""
        return cls(
            step=jnp.int32(0),
            parameters=parameters,
            optimizer_state=optimizer.init(parameters),
            objective_state=objective.init(environment.num_prompts),
        )


@dataclasses.dataclass(frozen=True)
class Batching:
    """How a batch of rollouts becomes optimiser steps.

    Attributes:
      epochs: passes over each batch of rollouts.
      mini_batches: optimiser steps in a pass; each takes its share of the prompts, whole groups always.
      micro_batches: pieces of a mini-batch whose gradients are summed before the optimiser moves, to save memory.
        Sums and counts are exact, so the number of pieces changes nothing but rounding.
    """

    epochs: int = 1
    mini_batches: int = 1
    micro_batches: int = 1

    def __post_init__(self):
        for name, value in dataclasses.asdict(self).items():
            if value < 1:
                raise ValueError(f"{name} is {value}, it must be at least 1")

    @property
    def pieces(self) -> int:
        """Parts into which a batch of rollouts is split."""
        return self.mini_batches * self.micro_batches

    def check(self, prompts_per_step: int) -> None:
        """Raises ValueError where the prompts cannot be split evenly."""
        if prompts_per_step % self.pieces:
            raise ValueError(
                f"{prompts_per_step} prompts cannot be split into {self.mini_batches} mini-batches of "
                f"{self.micro_batches} micro-batches: choose numbers that divide the prompts per step"
            )


WHOLE_BATCH = Batching()


@functools.partial(jax.jit, static_argnames=("environment", "prompts_per_step"))
def choose_prompts(environment: Environment, seed: Array, step: Array, prompts_per_step: int) -> Prompts:
    """The prompts of a step, drawn without replacement; where there are too few, each comes about equally often."""
    repeats = -(-prompts_per_step // environment.num_prompts)
    shuffled = jax.random.permutation(stream(seed, step, "prompts"), environment.num_prompts)
    return environment.prompts(jnp.tile(shuffled, repeats)[:prompts_per_step])


def collect(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    seed: Array,
    step: Array,
    group_size: int,
    temperature: float,
) -> tuple[Trajectories, Verdict]:
    """Samples the groups of a step and has them judged, on the device or on the host as the environment says."""
    key = stream(seed, step, "sampling")
    trajectories = sample_groups(environment, policy, parameters, prompts, key, group_size, temperature)
    if environment.verifies_on_host:
        return trajectories, environment.verify(jax.device_get(trajectories))
    return trajectories, _verify_on_device(environment, trajectories)


@functools.partial(jax.jit, static_argnames="environment")
def _verify_on_device(environment: Environment, trajectories: Trajectories) -> Verdict:
    return environment.verify(trajectories)


def update(
    state: TrainState,
    trajectories: Trajectories,
    verdict: Verdict,
    reference: Parameters | None,
    *,
    policy: Policy,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    batching: Batching,
    temperature: float,
) -> tuple[TrainState, dict[str, Array]]:
    """Moves the policy by all optimiser steps of one batch of rollouts.

    Args:
      state: before; its parameters are those that sampled the trajectories.
      reference: parameters of the frozen reference policy, None where the objective needs none.
      policy, objective, optimizer, batching, temperature: static under jit, see `compiled_update`.

    Returns:
      the state after, and metrics as scalars.
    """
    optional = _optional_fields(state.parameters, trajectories, reference, policy, objective, batching, temperature)
    rollouts = Rollouts.of(trajectories, verdict, **optional)
    advantages, objective_state, metrics = objective.weigh(rollouts, state.objective_state)

    def loss(parameters, batch):
        trajectories, rollouts, advantages = batch
        scores = policy.score(parameters, trajectories, temperature)
        output = objective.loss(scores, rollouts, advantages)
        mask = rollouts.token_mask
        difference = jnp.where(mask, jnp.abs(scores.log_probs - rollouts.behaviour_log_probs), 0.0).max()
        entropy = {"token_entropy": (masked_sum(scores.entropy, mask), mask.sum(dtype=jnp.float32))}
        return output.loss_sum, ((output.loss_sum, output.count), output.metrics | entropy, difference)

    def optimizer_step(carry, mini_batch):
        parameters, optimizer_state = carry

        def accumulate(totals, micro_batch):
            gradient, (loss_and_count, metrics, difference) = jax.grad(loss, has_aux=True)(parameters, micro_batch)
            return jax.tree.map(jnp.add, totals, (gradient, loss_and_count, metrics)), difference

        pieces = _split(mini_batch, batching.micro_batches)
        shapes = jax.eval_shape(jax.grad(loss, has_aux=True), parameters, jax.tree.map(lambda leaf: leaf[0], pieces))
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (shapes[0], *shapes[1][:2]))
        (gradient, (loss_sum, count), metrics), differences = jax.lax.scan(accumulate, zeros, pieces)

        gradient = jax.tree.map(lambda leaf: leaf / count, gradient)
        metrics = metrics | {"loss": (loss_sum, count), "gradient_norm": (optax.tree.norm(gradient), jnp.float32(1))}
        updates, optimizer_state = optimizer.update(gradient, optimizer_state, parameters)
        return (optax.apply_updates(parameters, updates), optimizer_state), (metrics, differences.max())

    def epoch(carry, _):
        return jax.lax.scan(optimizer_step, carry, mini_batches)

    mini_batches = _split((trajectories, rollouts, advantages), batching.mini_batches)
    carry = (state.parameters, state.optimizer_state)
    carry, (step_metrics, differences) = jax.lax.scan(epoch, carry, length=batching.epochs)

    metrics = metrics | group_metrics(rollouts) | jax.tree.map(jnp.sum, step_metrics)
    scalars = {name: total / jnp.maximum(count, 1.0) for name, (total, count) in metrics.items()}
    # Before the first optimiser step both are the same policy: any difference is the sampler's or the scorer's fault.
    scalars["sampler_scorer_difference"] = differences[0, 0]
    parameters, optimizer_state = carry
    scalars["parameter_norm"] = optax.tree.norm(parameters)
    return TrainState(state.step + 1, parameters, optimizer_state, objective_state), scalars


compiled_update = jax.jit(
    update,
    static_argnames=("policy", "objective", "optimizer", "batching", "temperature"),
    donate_argnames="state",
)


def group_metrics(rollouts: Rollouts) -> dict[str, tuple[Array, Array]]:
    """What a batch of groups looks like, as `(sum, count)` pairs over samples or over groups.

    Outcomes count where they were rewarded: a policy that makes many different mistakes is not diverse.
    """
    samples = jnp.float32(rollouts.rewards.size)
    groups = jnp.float32(rollouts.rewards.shape[0])
    rewarded = jnp.where(rollouts.rewards > 0, rollouts.outcome_id, -1)
    return {
        "reward": (rollouts.rewards.sum(), samples),
        "unparsed": ((rollouts.outcome_id < 0).sum(dtype=jnp.float32), samples),
        "truncated": (rollouts.truncated.sum(dtype=jnp.float32), samples),
        "length": (rollouts.token_mask.sum(dtype=jnp.float32), samples),
        "distinct_outcomes": (diversity.distinct_outcomes(rewarded).sum(dtype=jnp.float32), groups),
        "effective_outcomes": (diversity.effective_outcomes(rewarded).sum(), groups),
        "largest_outcome_share": (diversity.largest_outcome_share(rewarded).sum(), groups),
    }


def _optional_fields(parameters, trajectories, reference, policy, objective, batching, temperature) -> dict[str, Array]:
    """The fields of `Rollouts` that take a pass of the policy, one micro-batch at a time."""

    def fields(piece):
        found = {}
        if "prompt_log_probs" in objective.needs:
            log_probs, mask = policy.prompt_log_probs(parameters, piece.prompts, temperature)
            found |= {"prompt_log_probs": log_probs, "prompt_mask": mask}
        if "reference_log_probs" in objective.needs:
            found["reference_log_probs"] = policy.score(reference, piece, temperature).log_probs
        return found

    return _join(jax.lax.map(fields, _split(trajectories, batching.pieces)))


def _split(tree, pieces: int):
    """Leaves `[P, ...]` -> `[pieces, P / pieces, ...]`.

    Prompts are dealt like cards, so that each device of a mesh that shards the prompts has its share of every piece.
    """

    def deal(leaf):
        return jnp.moveaxis(leaf.reshape(leaf.shape[0] // pieces, pieces, *leaf.shape[1:]), 1, 0)

    return jax.tree.map(deal, tree)


def _join(tree):
    """Undoes `_split`."""
    return jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), tree
    )
