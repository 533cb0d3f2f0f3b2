import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.perturbed_policies.perturbed import gradient_estimates, perturbed_costs
from experiments.perturbed_policies.perturbed_outcomes import GRID, outcome, rewards, train, trained


def test_three_paths_are_right():
    node = np.arange(16).reshape(4, 4)
    ends = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    visited = {tuple(sorted(ends[path == 1].tolist())) for path in GRID.paths()[rewards() == 1]}
    assert visited == {(1, 2, 3, 7, 11, 15), (4, 8, 12, 13, 14, 15), (1, 5, 6, 10, 11, 15)}


def test_outcomes_are_the_best_paths():
    scores = np.random.default_rng(0).normal(size=(40, GRID.size)).astype(np.float32)
    assert outcome(jnp.asarray(scores)).tolist() == (scores @ GRID.paths().T).argmax(axis=1).tolist()


def test_a_first_step_of_expected_return_is_an_estimate_of_the_gradient_of_the_risk():
    moved = np.asarray(train("reinforce", 1, jnp.arange(2000), 0.5, 1.0, math.inf))

    def cost(scores, _):
        return -jnp.asarray(rewards())[outcome(scores)]

    noise = jax.random.normal(jax.random.key(1), (60_000, GRID.size))
    costs = perturbed_costs(cost, jnp.zeros(GRID.size), None, noise, 0.5)
    descent = -gradient_estimates(costs, noise, 0.5)
    one, other = moved.mean(axis=0), np.asarray(descent.mean(axis=0))
    error = np.sqrt(moved.var(axis=0) / len(moved) + np.asarray(descent.var(axis=0)) / len(noise))
    assert (np.abs(one - other) < 5 * error).all()
    assert np.linalg.norm(one) > 10 * np.linalg.norm(error)


def test_bounded_scores_stay_in_the_ball_and_expected_return_loses_paths_that_ips_keeps():
    end = functools.partial(trained, seeds=tuple(range(4)), steps=600, rate=0.1)
    found = {text: end(text, radius=math.inf).values for text in ("grpo", "ips_grpo")}
    assert found["grpo"]["effective"].mean() < 2 < 2.8 < found["ips_grpo"]["effective"].min()
    assert end("grpo", radius=2.0).values["length"] == pytest.approx(np.full((4, 1), 2.0), rel=1e-3)
