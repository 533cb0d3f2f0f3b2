import numpy as np
import pytest

from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.measures import distances


def test_the_least_numbers_are_missed_by_no_mean_of_two_distributions():
    one, other = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.175494351e-38, 0.0])
    assert float(distances.jensen_shannon(one, other)) == pytest.approx(np.log(2))


def test_hypergrid_numbers():
    """Numbers of arXiv 2601.21669, table 1: 1.7679 / 64 is its 0.028 of GRPO."""
    grid = Hypergrid()
    target, modes = grid.outcome_space(0).target, grid.modes()
    collapsed = np.eye(64)[9]
    assert float(distances.total_l1(collapsed, target)) == pytest.approx(1.7679, abs=5e-5)
    assert float(distances.mean_l1(collapsed, target)) == pytest.approx(0.0276, abs=5e-5)
    assert float(distances.mean_l1(np.full(64, 1 / 64), target)) == pytest.approx(0.0167, abs=5e-5)
    assert distances.modes_found(collapsed, modes, threshold=0.0) == 1
    assert distances.modes_found(target, modes, threshold=target / 2) == 4
    assert distances.modes_found(np.full(64, 1 / 64), modes, threshold=target / 2) == 0


def test_zeros_are_exact_and_directions_are_named():
    probs, target = np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])
    assert float(distances.forward_kl(probs, target)) == pytest.approx(np.log(2))
    assert distances.reverse_kl(probs, target) == np.inf
    assert distances.forward_kl(target, probs) == np.inf
    assert distances.forward_kl(probs, probs) == 0.0
    assert float(distances.reverse_kl(np.array([0.25, 0.75]), np.full(2, 0.5))) == pytest.approx(np.log(27 / 16) / 4)
    assert float(distances.total_variation(probs, target)) == 0.5
    disjoint = np.array([0.0, 0.0, 1.0])
    assert float(distances.jensen_shannon(disjoint, target)) == pytest.approx(np.log(2))
    assert distances.total_l1(disjoint, target) == 2.0
