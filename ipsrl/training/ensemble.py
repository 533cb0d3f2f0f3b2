"""Thousands of runs as one compiled program, for environments whose rewards are computed under jit.

The loop for statistics: no logs, no checkpoints, nothing on the host. `ipsrl.training.loop` is the loop for everything
else; with the same seed both give the same run.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.distributed.runs import over_runs
from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.training.batches.off_policy_answers import OffPolicyAnswers
from ipsrl.training.device_step import device_step
from ipsrl.training.optimizer import at_rate
from ipsrl.training.randomness import stream
from ipsrl.training.step import WHOLE_BATCH, Batching, TrainState, check_objective


@functools.partial(
    jax.jit,
    static_argnames=(
        "environment", "policy", "objective", "optimizer", "steps", "prompts_per_step", "group_size", "record",
        "record_every", "batching", "temperature", "off_policy", "block",
    ),
)  # fmt: skip
def train_ensemble(
    environment: Environment,
    policy: Policy,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    seeds: Array,
    steps: int,
    prompts_per_step: int,
    group_size: int,
    record: Callable[[Parameters], Any],
    record_every: int = 1,
    batching: Batching = WHOLE_BATCH,
    temperature: float = 1.0,
    off_policy: OffPolicyAnswers | None = None,
    learning_rates: Array | None = None,
    initial_parameters: Parameters | None = None,
    rewards: Array | None = None,
    block: int | None = None,
) -> Any:
    """Trains one policy for each seed, all at once; the initial policy is the reference of a KL penalty.

    Under the mesh of `ipsrl.distributed.runs` the runs are distributed over its devices.

    Args:
      environment: its `verify` must be jittable.
      policy, objective, optimizer, prompts_per_step, group_size, batching, temperature, off_policy: as in the training
        loop.
      seeds: `[S]` int32.
      steps: batches of rollouts, a multiple of `record_every`.
      record: (parameters) -> what to record of them, a pytree of arrays.
      record_every: steps between records.
      learning_rates: `[S]` float32, for an optimiser whose own rate is 1, see `at_rate`; None for the optimiser's rate.
      initial_parameters: initial parameters of each run, leaves `[S, ...]`; `policy.init` by default.
      rewards: `[S, num_prompts, K]` float32, the reward of each outcome in each run; None for the environment's
        rewards.
      block: see `over_runs`.

    Returns:
      results of `record` before the first step and after every `record_every` steps, with two leading axes `[S, steps /
        record_every + 1]`.

    Raises:
      ValueError: the environment verifies on the host, `steps` is not a multiple of `record_every`, or the objective
        cannot be computed here.
    """
    if environment.verifies_on_host:
        raise ValueError(
            "this environment verifies on the host, so runs cannot be one program: use ipsrl.training.loop"
        )
    if steps % record_every:
        raise ValueError(f"steps is {steps}, it must be a multiple of record_every, {record_every}")
    check_objective(objective, environment, policy, group_size, off_policy)
    batching.check(prompts_per_step)

    def one_run(seed, learning_rate, parameters, rewards):
        if parameters is None:
            parameters = policy.init(stream(seed, 0, "parameters"))
        updater = optimizer if learning_rate is None else at_rate(optimizer, learning_rate)

        def one_step(state, _):
            state, _ = device_step(
                state, seed, parameters, environment=environment, policy=policy, objective=objective, optimizer=updater,
                prompts_per_step=prompts_per_step, group_size=group_size, batching=batching, temperature=temperature,
                off_policy=off_policy, rewards=rewards,
            )  # fmt: skip
            return state, None

        def one_interval(state, _):
            state, _ = jax.lax.scan(one_step, state, length=record_every)
            return state, record(state.parameters)

        state = TrainState.create(parameters, objective, updater, environment)
        _, later = jax.lax.scan(one_interval, state, length=steps // record_every)
        return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), record(parameters), later)

    return over_runs(one_run, block)(seeds, learning_rates, initial_parameters, rewards)
