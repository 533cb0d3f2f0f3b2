import numpy as np
import pytest
from scipy.special import expit, softmax

from experiments.divergences.preferred_actions import (
    ACTIONS,
    LOSERS,
    PAIRS,
    REFERENCES,
    WINNERS,
    Problems,
    at_optimum,
    by_pairs,
    by_penalty,
    calibration_error,
    error_in_bins,
    exact_preferences,
    fitted_rewards,
    mean_losses,
    minimisers,
    total_error,
)
from experiments.divergences.regularised_optima import regularised_optimum

SEEDS = (0, 1)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("divergence", ["reverse_kl", "forward_kl", "jensen_shannon", "alpha"])
def test_exact_preferences_end_at_the_regularised_optimum(divergence, reference):
    """The check of the study on one weight, to 1e-4 of pi / ref, the smallest one included."""
    assert exact_preferences(divergence, 0.3, Problems(SEEDS, reference)).values["error"] < 1e-5


def test_pairs_are_of_different_actions_and_won_as_often_as_the_model_says():
    problems = Problems((3,))
    winner, loser = PAIRS[problems.pairs(200_000)[0]].T
    assert (winner != loser).all()
    best, worst = problems.rewards[0].argmax(), problems.rewards[0].argmin()
    won, lost = ((winner == best) & (loser == worst)).sum(), ((winner == worst) & (loser == best)).sum()
    chance = expit(np.ptp(problems.rewards[0]))
    assert won / (won + lost) == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / (won + lost)))
    assert won + lost == pytest.approx(200_000 / 435, abs=4 * np.sqrt(200_000 / 435))


def test_shares_of_exact_preferences():
    problems = Problems(SEEDS)
    shares = problems.preferred()
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0)
    first = (WINNERS == 0) & (LOSERS == 1)
    np.testing.assert_allclose(shares[:, first][:, 0], expit(problems.rewards[:, 0] - problems.rewards[:, 1]) / 435)


def test_fitted_rewards_solve_the_likelihood_and_every_divergence_ends_at_their_optimum():
    """At the maximum of a Bradley-Terry likelihood each action has won as often as its rewards say."""
    problems = Problems((0,))
    rewards, (winner, loser) = fitted_rewards((0,), 500)[0], PAIRS[problems.pairs(500)[0]].T
    expected = np.zeros(ACTIONS)
    for action, other in ((winner, loser), (loser, winner)):
        np.add.at(expected, action, expit(rewards[action] - rewards[other]))
    np.testing.assert_allclose(np.bincount(winner, minlength=ACTIONS), expected, atol=1e-4)

    shares = np.zeros((1, len(WINNERS)))
    for one, other in zip(winner, loser, strict=True):
        shares[0, (one == WINNERS) & (other == LOSERS)] += 1 / 500
    for divergence in ("forward_kl", "jensen_shannon"):
        fitted = minimisers(f"f_dpo(divergence={divergence}, beta=0.3)", problems.reference_logits, shares)
        wanted = regularised_optimum(rewards[None], problems.reference_probs, 0.3, divergence)
        np.testing.assert_allclose(softmax(fitted, axis=-1), wanted, rtol=1e-4)


def test_errors_of_calibration_by_hand():
    stated, truth = np.array([[0.05, 0.05, 0.95, 1.0]]), np.array([[0.0, 0.1, 0.75, 1.0]])
    assert calibration_error(stated, truth)[0] == pytest.approx(0.2 / 4)
    probs = np.zeros((1, ACTIONS))
    probs[0, :4] = [0.4, 0.3, 0.2, 0.1]
    truth = np.zeros((1, ACTIONS))
    truth[0, :4] = [0.3, 0.4, 0.1, 0.2]
    assert total_error(probs, truth)[0] == pytest.approx(0.4)
    # The three likeliest sum to 0.9 and 0.8, the next to 0.1 and 0.2.
    assert error_in_bins(probs, truth)[0] == pytest.approx(0.2)


@pytest.mark.parametrize("reference", REFERENCES)
def test_an_optimum_of_reverse_kl_is_on_its_own_path(reference):
    values = at_optimum("reverse_kl", 0.3, Problems(SEEDS, reference)).values
    assert np.abs(values["behind reverse KL"]).max() < 0.01
    assert values["distance"].max() < 1e-12
    assert values["error of preferences"].max() < 1e-12
    assert (at_optimum("forward_kl", 0.3, Problems(SEEDS, reference)).values["behind the best"] > 0.03).all()


def test_training_from_stored_pairs_ends_where_the_loss_is_least():
    problems = Problems(SEEDS)
    values = by_pairs("reverse_kl", 0.3, problems, 500, 400).values
    assert values["distance"].max() < 0.01
    assert problems.measured(problems.reference_logits, "reverse_kl", 0.3, pairs=500)["distance"].min() > 0.5


def test_mean_losses_by_hand():
    """At the reference all margins are 0; by DPO with beta = 1 a margin is the difference of the logits."""
    problems = Problems(SEEDS, "skewed")
    np.testing.assert_allclose(mean_losses("dpo", problems.reference_logits, problems, 50), np.log(2))
    logits = problems.reference_logits + problems.rewards
    winner, loser = PAIRS[problems.pairs(50)].transpose(2, 0, 1)
    margins = np.take_along_axis(problems.rewards, winner, -1) - np.take_along_axis(problems.rewards, loser, -1)
    wanted = -np.log(expit(margins)).mean(axis=-1)
    np.testing.assert_allclose(mean_losses("dpo(beta=1.0)", logits, problems, 50), wanted, rtol=1e-9)


def test_training_with_the_penalty_ends_at_the_optimum():
    values = by_penalty("jensen_shannon", 1.0, Problems(SEEDS), 600, 32).values
    assert values["distance"].max() < 0.05


def test_the_environment_pays_an_action_its_reward():
    """A skewed reference is where training starts; one step of size 0 leaves it."""
    problems = Problems(SEEDS, "skewed")
    logits = problems.trained("f_divergence(beta=0.3)", None, 1, 2, 1e-9)
    np.testing.assert_allclose(softmax(logits, axis=-1), problems.reference_probs, atol=1e-6)
    assert problems.environment.num_prompts == 2
