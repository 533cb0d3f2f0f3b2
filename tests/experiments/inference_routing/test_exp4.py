import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.inference_routing.estimators import Estimator
from experiments.inference_routing.exp4 import Learner, to_come
from experiments.inference_routing.inference_layers import InferenceLayers, Tasks

UNBIASED = {
    "plain": Estimator(),
    "constant": Estimator(constant=0.15),
    "mean": Estimator("mean"),
    "weighted mean": Estimator("weighted mean"),
}


def learner_of(depth, estimator=UNBIASED["plain"], trade_off=100.0, **changed):
    return Learner(InferenceLayers(depth, 0.3, 0.5), 0.1, trade_off, estimator, **changed)


def random_state(learner, seed=0):
    """Weights, queues and baselines as in the middle of a run."""
    rng, start = np.random.default_rng(seed), learner.start()
    values = [jnp.asarray(rng.uniform(0.1, 2.0, leaf.shape)) for leaf in jax.tree.leaves(start)]
    return jax.tree.unflatten(jax.tree.structure(start), values)


def some_tasks(n):
    rng = np.random.default_rng(1)
    for _ in range(3):
        yield Tasks(jnp.asarray(rng.integers(0, 9, n)), jnp.asarray(rng.integers(0, 2, n).astype(float)))


def every_decision(probs):
    """All ways in which the layers may decide, `[n]` each, with their probabilities."""
    for passed in itertools.product((0.0, 1.0), repeat=len(probs)):
        yield np.array(passed), np.prod(np.where(passed, probs, 1 - probs))


@pytest.mark.parametrize(("name", "depth"), [("plain", 2), *((name, 4) for name in UNBIASED)])
def test_the_mean_over_all_decisions_is_full_information(name, depth):
    with jax.enable_x64(True):
        learner = learner_of(depth, UNBIASED[name])
        state, prices = random_state(learner), jnp.linspace(3.0, 7.0, depth - 1)
        told, losses = dataclasses.replace(learner, full_information=True), jax.jit(learner.losses)
        for task in some_tasks(depth - 1):
            view = learner.view(state, task)
            mean = 0.0
            for passed, p in every_decision(view.probs):
                mean += p * np.stack(losses(view, prices, jnp.asarray(passed)))
            np.testing.assert_allclose(mean, np.stack(told.losses(view, prices, jnp.zeros(depth - 1))), atol=1e-12)


@pytest.mark.parametrize("name", UNBIASED)
def test_the_variance_over_all_decisions_is_the_formula(name):
    with jax.enable_x64(True):
        learner = learner_of(4, UNBIASED[name], trade_off=1.0)
        state = random_state(learner)
        for task in some_tasks(3):
            view = learner.view(state, task)
            found = [
                (np.stack(learner.losses(view, jnp.zeros(3), jnp.asarray(passed))), p)
                for passed, p in every_decision(view.probs)
            ]
            values, probs = (np.array(part) for part in zip(*found, strict=True))
            mean = np.tensordot(probs, values, 1)
            variance = np.tensordot(probs, (values - mean) ** 2, 1)
            # At the first layer, where every task arrives.
            for number, (loss, base) in enumerate(zip(view.losses, view.baselines, strict=True)):
                wanted = (loss[0] - base[0]) ** 2 * (1 / view.to_oracle[0] - 1)
                assert variance[number, 0] == pytest.approx(float(wanted), rel=1e-9, abs=1e-12)
            measured = learner.measured(state, view, jnp.ones(3))
            assert float(measured.variance) == pytest.approx(variance[0, 0], rel=1e-9, abs=1e-12)
            difference = np.diff(values[:, :, 0], axis=1)[:, 0]
            of_choice = probs @ (difference - probs @ difference) ** 2
            assert float(measured.choice_variance) == pytest.approx(of_choice, rel=1e-9, abs=1e-12)


def test_the_recursion_by_hand():
    found = to_come(jnp.array([0.0, 1.0]), jnp.array([2.0, 3.0]), jnp.array([0.5, 0.25]))
    np.testing.assert_allclose(found, [2 + 0.75 * 1 + 0.25 * 3, 3.0])


def test_one_round_by_hand():
    learner = learner_of(2, trade_off=10.0)
    state = dataclasses.replace(learner.start(), queues=jnp.array([2.0]))
    view = learner.view(state, Tasks(jnp.array([0]), jnp.array([1.0])))
    # All experts but the first pass on a task of the lowest confidence.
    q = 0.1 + 0.9 * 9 / 10
    assert float(view.probs[0]) == pytest.approx(q)
    after = learner.update(state, view, jnp.array([1.0]), 0.01)
    # Passing on costs Z = 2, and answering V e / q.
    np.testing.assert_allclose(after.log_weights[0], [-0.01 * (10 / q - 2)] + [0] * 9, rtol=1e-5)
    assert float(after.queues[0]) == pytest.approx(2 + 1 - 0.5)
    assert after.seen.totals[0].tolist() == [[1.0] + [0.0] * 8]
    kept = learner.update(state, view, jnp.array([0.0]), 0.01)
    np.testing.assert_allclose(kept.log_weights[0], [0] + [-0.02] * 9, rtol=1e-5)
    assert float(kept.queues[0]) == pytest.approx(1.5)
    assert not kept.seen.weight.any()
    # What is left of a budget is not saved.
    assert float(learner.update(learner.start(), view, jnp.array([0.0]), 0.01).queues[0]) == 0.0
    unpaid = dataclasses.replace(learner, queues=False).update(learner.start(), view, jnp.array([1.0]), 0.01)
    assert float(unpaid.queues[0]) == 0.0


def test_a_constant_baseline_leaves_no_trace_before_the_last_layer():
    with jax.enable_x64(True):
        plain, constant = (learner_of(4, UNBIASED[name]) for name in ("plain", "constant"))
        state, task = random_state(plain), Tasks(jnp.array([4, 3, 2]), jnp.array([1.0, 0.0, 1.0]))
        for passed, _ in every_decision(np.full(3, 0.5)):
            ours, theirs = (
                each.update(state, each.view(state, task), jnp.asarray(passed), 1e-3).log_weights
                for each in (plain, constant)
            )
            np.testing.assert_allclose(ours[:2], theirs[:2], atol=1e-12)
            # Where the task arrives, the last layer's weights differ.
            assert (abs(ours[2] - theirs[2]).max() > 1e-6) == bool(passed[:2].all())


def test_full_information_learns_within_the_budget():
    learner = learner_of(3, full_information=True)
    run = jax.jit(jax.vmap(functools.partial(learner.run, rate=1e-2, rounds=4000, intervals=2)))
    course = run(jax.random.split(jax.random.key(0), 4))
    assert course.error.shape == (4, 2)
    assert course.costs.shape == (4, 2, 2)
    # A uniform mixture errs on 0.111 of the tasks, and costs 0.09 more.
    assert float(course.error[:, 1].mean()) < 0.107
    assert (np.asarray(course.costs.mean(axis=(0, 1))) < np.array([0.5, 0.25]) + 0.01).all()
