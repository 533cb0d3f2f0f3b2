"""Thousands of runs as one compiled program, for environments whose verdict is arithmetic.

The loop for statistics: no logs, no checkpoints, nothing on the host. `ipsrl.training.loop` is the loop for everything
else; a run of both with the same seed is the same run.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.training.groups import choose_prompts, collect, sample_and_verify
from ipsrl.training.off_policy import OffPolicyAnswers, with_best_answer
from ipsrl.training.randomness import stream
from ipsrl.training.step import WHOLE_BATCH, Batching, TrainState, check_objective, update


@functools.partial(
    jax.jit,
    static_argnames=(
        "environment", "policy", "objective", "optimizer", "steps", "prompts_per_step", "group_size", "record",
        "record_every", "batching", "temperature", "off_policy",
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
) -> Any:
    """Trains one policy for each seed, all at once; the policy it starts from is the reference of a KL penalty.

    Args:
      environment: its `verify` must be jittable.
      policy, objective, optimizer, prompts_per_step, group_size, batching, temperature, off_policy: as in the training
        loop.
      seeds: `[S]` int32.
      steps: batches of rollouts, a multiple of `record_every`.
      record: what to keep of the parameters, a pytree of arrays.
      record_every: steps between records.

    Returns:
      what `record` returned before the first step and after every `record_every` steps, with two leading axes
      `[S, steps / record_every + 1]`.

    Raises:
      ValueError: the environment verifies on the host, the steps are no multiple of `record_every`, or the objective
        cannot be computed here.
    """
    if environment.verifies_on_host:
        raise ValueError("this environment verifies on the host, so its runs cannot be one program: use the loop")
    if steps % record_every:
        raise ValueError(f"steps is {steps}, it must be a multiple of record_every, {record_every}")
    check_objective(objective, environment, policy, group_size, off_policy)
    batching.check(prompts_per_step)

    def one_run(seed):
        def one_step(state, _):
            prompts = choose_prompts(environment, seed, state.step, prompts_per_step)
            groups = collect(
                environment, policy, state.parameters, prompts, seed, state.step, group_size, temperature,
                objective.top_tokens,
            )  # fmt: skip
            if off_policy is not None:
                further = sample_and_verify(
                    environment, policy, state.parameters if off_policy.source == "policy" else parameters, prompts,
                    stream(seed, state.step, "further answers 0"), off_policy.answers, temperature,
                    objective.top_tokens,
                )  # fmt: skip
                groups = with_best_answer(policy, state.parameters, *groups, *further, temperature, off_policy.at_most)
            state, _ = update(
                state, *groups, parameters, stream(seed, state.step, "objective"), policy=policy, objective=objective,
                optimizer=optimizer, batching=batching, temperature=temperature,
            )  # fmt: skip
            return state, None

        def one_interval(state, _):
            state, _ = jax.lax.scan(one_step, state, length=record_every)
            return state, record(state.parameters)

        parameters = policy.init(stream(seed, 0, "parameters"))
        state = TrainState.create(parameters, objective, optimizer, environment)
        _, later = jax.lax.scan(one_interval, state, length=steps // record_every)
        return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), record(parameters), later)

    return jax.vmap(one_run)(seeds)
