import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.divergences.regularised_optima import (
    divergence_of,
    inverse_link,
    largest_total_variation,
    regularised_optimum,
)
from ipsrl.objectives.estimators.divergences import link

LINKS = {
    "reverse_kl": np.log,
    "forward_kl": lambda u: -1 / u,
    "jensen_shannon": lambda u: np.log(2 * u / (1 + u)),
    "alpha": lambda u: 2 * (1 - u**-0.5),
}
DIVERGENCES = list(LINKS)
REWARDS = np.array([2.0, 1.0, 0.0, -1.0])
REFERENCE = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("beta", [0.01, 0.3, 100.0])
def test_the_links_of_an_optimum_are_the_rewards_up_to_a_constant(divergence, beta):
    found = regularised_optimum(REWARDS, REFERENCE, beta, divergence)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-12)
    implied = beta * LINKS[divergence](found / REFERENCE)
    likely = found > 1e-12
    np.testing.assert_allclose((implied - REWARDS)[likely], (implied - REWARDS)[0], rtol=0, atol=1e-7)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_batches_constants_equal_rewards_and_tiny_weights(divergence):
    one = regularised_optimum(REWARDS, REFERENCE, 0.3, divergence)
    both = regularised_optimum(np.stack([REWARDS, REWARDS + 1e3]), REFERENCE, 0.3, divergence)
    np.testing.assert_allclose(both, np.stack([one, one]), rtol=1e-9)
    np.testing.assert_allclose(regularised_optimum(np.full(4, 7.0), REFERENCE, 0.3, divergence), REFERENCE, rtol=1e-12)
    tiny = regularised_optimum(REWARDS, REFERENCE, 1e-9, divergence)
    np.testing.assert_allclose(tiny, [1, 0, 0, 0], atol=1e-4)


def test_divergences_by_hand():
    probs, reference = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    kl = 0.5 * np.log(3)
    middle = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    hellinger = 1 - 2 * np.sqrt(0.75 * 0.25)
    for name, wanted in (
        ("reverse_kl", kl),
        ("forward_kl", kl),
        ("jensen_shannon", 2 * middle),
        ("alpha", 4 * hellinger),
    ):
        np.testing.assert_allclose(divergence_of(probs, reference, name), wanted, rtol=1e-12)
        assert divergence_of(probs, probs, name) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_pinsker_holds_and_is_tight_for_small_differences(name):
    random = np.random.default_rng(0)
    probs, reference = random.dirichlet(np.full(4, 0.5), size=(2, 1000)) + 1e-9
    probs, reference = probs / probs.sum(-1, keepdims=True), reference / reference.sum(-1, keepdims=True)
    distance = np.abs(probs - reference).sum(axis=-1) / 2
    assert (distance <= largest_total_variation(divergence_of(probs, reference, name), name) + 1e-12).all()
    near, half = np.array([0.501, 0.499]), np.array([0.5, 0.5])
    np.testing.assert_allclose(largest_total_variation(divergence_of(near, half, name), name), 1e-3, rtol=1e-4)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_divergence_is_never_below_zero(divergence):
    """Rounding alone would make some of these -1e-17, whose root is not a number."""
    probs = np.random.default_rng(0).dirichlet(np.ones(30), size=1000)
    near = probs * (1 + 1e-9 * np.random.default_rng(1).normal(size=probs.shape))
    found = divergence_of(near / near.sum(axis=-1, keepdims=True), probs, divergence)
    assert (found >= 0).all()
    assert np.isfinite(largest_total_variation(found, divergence)).all()


@pytest.mark.parametrize(("name", "alpha"), [*((name, 0.5) for name in DIVERGENCES), ("alpha", 0.3), ("alpha", 0.7)])
def test_inverse_links(name, alpha):
    log_ratio = jnp.log(np.array([0.02, 0.5, 1.0, 1.7, 30.0]))
    np.testing.assert_allclose(inverse_link(name, link(name, log_ratio, alpha), alpha), log_ratio, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "supremum"), [("forward_kl", 0.0), ("jensen_shannon", np.log(2.0)), ("alpha", 2.0)])
def test_what_a_link_does_not_reach(name, supremum):
    values = jnp.array([supremum - 0.1, supremum + 0.1])
    assert (jnp.isinf(inverse_link(name, values)) == jnp.array([False, True])).all()
    gradient = jax.grad(lambda values: inverse_link(name, values)[0])(values)
    assert gradient[0] > 0.0
    assert gradient[1] == 0.0
