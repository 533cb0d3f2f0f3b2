import numpy as np
import pytest

from ipsrl.measures.coverage import mean_covered_at_k

RIGHT = np.array([[True, True, False], [True, False, False]])


def test_counted_answers():
    found = mean_covered_at_k(np.array([[0, 0, 1, 2], [0, 1, -1, 3]]), RIGHT, (1, 4))
    assert found == {1: pytest.approx((3 / 8 + 1 / 4) / 2), 4: 1}
