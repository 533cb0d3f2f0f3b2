import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.measures import diversity

ids = st.lists(st.integers(-1, 5), min_size=8, max_size=8)


@settings(deadline=None, max_examples=40)
@given(ids)
def test_sampled_measures_agree_with_a_table_of_counts(sampled):
    known = [i for i in sampled if i >= 0]
    counts = np.unique(known, return_counts=True)[1]
    share = counts / max(1, len(known))
    sampled = np.array(sampled)
    assert diversity.distinct_outcomes(sampled) == len(counts)
    expected = np.exp(-np.sum(share * np.log(share))) if known else 0.0
    assert float(diversity.effective_outcomes(sampled)) == pytest.approx(expected, rel=1e-5)
    assert float(diversity.largest_outcome_share(sampled)) == pytest.approx(max(share, default=0.0), rel=1e-6)
    pairs = [one != other for place, one in enumerate(known) for other in known[:place]]
    expected = np.mean(pairs) if pairs else np.nan
    np.testing.assert_allclose(diversity.different_pairs(sampled), expected, rtol=1e-5, atol=1e-6)
    ranked = np.zeros(len(sampled))
    ranked[: len(share)] = sorted(share, reverse=True)
    np.testing.assert_allclose(diversity.ranked_shares(sampled), ranked, rtol=1e-6)


@pytest.mark.parametrize("ids", [np.array([5, 5 + 2**32, 7]), [5, 5 + 2**32, 7], np.array([2**63, 1], np.uint64)])
def test_ids_that_would_be_cut_are_refused(ids):
    with pytest.raises(ValueError, match=r"^outcome_id is .*, it must be an array of .*within 32 bits$"):
        diversity.distinct_outcomes(ids)


def test_ids_of_64_bits_that_fit_are_taken():
    assert diversity.distinct_outcomes(np.array([2**31 - 1, -(2**31), 7, 7])) == 2
    assert diversity.distinct_outcomes(np.array([2**32 - 1, 7], np.uint32)) == 2


def test_groups_are_measured_one_by_one_inside_jit():
    sampled = np.array([[3, 3, 3, 3], [0, 1, 2, 9], [-1, -1, -1, -1], [5, 5, -1, 7]])
    np.testing.assert_array_equal(jax.jit(diversity.distinct_outcomes)(sampled), [1, 4, 0, 2])
    mixed = np.exp(2 / 3 * np.log(3 / 2) + 1 / 3 * np.log(3))
    np.testing.assert_allclose(jax.jit(diversity.effective_outcomes)(sampled), [1, 4, 0, mixed], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(diversity.largest_outcome_share)(sampled), [1, 0.25, 0, 2 / 3], rtol=1e-6)
    pairs = jax.jit(diversity.different_pairs)(sampled)
    np.testing.assert_allclose(pairs, [0, 1, np.nan, 2 / 3], rtol=1e-6)
    ranked = [[1, 0, 0, 0], [0.25] * 4, [0, 0, 0, 0], [2 / 3, 1 / 3, 0, 0]]
    np.testing.assert_allclose(jax.jit(diversity.ranked_shares)(sampled), ranked, rtol=1e-6)


def test_exact_distributions():
    distributions = np.array([[1.0, 0.0, 0.0, 0.0], [0.25] * 4, [0.5, 0.5, 0.0, 0.0]])
    np.testing.assert_allclose(diversity.effective_outcomes_of_distribution(distributions), [1, 4, 2], rtol=1e-6)
    np.testing.assert_allclose(diversity.entropy_of_distribution(distributions), np.log([1, 4, 2]), rtol=1e-6)
