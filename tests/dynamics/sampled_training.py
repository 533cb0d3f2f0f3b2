"""Independent steps of training from the same logits, to compare with their exact mean."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.refinements import with_best_answer
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import Batching, TrainState, update
from tests.sampled_groups import sample_and_verify

# Two optimiser steps of a batch must not see each other, and the difference of two float32 logits not its rounding.
STEP_SIZE = 1e-3


@functools.partial(
    jax.jit, static_argnames=("objective", "environment", "group_size", "samples", "off_policy", "steps")
)
def sampled_updates(objective, environment, logits, reference, group_size, samples, off_policy=None, steps=None):
    """`[samples, S, V]`, the updates by groups that are sampled."""
    policy, parameters = Tabular(*logits.shape), {"logits": logits}

    def one_step(key):
        of_groups, of_answers, of_objective = jax.random.split(key, 3)
        prompts = environment.prompts(jnp.zeros(1, jnp.int32))

        def sample(key, size):
            tokens = objective.top_tokens
            return sample_and_verify(environment, policy, parameters, prompts, key, size, 1.0, tokens)

        groups = sample(of_groups, group_size)
        if off_policy is not None:
            groups = with_best_answer(policy, parameters, *groups, *sample(of_answers, off_policy.answers), 1.0)
        return updated(objective, environment, logits, reference, groups, of_objective, steps)

    return jax.vmap(one_step)(jax.random.split(jax.random.key(0), samples))


def updated(objective, environment, logits, reference, groups, key, steps=None):
    """`[S, V]`, what the training on a batch of groups did to the logits `[S, V]`, over the step size."""
    policy, size, passes = Tabular(*logits.shape), STEP_SIZE, 1
    if steps is not None:
        size, passes = steps.size, steps.number
    optimizer = make_optimizer("sgd", size, max_gradient_norm=None)
    state = TrainState.create({"logits": logits}, objective, optimizer, environment)
    state = dataclasses.replace(state, reference={"logits": reference})
    after, _ = update(
        state,
        *groups,
        key,
        policy=policy,
        objective=objective,
        optimizer=optimizer,
        batching=Batching(epochs=passes),
        temperature=1.0,
    )
    return (after.parameters["logits"] - logits) / size
