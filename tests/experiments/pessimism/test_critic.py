import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from experiments.pessimism.critic import Model, Pessimism, expected_visits, improved, q_values, visited, worst

DISCOUNT = 0.9


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def random_distribution(seed, size=12):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(size)) * (np.arange(size) > 1)
    return rng.normal(size=size), probs / probs.sum()


def random_model(seed, states=6, actions=3):
    rng = np.random.default_rng(seed)
    return Model(
        jnp.asarray(rng.dirichlet(np.full(states, 0.3), (states, actions))),
        jnp.asarray(rng.normal(size=(states, actions))),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_the_worst_mean_of_a_kl_ball_is_its_dual(seed, share):
    """`share` of the distance of the best value alone, where the ball ends."""
    values, probs = random_distribution(seed)
    radius = -share * np.log(probs[np.where(probs > 0, values, -np.inf).argmax()])
    q = np.asarray(worst(values, probs, radius))

    def dual(log_eta):
        eta = np.exp(log_eta)
        return eta * (np.log(probs @ np.exp((values - values.max()) / eta)) + radius) + values.max()

    best = minimize_scalar(dual, bounds=(-8, 8), method="bounded", options={"xatol": 1e-10}).fun
    assert q @ values == pytest.approx(best, abs=1e-7)
    kept = q > 0
    assert q[kept] @ np.log(q[kept] / probs[kept]) == pytest.approx(radius, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_small_chi_square_ball_adds_the_standard_deviation(seed):
    values, probs = random_distribution(seed)
    mean = probs @ values
    deviation = np.sqrt(probs @ (values - mean) ** 2)
    q = np.asarray(worst(values, probs, 0.01, "chi_square"))
    assert q @ values == pytest.approx(mean + np.sqrt(0.02) * deviation, abs=1e-9)
    kept = probs > 0
    radius = 0.4 * (1 / probs[np.where(kept, values, -np.inf).argmax()] - 1)
    large = np.asarray(worst(values, probs, radius, "chi_square"))
    assert large.min() >= 0
    assert ((large - probs)[kept] ** 2 / probs[kept]).sum() / 2 == pytest.approx(radius)
    # With entries at 0 the formula is out of reach.
    assert large @ values <= mean + np.sqrt(2 * radius) * deviation


@pytest.mark.parametrize("ball", ["kl", "chi_square"])
def test_ends_of_a_ball(ball):
    values, probs = random_distribution(7)
    np.testing.assert_array_equal(worst(values, probs, 0.0, ball), probs)
    np.testing.assert_array_equal(worst(np.ones(12), probs, 0.5, ball), probs)
    among = np.where(probs > 0, values, -np.inf)
    np.testing.assert_allclose(worst(values, probs, 1e4, ball), np.arange(12) == among.argmax(), atol=1e-9)


def test_exact_values_and_visits_agree():
    model, rng = random_model(0), np.random.default_rng(1)
    policy, start = rng.dirichlet(np.ones(3), 6), rng.dirichlet(np.ones(6))
    visits = expected_visits(model, policy, DISCOUNT)
    values = np.asarray(q_values(model, policy, DISCOUNT, visits))
    backed = model.rewards + DISCOUNT * model.transitions @ (policy * values).sum(axis=1)
    np.testing.assert_allclose(values, backed, atol=1e-12)
    pairs = visited(policy, start, visits)
    assert pairs.sum() == pytest.approx(1.0)
    expected = start @ (policy * values).sum(axis=1)
    assert (pairs * model.rewards).sum() / (1 - DISCOUNT) == pytest.approx(expected)


def test_without_a_penalty_the_policy_is_the_best_of_the_model():
    model, counts = random_model(5), jnp.ones((6, 3))
    policy, values = improved(model, counts, Pessimism(discount=DISCOUNT, steps=500))
    best = np.zeros((6, 3))
    for _ in range(500):
        best = np.asarray(model.rewards + DISCOUNT * model.transitions @ best.max(axis=1))
    np.testing.assert_allclose(values, best, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(policy).argmax(axis=1), best.argmax(axis=1))


@pytest.mark.parametrize("radius", [0.0, 0.2])
@pytest.mark.parametrize("ball", ["kl", "chi_square"])
def test_at_rest_the_critic_solves_its_equation(ball, radius):
    """Q = r - beta (q - data) / w + gamma P Q, with q in the ball around d; of radius 0 it is COMBO, with q = d."""
    model, counts = random_model(8), np.random.default_rng(9).poisson(2.0, (6, 3)).astype(float)
    critic = Pessimism(beta=0.1, radius=radius, ball=ball, discount=DISCOUNT, share=0.4, steps=2000, rate=1.0)
    policy, values = map(np.asarray, improved(model, jnp.asarray(counts), critic))
    data = counts / counts.sum()
    pairs = np.asarray(visited(policy, data.sum(axis=1), expected_visits(model, policy, DISCOUNT)))
    lowered = np.asarray(worst(values.ravel(), pairs.ravel(), radius, ball)).reshape(values.shape)
    backed = model.rewards + DISCOUNT * model.transitions @ (policy * values).sum(axis=1)
    reached = 0.4 * data + 0.6 * np.maximum(pairs, 1e-300)
    np.testing.assert_allclose(values, backed - 0.1 * (lowered - data) / reached, atol=1e-5 if radius else 1e-6)


def test_uncertainty_is_subtracted_where_visits_are_few():
    model, counts = random_model(1), jnp.asarray(np.arange(18.0).reshape(6, 3))
    policy, values = improved(model, counts, Pessimism(uncertainty=0.5, discount=DISCOUNT))
    lowered = Model(model.transitions, model.rewards - 0.5 / np.sqrt(1 + counts))
    expected = q_values(lowered, policy, DISCOUNT, expected_visits(lowered, policy, DISCOUNT))
    np.testing.assert_allclose(values, expected, atol=1e-9)
