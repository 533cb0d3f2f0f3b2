import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.measures import distances


def distributions(outcomes=6):
    """Any weights, one of which is not small."""
    weights = st.lists(st.floats(0, 1), min_size=outcomes - 1, max_size=outcomes - 1)
    whole = st.builds(lambda w, large, at: np.insert(w, at, large), weights, st.floats(0.1, 1), st.integers(0, 5))
    return whole.map(lambda w: w / w.sum())


def test_the_least_numbers_are_missed_by_no_mean_of_two_distributions():
    one, other = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.175494351e-38, 0.0])
    assert float(distances.jensen_shannon(one, other)) == pytest.approx(np.log(2))


def test_hypergrid_numbers():
    """Of arXiv 2601.21669, table 1: 1.7679 / 64 is its 0.028 of GRPO."""
    grid = Hypergrid()
    target, modes = grid.outcome_space(0).target, grid.modes()
    collapsed = np.eye(64)[9]
    assert float(distances.total_l1(collapsed, target)) == pytest.approx(1.7679, abs=5e-5)
    assert float(distances.mean_l1(collapsed, target)) == pytest.approx(0.0276, abs=5e-5)
    assert float(distances.mean_l1(np.full(64, 1 / 64), target)) == pytest.approx(0.0167, abs=5e-5)
    assert distances.modes_found(collapsed, modes, threshold=0.0) == 1
    assert distances.modes_found(target, modes, threshold=target / 2) == 4
    assert distances.modes_found(np.full(64, 1 / 64), modes, threshold=target / 2) == 0


@settings(deadline=None, max_examples=30)
@given(distributions(), distributions(), st.permutations(range(6)))
def test_relations_between_distances(probs, target, order):
    l1, tv = distances.total_l1(probs, target), distances.total_variation(probs, target)
    assert float(tv) == pytest.approx(float(l1) / 2)
    assert float(distances.mean_l1(probs, target)) == pytest.approx(float(l1) / 6)
    js = float(distances.jensen_shannon(probs, target))
    assert -1e-6 <= js <= np.log(2) + 1e-6
    # Pinsker's inequality ties both KL directions to the total variation.
    assert float(distances.forward_kl(probs, target)) >= 2 * float(tv) ** 2 - 1e-5
    assert float(distances.reverse_kl(probs, target)) >= 2 * float(tv) ** 2 - 1e-5
    for distance in (distances.total_l1, distances.forward_kl, distances.reverse_kl, distances.jensen_shannon):
        shuffled = distance(probs[list(order)], target[list(order)])
        np.testing.assert_allclose(distance(probs, target), shuffled, rtol=1e-4, atol=1e-6)


def test_zeros_are_exact_and_directions_are_named():
    probs, target = np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])
    assert float(distances.forward_kl(probs, target)) == pytest.approx(np.log(2))
    assert distances.reverse_kl(probs, target) == np.inf
    assert distances.forward_kl(target, probs) == np.inf
    assert distances.forward_kl(probs, probs) == 0.0
    disjoint = np.array([0.0, 0.0, 1.0])
    assert float(distances.jensen_shannon(disjoint, target)) == pytest.approx(np.log(2))
    assert distances.total_l1(disjoint, target) == 2.0


def test_distributions_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="same number of outcomes"):
        distances.total_l1(np.ones(3) / 3, np.ones(4) / 4)
    with pytest.raises(ValueError, match="same number of outcomes"):
        distances.jensen_shannon(np.ones(1), np.ones(4) / 4)
