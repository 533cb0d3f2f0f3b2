"""Where our objectives differ from TRL's on purpose, and by how much; the reasons are in docs/objectives.md."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from tests.objectives.groups import random_rollouts

pytest.importorskip("trl", reason="compares with TRL, which scripts/test.sh --slow installs")
from tests.objectives import trl_trainers
from tests.objectives.beside_trl import GRPO, RPO, assert_same, made, ours, pairs, rollouts_with_ties, step_of, weighed

pytestmark = [
    pytest.mark.slow,
    # TRL uses two names that transformers has renamed.
    pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning"),
]

EPSILON = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trl_trainers.save_model(tmp_path_factory.mktemp("model"))


def test_standard_deviation_and_epsilon(folder):
    rollouts, scores = rollouts_with_ties(scale=1.0)
    theirs = trl_trainers.advantages(trl_trainers.trainer(GRPO, folder, rollouts, scores, loss_type="grpo"))
    std = np.std(rollouts.rewards, axis=-1, ddof=1, keepdims=True)
    expected = theirs * (std + EPSILON) / np.where(std > 0, std, 1.0)

    np.testing.assert_allclose(weighed(made("grpo"), rollouts).advantages[..., 0], expected, rtol=1e-6)
    # The population's standard deviation is smaller, by sqrt((G - 1) / G).
    populations = weighed(objectives.make("grpo"), rollouts).advantages[..., 0]
    np.testing.assert_allclose(populations, np.sqrt(4 / 3) * expected, rtol=1e-6)


def test_equal_rewards(folder):
    """The mean of 16 equal float32 numbers is not always that number; TRL divides what is left over by about 1e-4."""
    for reward, size in ((0.7, 6e-4), (10.1, 9e-3), (1000.1, 0.37)):
        rollouts, scores = random_rollouts(prompts=1, group=16, length=2)
        rollouts = dataclasses.replace(rollouts, rewards=jnp.full((1, 16), reward))
        theirs = trl_trainers.advantages(trl_trainers.trainer(GRPO, folder, rollouts, scores, loss_type="grpo"))
        np.testing.assert_allclose(np.abs(theirs).max(), size, rtol=0.1)
        assert not np.asarray(weighed(made("grpo"), rollouts).advantages).any()


def subset(rollouts, rows):
    """The rollouts with only some answers, numbered prompt by prompt, left in the loss."""
    chosen = np.isin(np.arange(rollouts.rewards.size), rows).reshape(rollouts.rewards.shape)
    return dataclasses.replace(rollouts, token_mask=rollouts.token_mask & chosen[..., None])


def test_token_mean_of_the_batch_and_of_micro_batches(folder):
    """TRL's `bnpo` is our token mean on one micro-batch; on several, a mean of their means."""
    rollouts, scores = rollouts_with_ties()
    objective = made("grpo(aggregation=token_mean)")
    whole, weights = ours(objective, rollouts, scores), weighed(objective, rollouts)
    assert_same(step_of(GRPO, folder, rollouts, scores, loss_type="bnpo"), whole)
    trainer = trl_trainers.trainer(GRPO, folder, rollouts, scores, 4, loss_type="bnpo")
    theirs = trl_trainers.step(trainer)
    parts = [ours(objective, subset(rollouts, rows), scores, weights) for rows in trainer.script.micro_batches]
    assert_same(theirs, [sum(part) / 4 for part in zip(*parts, strict=True)])
    assert abs(theirs[0] / whole[0] - 1) > 0.05


def test_entropy_bonus_of_answers_and_of_tokens(folder):
    """TRL's bonus is a mean over tokens whatever the loss is; ours is aggregated as the surrogate is."""
    rollouts, scores = rollouts_with_ties()
    theirs = step_of(GRPO, folder, rollouts, scores, loss_type="grpo", entropy_coef=0.01)
    mask = np.asarray(rollouts.token_mask)
    surrogate, expected_by_log_probs, _ = ours(made("grpo"), rollouts, scores)
    bonus = 0.01 * np.asarray(scores.entropy)[mask].mean()
    over_tokens = -0.01 * mask / mask.sum()
    assert_same(theirs, (surrogate - bonus, expected_by_log_probs, over_tokens))
    over_answers = -0.01 * mask / mask.sum(-1, keepdims=True) / 16
    assert_same([ours(made("grpo(entropy=0.01)"), rollouts, scores)[2]], [over_answers])


