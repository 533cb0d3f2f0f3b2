import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives.estimators.divergences import check_alpha, link
from tests.objectives.groups import assert_close

RATIOS = np.array([0.02, 0.5, 1.0, 1.7, 30.0])


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
