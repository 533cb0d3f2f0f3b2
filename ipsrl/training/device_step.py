"""One training step that can be jitted as a whole, to be vmapped over runs."""

import dataclasses

import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.training.batches.groups import Groups, choose_prompts, collect, sample_and_verify
from ipsrl.training.batches.off_policy_answers import OffPolicyAnswers, with_best_answer
from ipsrl.training.randomness import stream
from ipsrl.training.step import Batching, TrainState, update


def device_step(
    state: TrainState,
    seed: Array,
    reference: Parameters | None,
    *,
    environment: Environment,
    policy: Policy,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    prompts_per_step: int,
    group_size: int,
    batching: Batching,
    temperature: float,
    off_policy: OffPolicyAnswers | None = None,
    rewards: Array | None = None,
) -> tuple[TrainState, dict[str, Array]]:
    """Chooses prompts, samples and verifies their groups, and updates the policy: one step of the training loop.

    Args:
      state, reference: see `update`; the reference policy may also sample the answers of `off_policy`.
      seed: of the run.
      environment: its `verify` must be jittable.
      policy, objective, optimizer, prompts_per_step, group_size, batching, temperature, off_policy: as in the loop.
      rewards: `[num_prompts, K]` float32, the reward of each outcome of each prompt, instead of the environment's.

    Returns:
      the new state, and metrics as scalars.
    """
    prompts = choose_prompts(environment, seed, state.step, prompts_per_step)
    groups = collect(
        environment, policy, state.parameters, prompts, seed, state.step, group_size, temperature, objective.top_tokens
    )
    groups = _rewarded(groups, rewards)
    if off_policy is not None:
        refined = sample_and_verify(
            environment, policy, state.parameters if off_policy.source == "policy" else reference, prompts,
            stream(seed, state.step, "refinements 0"), off_policy.answers, temperature, objective.top_tokens,
        )  # fmt: skip
        refined = _rewarded(refined, rewards)
        groups = with_best_answer(policy, state.parameters, *groups, *refined, temperature, off_policy.at_most)
    return update(
        state, *groups, reference, stream(seed, state.step, "objective"), policy=policy, objective=objective,
        optimizer=optimizer, batching=batching, temperature=temperature,
    )  # fmt: skip


def _rewarded(groups: Groups, rewards: Array | None) -> Groups:
    """Replaces rewards by those of the outcomes, 0 for samples without an outcome; unchanged if `rewards` is None."""
    if rewards is None:
        return groups
    trajectories, outcomes = groups
    of_outcomes = rewards[trajectories.prompts.index[:, None], outcomes.outcome_id]
    return trajectories, dataclasses.replace(outcomes, rewards=jnp.where(outcomes.outcome_id >= 0, of_outcomes, 0.0))
