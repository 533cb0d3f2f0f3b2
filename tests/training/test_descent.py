import jax.numpy as jnp
import numpy as np

from ipsrl.training.descent import descended


def test_it_descends_and_records_at_the_start_and_after_each_interval():
    found = descended(lambda point, number: {"x": point["x"] + number}, {"x": jnp.array([8.0, 0.0])}, 4, 2, 0.5)
    expected = [[8.0, 0.0], [1.5, -0.5], [-1.625, -2.125]]
    np.testing.assert_allclose(found["x"], expected)
