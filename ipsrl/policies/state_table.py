"""A policy evaluated at every state, for exact distributions of outcomes."""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.environments.state_graph import StateGraph
from ipsrl.policies.policy import Parameters, Policy, distribution


def log_probs_table(policy: Policy, parameters: Parameters, environment: StateGraph) -> Array:
    """`[S, V]` float32, log-probability of every action in every state at temperature 1, -inf if illegal.

    Differentiable in `parameters`; `environment.terminal_distribution` turns it into the distribution of outcomes. Only
    for policies that read nothing but the current observation: every state is presented as the first observation.
    """
    states = jnp.arange(environment.num_observations)
    prompts = environment.prompts(jnp.zeros(1, jnp.int32))
    cache = policy.start(parameters, prompts, group_size=len(states), max_tokens=1)
    logits, _ = policy.step(parameters, cache, states[None], jnp.asarray(0))
    return distribution(logits[0], environment.legal(states), temperature=1.0)


def outcome_probs(environment: StateGraph, policy: Policy, parameters: Parameters, prompt: int | Array = 0) -> Array:
    """`[K]` float32, the exact distribution of the outcomes of a policy at a prompt; see `log_probs_table`."""
    return environment.terminal_distribution(log_probs_table(policy, parameters, environment), prompt)


def outcome_probs_at_prompts(environment: StateGraph, policy: Policy, parameters: Parameters) -> Array:
    """`[P, K]` float32, `outcome_probs` at every prompt."""
    at_prompt = functools.partial(outcome_probs, environment, policy, parameters)
    return jax.vmap(at_prompt)(jnp.arange(environment.num_prompts))
