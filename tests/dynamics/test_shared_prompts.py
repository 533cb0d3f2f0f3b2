"""Prompts that share parameters: their joint flow is that of the parameters, and rests where each prompt rests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.field import Field, follow, train
from ipsrl.dynamics.shared_prompts import SharedPrompts

REWARDS = ((1.0, 1.0, 0.0), (1.0, 0.2, 0.0))
STARTS = np.array([[0.5, 0.3, 0.2, 0.2, 0.3, 0.5], [0.1, 0.2, 0.7, 0.3, 0.4, 0.3]])


def fields(text="reinforce", rewards=REWARDS, group_size=3):
    return tuple(Field(objectives.make(text), of_one, group_size) for of_one in rewards)


@pytest.mark.parametrize("overlap", [0.0, 0.5, 1.0])
def test_logits_move_as_the_shared_parameters_make_them(overlap):
    """z_p = W phi_p, and W climbs the sum of the mean rewards."""
    features = np.array([[1.0, 0.0], [overlap, np.sqrt(1 - overlap**2)]])
    with jax.enable_x64(True):
        weights = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)))

        def value(weights):
            return (jax.nn.softmax(features @ weights.T) * np.array(REWARDS)).sum()

        expected = features @ np.asarray(jax.grad(value)(weights)).T
    logits = np.asarray(features @ np.asarray(weights).T).reshape(1, -1)
    shared = SharedPrompts(fields(), overlap)
    np.testing.assert_allclose(shared(logits), expected.reshape(1, -1), rtol=1e-6)


def test_log_probs_and_logits_of_all_prompts():
    shared = SharedPrompts(fields(), 0.3)
    assert shared.table_shape == (2, 3)
    np.testing.assert_allclose(np.exp(shared.log_probs(shared.logits_of(STARTS, "starts"))), STARTS, rtol=1e-12)
    assert shared.scale == max(field.scale for field in fields())


def test_the_flow_raises_the_sum_of_the_rewards_and_training_follows_it():
    shared = SharedPrompts(fields(), 0.5)
    flow = follow(shared, STARTS, time=40.0)
    values = flow.distributions @ np.concatenate(REWARDS)
    assert (np.diff(values, axis=0) > -1e-9).all()
    assert values[-1].min() > values[0].max()
    logits = shared.logits_of(STARTS, "starts")
    for _ in range(400):
        logits = logits + 0.1 * shared(logits)
    np.testing.assert_allclose(np.exp(shared.log_probs(logits)), flow.distributions[-1], atol=5e-3)
    # Means over the last quarter of the steps.
    ends, _ = train(shared, STARTS, 1e-3, 8)
    first = shared.logits_of(STARTS, "starts")
    np.testing.assert_allclose(np.log(ends), shared.log_probs(first + 7.5e-3 * shared(first)), atol=1e-5)
