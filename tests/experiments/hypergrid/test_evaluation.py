import jax.numpy as jnp
import numpy as np
import pytest

from experiments.hypergrid import evaluation
from ipsrl.environments.graphs.hypergrid import Hypergrid

GRID = Hypergrid()
TARGET = GRID.outcome_space(0).target


def measured(probs, monkeypatch):
    monkeypatch.setattr(evaluation, "probs_of_cells", lambda *arguments: jnp.asarray(probs))
    return evaluation.evaluate_hypergrid(GRID, None, 0, None).metrics


def test_a_policy_that_keeps_one_mode(monkeypatch):
    """Numbers of arXiv 2601.21669, table 1: 1.7679 / 64 is its 0.028 of GRPO."""
    found = measured(np.eye(64)[9], monkeypatch)
    assert found["l1_total"] == pytest.approx(1.7679, abs=5e-5)
    assert found["l1_per_cell"] == pytest.approx(0.0276, abs=5e-5)
    assert (found["modes_found"], found["cells_visited"], found["largest_cell"]) == (1, 1, 1)


def test_a_uniform_policy_and_the_target(monkeypatch):
    uniform = measured(np.full(64, 1 / 64), monkeypatch)
    assert uniform["l1_per_cell"] == pytest.approx(0.0167, abs=5e-5)
    assert (uniform["modes_found"], uniform["cells_visited"], uniform["largest_cell"]) == (0, 64, 1 / 64)
    assert measured(TARGET, monkeypatch)["modes_found"] == 4


def test_disjoint_distributions_are_as_far_apart_as_there_is_up_to_the_least_numbers():
    one, other = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.175494351e-38, 0.0])
    assert float(evaluation.jensen_shannon(jnp.asarray(one), jnp.asarray(other))) == pytest.approx(np.log(2))
    with pytest.raises(ValueError, match="is no distribution"):
        evaluation.jensen_shannon(np.array([0.5, np.nan, 0.0]), one)