@pytest.mark.parametrize("by", ["tokens", "answers"])
def test_truncated_answers(folder, by):
    """Both drop their tokens from the mean over tokens; TRL goes on counting them as answers."""
    rollouts, scores = rollouts_with_ties()
    truncated = jnp.arange(16).reshape(4, 4) % 3 == 0
    rollouts = dataclasses.replace(rollouts, truncated=truncated)
    options = {"mask_truncated_completions": True}
    if by == "tokens":
        options |= {"loss_type": "dapo", "epsilon_high": 0.28}
        text, factor = "dapo(overlong=0, overlong_filter=True)", 1
    else:
        options |= {"loss_type": "grpo", "epsilon_high": 0.28}
        text, factor = "dapo(overlong=0, overlong_filter=True, aggregation=sequence_mean)", 16 / 10
    expected = ours(made(text), rollouts, scores)
    theirs = step_of(GRPO, folder, rollouts, scores, **options)
    assert_same([factor * part for part in theirs], expected)


def test_ratio_of_a_stale_token(folder):
    """Ours stops at exp(20), without gradient; TRL's goes on, and is as large as float32 goes."""
    rollouts, scores = rollouts_with_ties()
    objective = made("grpo")
    advantages = np.where(rollouts.token_mask, weighed(objective, rollouts).advantages, 0.0)
    stale = np.unravel_index(np.argmin(advantages), (4, 4, 6))
    behaviour = rollouts.behaviour_log_probs.at[stale].set(-25.0)
    rollouts = dataclasses.replace(rollouts, behaviour_log_probs=behaviour)
    scores = dataclasses.replace(scores, log_probs=scores.log_probs.at[stale].set(0.0))
    value, by_log_probs, _ = step_of(GRPO, folder, rollouts, scores, loss_type="grpo")
    expected, expected_by_log_probs, _ = ours(objective, rollouts, scores)
    np.testing.assert_allclose(value / expected, np.exp(5.0), rtol=1e-4)
    assert by_log_probs[stale] > 1e8
    assert expected_by_log_probs[stale] == 0.0


def test_imitation_of_winners_of_unequal_length(folder):
    """TRL's mean of the winners' log-probabilities is over all their tokens; ours over pairs, of each winner's mean."""
    rollouts, scores = pairs()
    value, _ = trl_trainers.preference_step(folder, rollouts, scores, **RPO)
    won = np.asarray(rollouts.rewards > 0)
    mask, log_probs = np.asarray(rollouts.token_mask)[won], np.asarray(scores.log_probs)[won]
    dpo = ours(made("dpo(beta=0.5)"), rollouts, scores)[0]
    np.testing.assert_allclose(value, dpo - 0.2 * log_probs[mask].mean(), rtol=1e-5)
    each = (log_probs * mask).sum(-1) / mask.sum(-1)
    np.testing.assert_allclose(ours(made("rpo"), rollouts, scores)[0], dpo - 0.2 * each.mean(), rtol=1e-5)


def test_answer_that_the_reference_would_give(folder):
    """Beyond log-ratios of 10, ours is without gradient; the losses of forward KL differ by the power of e left out."""
    rollouts, scores = pairs()
    won = (rollouts.rewards > 0)[..., None] & (jnp.arange(6) == 0)
    behind = jnp.where(won, scores.log_probs + 15.0, scores.log_probs)
    rollouts = dataclasses.replace(rollouts, reference_log_probs=behind)
    options = {"beta": 0.3, "f_divergence_type": "forward_kl"}
    value, by_log_probs = trl_trainers.preference_step(folder, rollouts, scores, **options)
    expected = ours(made("f_dpo(divergence=forward_kl, beta=0.3)"), rollouts, scores)
    np.testing.assert_allclose(value / expected[0], np.exp(5.0), rtol=1e-2)
    assert (by_log_probs[won] < -1e4).all()
    assert not np.asarray(expected[1])[won].any()
