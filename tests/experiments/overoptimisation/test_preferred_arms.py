import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.overoptimisation.preferred_arms import (
    ARMS,
    COVERED,
    FULL,
    PAIRS_OF_AN_ARM,
    RARE,
    SHARED,
    TABULAR,
    Arms,
    LinearArms,
    cautious,
    trained,
    with_course,
)

SEEDS = (0, 5)


def test_partial_coverage_is_of_the_likeliest_arms_and_one_pair_of_each_rare_one():
    arms = Arms(SEEDS)
    assert arms.pairs.shape == (2, COVERED * PAIRS_OF_AN_ARM + RARE, 2)
    for seed in range(2):
        times = np.bincount(arms.pairs[seed].ravel(), minlength=ARMS)
        likeliest = np.argsort(-arms.reference[seed])[:COVERED]
        assert set(np.flatnonzero(times)) == {*likeliest, *arms.rare[seed]}
        np.testing.assert_array_equal(times[arms.rare[seed]], 1)
        assert times[likeliest].min() > 5
        assert arms.wins[seed].sum() == len(arms.pairs[seed])
    np.testing.assert_allclose(np.exp(arms.reference).sum(axis=-1), 1.0)
    full = Arms(SEEDS, FULL)
    assert all(len(np.unique(pairs)) == ARMS for pairs in full.pairs)
    # A seed has one bandit, whatever is covered and beside which others.
    np.testing.assert_array_equal(full.rewards[1], Arms((5,)).rewards[0])


def test_winners_are_drawn_by_bradley_terry():
    arms = Arms(tuple(range(64)), FULL)
    margins = np.take_along_axis(arms.rewards, arms.pairs[..., 0], 1) - np.take_along_axis(
        arms.rewards, arms.pairs[..., 1], 1
    )
    # E over winners of 1 - sigmoid(margin) is the expected share of upsets, and their share is that of margins < 0.
    upsets = np.mean(margins < 0)
    expected = np.mean(1 / (1 + np.exp(np.abs(margins))))
    assert upsets == pytest.approx(expected, abs=0.01)


def test_measures_by_hand():
    """A policy that moves half of the reference to the first rare arm."""
    arms = Arms(SEEDS)
    reference = np.exp(arms.reference)
    probs = reference / 2
    np.put_along_axis(probs, arms.rare[:, :1], np.take_along_axis(probs, arms.rare[:, :1], 1) + 0.5, 1)
    start = arms.measures(arms.reference[:, None], 0.1)
    found = {name: values[:, 0] for name, values in arms.measures(np.log(probs)[:, None], 0.1).items()}
    for name in ("value", "implicit", "chosen", "divergence"):
        np.testing.assert_allclose(start[name], 0.0, atol=1e-12)
    for seed in range(2):
        first, base = arms.rare[seed, 0], arms.wins[seed].sum(axis=1) / arms.wins[seed].sum()
        mean = reference[seed] @ arms.rewards[seed]
        assert found["value"][seed] == pytest.approx((arms.rewards[seed, first] - mean) / 2)
        ratios = np.full(ARMS, np.log(0.5))
        ratios[first] = np.log(probs[seed, first] / reference[seed, first])
        assert found["divergence"][seed] == pytest.approx(probs[seed] @ ratios)
        assert found["chosen"][seed] == pytest.approx(base @ ratios)
        assert found["implicit"][seed] == pytest.approx(0.1 * (probs[seed] - base) @ ratios)
        assert found["rare"][seed] == pytest.approx(0.5 + reference[seed, arms.rare[seed]].sum() / 2)
        unseen = np.setdiff1d(np.arange(ARMS), arms.pairs[seed])
        assert found["uncovered"][seed] == pytest.approx(reference[seed, unseen].sum() / 2)


def test_falls_and_rises_are_counted_from_the_best_mean():
    value = np.array([[0.0, 2.0, 1.0, 0.0], [0.0, 1.0, 1.5, 0.0]])
    implicit = np.array([[0.0, 1.0, 2.0, 3.0]] * 2)
    found = with_course({"value": value, "implicit": implicit, "divergence": implicit})
    np.testing.assert_allclose(found["fall"], [[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, -0.5, 1.0]])
    np.testing.assert_allclose(found["rise"], [[0.0, 0.0, 1.0, 2.0]] * 2)


@pytest.mark.parametrize("kind", [TABULAR, SHARED])
def test_the_policy_starts_at_the_reference_and_moves_with_its_features(kind):
    arms = Arms(SEEDS)
    policy = LinearArms(2, ARMS, arms=arms, kind=kind)
    parameters = policy.init(jax.random.key(0))
    np.testing.assert_allclose(policy.table(parameters), arms.reference, atol=1e-6)
    moved = policy.table({"weights": parameters["weights"].at[1, 3].set(2.0)}) - policy.table(parameters)
    assert not jnp.any(moved[0])
    expected = 2.0 * (arms.features[1, :, 3] if kind == SHARED else np.eye(ARMS)[3])
    np.testing.assert_allclose(moved[1], expected, atol=1e-5)


def test_training_on_stored_pairs_ends_at_the_policy_of_the_game():
    """Average eta 0.2 with beta 0.5 is eta 0.4 of the game; each seed ends at the optimum of its own pairs.

    What is left is with the arms that never win, which lose their probability as 1 / t.
    """
    arms = Arms(SEEDS)
    found = trained(arms, TABULAR, "rpo(beta=0.5, eta=0.2)", 0.2, 0.5, 2000, 500)
    game = cautious(arms, 0.5, 0.4)
    assert found.steps[-1] == 2000
    for name in ("value", "chosen", "divergence"):
        left = np.abs(found.values[name] - game.values[name])
        assert (left[:, 4] < 0.6 * left[:, 2]).all()
        assert (left[:, 2] < 0.6 * left[:, 1]).all()
        np.testing.assert_allclose(found.values[name][:, 4], game.values[name][:, 0], atol=0.03)
