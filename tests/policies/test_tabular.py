import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular


def test_starts_uniform_or_anywhere():
    key = jax.random.key(0)
    assert Tabular(3, 2).init(key)["logits"].tolist() == [[0.0, 0.0]] * 3
    assert Tabular(3, 2, initial_logits=(1.0, -1.0)).init(key)["logits"].tolist() == [[1.0, -1.0]] * 3
    rows = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))
    parameters = Tabular(3, 2, initial_logits=rows).init(key)
    np.testing.assert_array_equal(parameters["logits"], rows)
    assert parameters["logits"].dtype == jnp.float32


def test_it_fits_an_environment_and_may_start_at_an_array():
    bandit = Bandit.of_table(np.eye(2, 3))
    assert bandit == Bandit(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))
    assert Tabular.of(bandit) == Tabular(2, 3)
    assert Tabular.of(bandit, np.arange(3)) == Tabular(2, 3, (0.0, 1.0, 2.0))
    assert Tabular.of(bandit, np.zeros((2, 3))) == Tabular(2, 3, ((0.0,) * 3,) * 2)
