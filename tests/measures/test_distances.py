import numpy as np
import pytest

from ipsrl.measures import distances


def test_zeros_are_exact_and_directions_are_named():
    probs, target = np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])
    assert float(distances.forward_kl(probs, target)) == pytest.approx(np.log(2))
    assert distances.reverse_kl(probs, target) == np.inf
    assert distances.forward_kl(target, probs) == np.inf
    assert distances.forward_kl(probs, probs) == 0.0
    assert float(distances.reverse_kl(np.array([0.25, 0.75]), np.full(2, 0.5))) == pytest.approx(np.log(27 / 16) / 4)
    assert float(distances.total_variation(probs, target)) == 0.5
    disjoint = np.array([0.0, 0.0, 1.0])
    assert distances.total_l1(disjoint, target) == 2.0
