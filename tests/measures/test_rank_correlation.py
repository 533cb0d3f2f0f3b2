import numpy as np

from ipsrl.measures.rank_correlation import rank_correlations


def test_each_row_has_a_correlation_of_its_own_unless_it_is_constant():
    exact = np.array([1.0, 2.0, 3.0, 4.0])
    first, second = np.array([exact, exact, exact]), np.array([2 * exact, -exact, np.ones(4)])
    np.testing.assert_allclose(rank_correlations(first, second), [1.0, -1.0, np.nan])
