import numpy as np
import pytest

from ipsrl.measures.power_law import log_slopes


def test_slopes_of_power_laws():
    along = np.array([1.0, 2.0, 4.0])
    found = log_slopes(along, np.array([3 * along**-0.25, along**2, [1.0, 0.0, 1.0]]))
    assert found[:2] == pytest.approx([-0.25, 2])
    assert np.isnan(found[2])
