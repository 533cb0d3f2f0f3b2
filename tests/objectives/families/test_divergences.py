"""f-divergences by their links: derivatives of the generators, inverses, limits, ranges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.estimators.divergences import check_alpha, link
from tests.objectives.groups import assert_close

RATIOS = np.array([0.02, 0.5, 1.0, 1.7, 30.0])
GENERATORS = {
    ("reverse_kl", 0.5): lambda u: u * np.log(u),
    ("forward_kl", 0.5): lambda u: -np.log(u),
    ("jensen_shannon", 0.5): lambda u: u * np.log(u) - (u + 1) * np.log((u + 1) / 2),
    ("alpha", 0.3): lambda u: (u**0.7 - 0.7 * u - 0.3) / (0.3 * -0.7),
    ("alpha", 0.7): lambda u: (u**0.3 - 0.3 * u - 0.7) / (0.7 * -0.3),
}
every_divergence = pytest.mark.parametrize(("name", "alpha"), GENERATORS)


@every_divergence
def test_a_link_is_the_derivative_of_its_generator_up_to_a_constant(name, alpha):
    generator, step = GENERATORS[name, alpha], 1e-6 * RATIOS
    derivative = (generator(RATIOS + step) - generator(RATIOS - step)) / (2 * step)
    difference = link(name, np.log(RATIOS), alpha) - derivative
    np.testing.assert_allclose(difference, difference[2], atol=2e-5)


def test_alpha_lies_between_the_two_divergences_of_kullback_and_leibler():
    log_ratio = jnp.log(RATIOS)
    assert_close(link("alpha", log_ratio, 1e-7), link("reverse_kl", log_ratio))
    assert_close(link("alpha", log_ratio, 1 - 1e-7), 1 + link("forward_kl", log_ratio))


def test_links_stay_finite():
    far = jnp.array([-300.0, -10.0, 10.0, 300.0])
    assert_close(link("forward_kl", far), -np.exp([10.0, 10.0, -10.0, -10.0]))
    assert_close(link("alpha", far, 0.5), 2 - 2 * np.exp([5.0, 5.0, -5.0, -5.0]))
    assert_close(link("jensen_shannon", far), np.log(2) + np.array([-300.0, -10 - np.exp(-10), -np.exp(-10), 0.0]))
    assert (jax.vmap(jax.grad(lambda value: link("forward_kl", value)))(far[::3]) == 0).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5, float("nan")])
def test_alpha_outside_its_range_is_refused(alpha):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        check_alpha("alpha", alpha)
    check_alpha("forward_kl", alpha)
