import itertools
import math

import numpy as np
import pytest

from ipsrl.dynamics.softmax import finite_groups
from ipsrl.dynamics.softmax.finite_groups import count_weights, expected_weight, mean_field

DISTRIBUTION, REWARDS = np.array([0.5, 0.3, 0.2]), np.array([4.0, 1.0, 2.0])
RULES = ["no baseline", "group mean", "group mean and std"]


def enumerated_update(rule, probs, rewards, weights):
    """The mean of a rule over all K^G groups, sample by sample."""
    group_size, mean = len(weights), np.zeros(len(probs))
    for group in itertools.product(range(len(probs)), repeat=group_size):
        counts = [group.count(outcome) for outcome in range(len(probs))]
        share = np.array(counts) / group_size
        scaled = np.array([r * weights[n - 1] if n > 0 else 0.0 for r, n in zip(rewards, counts, strict=True)])
        mu = share @ scaled
        sampled = scaled[list(group)]
        update = share * (scaled - mu)
        if rule == "no baseline":
            update = share * scaled - probs * mu
        elif rule == "group mean and std":
            update = np.zeros(len(probs)) if np.ptp(sampled) < 1e-9 else update / sampled.std()
        mean += math.prod(probs[list(group)]) * update
    return mean


WEIGHTS = {
    "ips": count_weights(5),
    "root": count_weights(5, alpha=0.5),
    "square with a floor": count_weights(5, alpha=2.0, floor=0.3),
    "expected return": count_weights(5, alpha=0.0),
    "add-lambda": count_weights(5, pseudo_count=1.5),
    "two samples": count_weights(2),
    "any table": np.array([3.0, 0.2, 1.7, 0.4, 0.9]),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=list(WEIGHTS))
def test_mean_fields_are_means_over_all_groups(weights, rule):
    for probs, rewards in [
        (DISTRIBUTION, REWARDS),
        (np.array([0.7, 0.3]), np.array([4e-3, 1e-3])),
        (DISTRIBUTION, np.array([1.0, 1.0, 0.0])),
    ]:
        exact = mean_field(probs, rewards, weights, rule)
        np.testing.assert_allclose(exact, enumerated_update(rule, probs, rewards, weights), rtol=0, atol=1e-12)


def test_expected_weight_where_an_outcome_is_certain_or_impossible():
    assert expected_weight(0.0, count_weights(16)) == 16.0
    assert expected_weight(0.0, count_weights(16, floor=0.2)) == 5.0
    assert expected_weight(1.0, count_weights(16, alpha=3.0)) == 1.0


@pytest.mark.parametrize("num_outcomes", [2, 3, 6])
def test_the_group_mean_costs_one_sample(num_outcomes):
    """The fields of a group mean and of one sample less are equal, for alpha = 1 and a floor that cannot act."""
    random = np.random.default_rng(num_outcomes)
    for group_size in (2, 5, 16, 64):
        probs, rewards = random.dirichlet(np.ones(num_outcomes)), random.uniform(0.1, 5, num_outcomes)
        costs = mean_field(probs, rewards, count_weights(group_size), "group mean")
        fewer = mean_field(probs, rewards, count_weights(group_size - 1), "no baseline")
        np.testing.assert_allclose(costs, fewer, rtol=0, atol=1e-13)
    less = finite_groups.without_one_sample(count_weights(16, floor=0.05))
    np.testing.assert_allclose(less, count_weights(15), rtol=1e-14)


def test_rare_outcomes_keep_their_digits():
    """To first order the groups with one of the rare outcome alone count: each pushes it up by sqrt(G - 1) / G."""
    for rare in (1e-12, 1e-30):
        update = mean_field(np.array([1.0 - rare, rare]), np.array([4.0, 1.0]), count_weights(6), "group mean and std")
        assert update[1] / rare == pytest.approx(math.sqrt(5), rel=1e-10)


def test_an_exact_tie_of_scaled_rewards_says_nothing():
    """0.7 / (7/8) = 0.1 / (1/8): of the mixed groups those with one sample of the rare outcome are ties."""
    probs, weights = np.array([1 - 1e-9, 1e-9]), count_weights(8)
    assert 0.7 * weights[6] != 0.1 * weights[0]  # in floating point
    assert abs(mean_field(probs, np.array([0.7, 0.1]), weights, "group mean and std")[1]) < 1e-15


def test_deviation_of_the_expected_weight_from_the_inverse_probability():
    p = np.array([0.1, 0.5, 0.9])

    def distortion(weights, alpha):
        return expected_weight(p, weights) * p**alpha - 1

    np.testing.assert_allclose(distortion(count_weights(16), 1.0), -((1 - p) ** 16), rtol=0, atol=1e-14)
    for alpha in (0.5, 2.0):
        first_order = alpha * (alpha - 1) * (1 - p) / (2 * p)
        exact = [size * distortion(count_weights(size, alpha), alpha) for size in (256, 512)]
        errors = np.abs(exact - first_order)
        np.testing.assert_allclose(exact[1], first_order, rtol=0.12)
        np.testing.assert_allclose(errors[1] / errors[0], 0.5, atol=0.05)  # what is left is of the order 1/G
        # The offset rule leaves 1/G^2.
        offset = [count_weights(size, alpha, pseudo_count=(alpha - 1) / 2) for size in (256, 512)]
        left = [np.abs(distortion(weights, alpha)) for weights in offset]
        np.testing.assert_allclose(left[1] / left[0], 0.25, atol=0.03)


def test_count_weights():
    np.testing.assert_allclose(count_weights(4, alpha=2.0), [16.0, 4.0, 16 / 9, 1.0])
    np.testing.assert_allclose(count_weights(4, floor=0.6), [1 / 0.6, 1 / 0.6, 4 / 3, 1.0])
    # The offset c of the counts is a pseudo-count of -c, as in `ips_reinforce(probability=offset)`.
    np.testing.assert_allclose(count_weights(8, 0.5, pseudo_count=-0.25)[2], ((3 - 0.25) / (8 - 0.25)) ** -0.5)
    narrowed = count_weights(16, alpha=0.5, pseudo_count=2.0)
    assert narrowed[0] / narrowed[-1] == pytest.approx((18 / 3) ** 0.5)


def test_count_vectors():
    vectors = finite_groups.count_vectors(3, 4)
    expected = {v for v in itertools.product(range(5), repeat=3) if sum(v) == 4}
    assert len(vectors) == len(expected) == 15
    assert {tuple(v) for v in vectors} == expected
    assert finite_groups.count_vectors(1, 4).tolist() == [[4]]
