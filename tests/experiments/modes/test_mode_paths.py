"""Paths on a tiny mode bandit, the toy of our notes on Thinkless: exact, and by samples."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from experiments.modes import mode_paths
from experiments.modes.mode_bandit import ModeBandit
from experiments.modes.mode_paths import Update, exact_path, points, sampled_paths, settled
from ipsrl.objectives import make

WORLD = ModeBandit(ceilings=(1.0, 0.2))
BREAK_EVEN = 0.45  # of the short skill at the easy difficulty: what thinking pays there, (1 - gamma) 0.9
UPDATES = 160


@functools.cache
def path(objective, fixed=False, short=0.12):
    world = dataclasses.replace(WORLD, fixed=fixed)
    found = exact_path(world, Update(make(objective), group_size=4), world.prior(short), UPDATES, 1.0)
    return {name: np.asarray(values) for name, values in found.items()}


def test_normalised_by_sequence_the_mode_saturates_before_the_short_skill_is_worth_it():
    """Later the skill still grows, by the rare short answers that have the largest advantages of their groups."""
    found = path("grpo")
    after = settled(found["share"])
    assert after < UPDATES
    assert found["short"][after] < BREAK_EVEN
    assert (found["thinking"][after] > 0.98).all()


def test_the_same_policy_keeps_both_modes_if_its_short_skill_is_there_from_the_start():
    found = path("grpo", fixed=True, short=0.83)
    assert settled(found["share"]) == UPDATES
    assert found["thinking"][-1, 0] < 0.3
    assert found["thinking"][-1, 1] > 0.7
    np.testing.assert_allclose(found["short"], 0.83, rtol=1e-5)
    # A short skill that stays low is no reason not to think.
    assert settled(path("grpo", fixed=True)["share"]) < UPDATES


def test_a_small_weight_of_the_control_token_lets_the_short_skill_grow():
    found = path("degrpo(alpha=1e-4)")
    assert settled(found["share"]) == UPDATES
    assert found["short"][-1] > 0.83
    np.testing.assert_allclose(found["thinking"], 0.5, atol=0.01)


def test_the_mean_of_sampled_runs_begins_as_the_exact_path():
    how = WORLD, Update(make("dr_grpo"), group_size=4), WORLD.prior(0.3, 0.7), 4, 0.5
    exact, runs = exact_path(*how), sampled_paths(*how, range(512))
    for name in ("thinking", "short", "think"):
        values = np.asarray(runs[name], np.float64)
        assert values.shape == (512, 5, *np.shape(exact[name])[1:])
        error = values.std(axis=0) / np.sqrt(512)
        moved = np.abs(values[0, 0] - exact[name][-1])
        assert (np.abs(values.mean(axis=0) - exact[name]) <= 4 * error + 0.1 * moved.max() + 1e-6).all()


def test_the_inner_adaptation_goes_a_step_with_each_difficulty():
    prior, objective = WORLD.prior(0.3), make("dr_grpo")
    alone = [Update(objective, group_size=3).expected]
    both = Update(objective, group_size=3, inner=2.0).expected(WORLD, prior, prior)
    of_each = []
    for prompt in range(2):
        world = dataclasses.replace(WORLD, ceilings=WORLD.ceilings[prompt : prompt + 1])
        one = prior | {"own": prior["own"][prompt : prompt + 1]}
        first = alone[0](world, one, one)
        of_each.append(alone[0](world, jax.tree.map(lambda x, by: x + 2.0 * by, one, first), one))
    for name in ("shared", "skill"):
        np.testing.assert_allclose(both[name], (of_each[0][name] + of_each[1][name]) / 2, rtol=1e-4)
    np.testing.assert_allclose(both["own"], [float(each["own"][0]) / 2 for each in of_each], rtol=1e-4)


def test_forced_answers_train_the_skill_of_a_mode_that_is_never_chosen():
    """With a short share of 1e-4 only forced answers are short, and no choice is forced into learning."""
    prior = WORLD.prior(thinking=1 - 1e-4)
    update, forced = Update(make("grpo"), group_size=4), dataclasses.replace(WORLD, forced=True)
    free, helped = (sampled_paths(world, update, prior, 20, 4.0, range(4)) for world in (WORLD, forced))
    assert (np.asarray(free["short"][:, -1]) < 0.13).all()
    assert (np.asarray(helped["short"][:, -1]) > 0.3).all()


def test_what_became_of_the_modes():
    share = np.array([[0.5, 0.995, 0.7], [0.5, 0.3, 0.005], [0.5, 0.5, 0.5]])
    thinking = np.stack([share - 0.1, share + 0.1], axis=-1)
    found = dict.fromkeys(("share", "short", "think", "reward"), share) | {"thinking": thinking}
    values = mode_paths.described(found, WORLD, 10, 0.01)
    assert values["collapsed"].tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert values["short_then"][:, 0].tolist() == [0.995, 0.005, 0.5]
    np.testing.assert_allclose(values["fits"], 0.2)
    np.testing.assert_allclose(values["kilotokens"][0], np.cumsum([0, 0.22, 0.02 * (2 + 18 * 0.995)]))
    forced = mode_paths.described(found, dataclasses.replace(WORLD, forced=True), 10, 0.01)
    np.testing.assert_allclose(forced["kilotokens"][0, 2], 0.22 + 0.02 * (2 + 18 * (0.995 / 2 + 0.25)))


def test_an_update_with_an_inner_step_counts_twice_on_a_curve():
    """It takes twice as many answers, so that curves have equally many of them at equal places."""
    one, two = (
        points(WORLD, Update(make("dr_grpo"), 3, inner), WORLD.prior(), range(9), 1.0, None, 0.01)
        for inner in (0.0, 2.0)
    )
    assert one.steps.tolist() == list(range(9))
    assert two.steps.tolist() == [0, 2, 4, 6, 8]
    # The path begins with a half that thinks: 11 tokens on average, in 3 answers to each of two prompts.
    assert one.values["kilotokens"][0, 1] == pytest.approx(0.066)
    assert "kilotokens" not in two.values
