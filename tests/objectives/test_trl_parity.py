"""Our objectives give the losses and gradients of TRL's trainers (PyTorch) from the same rewards and log-probabilities.

How TRL's code is called: `trl_trainers.py`. Where the two differ on purpose, a test here states by how much; the
reasons are in docs/objectives.md. DPPO, KL-Cov and most others have no counterpart in TRL.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.structures import Sizes
from tests.objectives.groups import random_rollouts

pytest.importorskip("trl", reason="compares with TRL, which scripts/test.sh --slow installs")
from trl.rewards import get_soft_overlong_punishment

from tests.objectives import trl_trainers

pytestmark = [
    pytest.mark.slow,
    # TRL uses two names that transformers has renamed.
    pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning"),
]

LARGE = 1024.0
"""Beside rewards of this size TRL's epsilon, 1e-4, is nothing; ours may have any scale. A power of two changes no other
digit."""

EPSILON = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trl_trainers.save_model(tmp_path_factory.mktemp("model"))


def rollouts_with_ties(seed=0, scale=LARGE, group=4):
    """Four groups: rewards of 0, 1 and 2 times `scale`, the first group all equal; lengths from 1 to 6."""
    rollouts, scores = random_rollouts(seed, prompts=4, group=group, length=6)
    rewards = np.random.default_rng(seed).integers(0, 3, (4, group)).astype(np.float32)
    rewards[0] = 1.0
    rewards[1, :2] = 0.0, 2.0
    return dataclasses.replace(rollouts, rewards=jnp.asarray(scale * rewards)), scores


def made(text):
    """The objective, with TRL's standard deviation where it has one: that of G - 1."""
    objective = objectives.make(text)
    if not hasattr(objective.advantages, "unbiased"):
        return objective
    return dataclasses.replace(objective, advantages=dataclasses.replace(objective.advantages, unbiased=True))


def weighed(objective, rollouts):
    return objective.weigh(rollouts, objective.init(Sizes(len(rollouts.rewards))))[0]


def ours(objective, rollouts, scores, weights=None):
    """Loss, and its gradients by log-probabilities and by entropies."""
    weights = weighed(objective, rollouts) if weights is None else weights

    def loss(log_probs, entropy):
        output = objective.loss(dataclasses.replace(scores, log_probs=log_probs, entropy=entropy), rollouts, weights)
        return output.loss_sum / output.count

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(scores.log_probs, scores.entropy)
    return value, *gradients


def assert_same(actual, expected):
    """Gradients to 1e-5 of their largest entry; losses, in which terms of order one cancel, to 1e-6."""
    for value, wanted in zip(actual, expected, strict=True):
        tolerance = 1e-5 * np.abs(wanted).max() if np.ndim(wanted) else 1e-6
        np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance)


def assert_steps_are(expected, kind, folder, rollouts, scores, **options):
    """Compares steps in one piece and in several."""
    for micro_batches in (1, 4):
        assert_same(step_of(kind, folder, rollouts, scores, micro_batches, **options), expected)


def step_of(*arguments, **options):
    return trl_trainers.step(trl_trainers.trainer(*arguments, **options))


GRPO = trl_trainers.ScriptedGRPO
GMPO = trl_trainers.ScriptedGMPO
RLOO = trl_trainers.ScriptedRLOO
BY_ANSWER = {"loss_type": "grpo", "importance_sampling_level": "sequence"}
PLAIN_K3 = {"beta": 0.04, "use_bias_correction_kl": False}

# Our text, TRL's trainer, and its options.
ALIKE = [
    ("grpo", GRPO, {"loss_type": "grpo"}),
    ("grpo(clip=(0.1, 0.4))", GRPO, {"loss_type": "grpo", "epsilon": 0.1, "epsilon_high": 0.4}),
    ("grpo(dual_clip=1.3)", GRPO, {"loss_type": "grpo", "delta": 1.3}),
    ("grpo(kl=0.04)", GRPO, {"loss_type": "grpo", **PLAIN_K3}),
    ("grpo(kl=corrected_k3(0.04))", GRPO, {"loss_type": "grpo", "beta": 0.04}),
    ("dr_grpo", GRPO, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    ("dapo(overlong=0)", GRPO, {"loss_type": "dapo", "epsilon_high": 0.28}),
    ("lite_ppo", GRPO, {"loss_type": "dapo", "scale_rewards": "batch"}),
    ("gspo", GRPO, {**BY_ANSWER, "epsilon": 3e-4, "epsilon_high": 4e-4}),
    ("gspo(clip=0.1, kl=0.04)", GRPO, {**BY_ANSWER, "epsilon": 0.1, **PLAIN_K3}),
    ("gspo_token(clip=0.1)", GRPO, {**BY_ANSWER, "epsilon": 0.1}),
    ("luspo", GRPO, {**BY_ANSWER, "loss_type": "luspo", "epsilon": 2e-3, "epsilon_high": 2.5e-3}),
    ("luspo(clip=0.2)", GRPO, {**BY_ANSWER, "loss_type": "luspo"}),
    ("sapo", GRPO, {"loss_type": "sapo"}),
    (
        "sapo(temperature_positive=0.5, temperature_negative=3.0)",
        GRPO,
        {"loss_type": "sapo", "sapo_temperature_pos": 0.5, "sapo_temperature_neg": 3.0},
    ),
    ("vespo", GRPO, {"loss_type": "vespo"}),
    (
        "vespo(positive=(1.5, 0.5), negative=(0.5, 1.0))",
        GRPO,
        {
            "loss_type": "vespo",
            "vespo_k_pos": 1.5,
            "vespo_lambda_pos": 0.5,
            "vespo_k_neg": 0.5,
            "vespo_lambda_neg": 1.0,
        },
    ),
    ("gmpo", GMPO, {}),
    ("gmpo(clip=(0.1, 0.2), kl=0.04)", GMPO, {"epsilon": 0.1, "epsilon_high": 0.2, "beta": 0.04}),
    ("cispo(cap=1.2)", GRPO, {"loss_type": "cispo", "epsilon_high": 1.2}),
    ("rloo", RLOO, {"beta": 0.0}),
    ("rloo(kl=0.03, clip=(0.3, 0.5))", RLOO, {"beta": 0.03, "epsilon": 0.3, "epsilon_high": 0.5}),
]


@pytest.mark.parametrize(("text", "kind", "options"), ALIKE, ids=[row[0] for row in ALIKE])
def test_loss_and_gradient_are_those_of_trl(folder, text, kind, options):
    for seed in range(2):
        # Where no standard deviation divides, there is no epsilon, and rewards stay of order one.
        objective = made(text)
        rollouts, scores = rollouts_with_ties(seed, LARGE if hasattr(objective.advantages, "unbiased") else 1.0)
        expected = ours(objective, rollouts, scores)
        assert_steps_are(expected, kind, folder, rollouts, scores, **options)


def of_vllm(**options):
    """The options of corrections by their names in TRL."""
    return {f"vllm_importance_sampling_{name}": value for name, value in options.items()}


# Our text, TRL's trainer, and its options; with vLLM unless a sequence mask is compared.
CORRECTED = [
    ("grpo(correction=truncated(1.2))", GRPO, {"loss_type": "grpo", **of_vllm(mode="token_truncate", clip_max=1.2)}),
    (
        "grpo(kl=corrected_k3(0.04), correction=truncated(1.5, level=sequence))",
        GRPO,
        {"loss_type": "grpo", "beta": 0.04, **of_vllm(mode="sequence_truncate", clip_max=1.5)},
    ),
    (
        "dapo(overlong=0, correction=masked(0.8, 1.3))",
        GRPO,
        {"loss_type": "dapo", "epsilon_high": 0.28, **of_vllm(mode="token_mask", clip_min=0.8, clip_max=1.3)},
    ),
    # A mask of sequences is TRL's default.
    (
        "cispo(cap=1.2, correction=masked(0.0, 1.5, level=sequence))",
        GRPO,
        {"loss_type": "cispo", "epsilon_high": 1.2, **of_vllm(clip_max=1.5)},
    ),
    (
        "gspo(clip=0.1, correction=truncated(1.2))",
        GRPO,
        {**BY_ANSWER, "epsilon": 0.1, **of_vllm(mode="token_truncate", clip_max=1.2)},
    ),
    (
        "gspo(clip=0.1, correction=masked(0.6, 1.6, level=sequence))",
        GRPO,
        {**BY_ANSWER, "epsilon": 0.1, **of_vllm(clip_min=0.6, clip_max=1.6)},
    ),
    ("grpo(correction=sequence_mask(0.05))", GRPO, {"loss_type": "grpo", "off_policy_mask_threshold": 0.05}),
    ("sapo(correction=sequence_mask(0.1))", GRPO, {"loss_type": "sapo", "off_policy_mask_threshold": 0.1}),
]


@pytest.mark.parametrize(("text", "kind", "options"), CORRECTED, ids=[row[0] for row in CORRECTED])
def test_corrections_are_those_of_trl(folder, text, kind, options):
    vllm, objective = "sequence_mask(" not in text, made(text)
    for seed in range(2):
        rollouts, scores = rollouts_with_ties(seed)
        expected = ours(objective, rollouts, scores)
        assert_steps_are(expected, kind, folder, rollouts, scores, vllm=vllm, **options)
        changed = objective.correction(scores, rollouts, weighed(objective, rollouts).advantages)[1]
        assert 0 < changed["correction_fraction"][0] < changed["correction_fraction"][1]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 0.25)])
def test_several_rewards_are_normalised_one_by_one_as_in_trl(folder, weights):
    """Weights of TRL that are large leave no place for the epsilon that it adds to the standard deviation of sums."""
    objective = made(f"gdpo(weights={weights})")
    for seed in range(2):
        rollouts, scores = rollouts_with_ties(seed)
        parts = np.random.default_rng(seed + 7).integers(0, 3, (*rollouts.rewards.shape, 2)).astype(np.float32)
        parts[0], parts[1, :, 1] = 1.0, 2.0
        rollouts = dataclasses.replace(rollouts, reward_parts=jnp.asarray(LARGE * parts))
        options = {
            "loss_type": "grpo",
            "multi_objective_aggregation": "normalize_then_sum",
            "parts": True,
            "reward_weights": [LARGE * weight for weight in weights],
        }
        theirs = trl_trainers.advantages(trl_trainers.trainer(GRPO, folder, rollouts, scores, **options))
        np.testing.assert_allclose(weighed(objective, rollouts).advantages[..., 0], theirs, atol=1e-6)
        assert np.abs(theirs).max() > 1
        expected = ours(objective, rollouts, scores)
        assert_steps_are(expected, GRPO, folder, rollouts, scores, **options)


def test_overlong_punishment_is_that_of_trl(folder):
    rollouts, scores = rollouts_with_ties()
    punishment = get_soft_overlong_punishment(max_completion_len=6, soft_punish_cache=4)
    options = {"more_rewards": [punishment], "reward_weights": [1.0, LARGE], "epsilon_high": 0.28}
    objective = made(f"dapo(overlong=paper({LARGE}, limit=6, cache=4))")
    actual = step_of(GRPO, folder, rollouts, scores, loss_type="dapo", **options)
    assert_same(actual, ours(objective, rollouts, scores))


def test_entropy_bonus_is_that_of_trl_where_both_average_over_tokens(folder):
    rollouts, scores = rollouts_with_ties()
    actual = step_of(GRPO, folder, rollouts, scores, loss_type="dapo", entropy_coef=0.01)
    assert_same(actual, ours(made("grpo(entropy=0.01, aggregation=token_mean)"), rollouts, scores))


def on_first_update(rollouts, scores):
    """Scores of the policy that sampled: then the entropy when drawn, which ours look at, is that in training."""
    return dataclasses.replace(scores, entropy=rollouts.behaviour_entropy)


def test_forking_tokens_are_those_of_trl(folder):
    for seed in range(2):
        rollouts, scores = rollouts_with_ties(seed)
        scores = on_first_update(rollouts, scores)
        options = {"loss_type": "dapo", "epsilon_high": 0.28, "top_entropy_quantile": 0.3}
        actual = step_of(GRPO, folder, rollouts, scores, **options)
        text = "forking_tokens(fraction=0.3, threshold=quantile, denominator={})"
        assert_same(actual, ours(made(text.format("all")), rollouts, scores))
        # The paper's mean is over the tokens that are kept: its steps are larger by the inverse of their share.
        entropy = np.asarray(rollouts.behaviour_entropy)[np.asarray(rollouts.token_mask)]
        share = (entropy >= np.quantile(entropy, 0.7)).mean()
        expected = ours(made(text.format("kept")), rollouts, scores)
        assert_same([part / share for part in actual], expected)


def test_adaptive_entropy_bonus_is_that_of_trl(folder):
    """Batch after batch: the entropy crosses the target both ways, so that the bonus is on, off, and on again."""
    rollouts, scores = rollouts_with_ties()
    options = {"use_adaptive_entropy": True, "entropy_target": 1.0, "entropy_coef_delta": 0.02}
    trainer = trl_trainers.trainer(GRPO, folder, rollouts, scores, loss_type="dapo", **options)
    objective = made("skywork_entropy(target=1.0, step=0.02)")
    state, bonuses = objective.init(Sizes(4)), []
    for scale in (0.5, 0.6, 0.4, 1.5, 0.5, 0.7):
        rollouts = dataclasses.replace(rollouts, behaviour_entropy=scale * scores.entropy)
        now = on_first_update(rollouts, scores)
        fresh = trl_trainers.Script(rollouts, now)
        trainer.script = fresh
        weights, state, _ = objective.weigh(rollouts, state)
        actual = trl_trainers.step(trainer)
        assert_same(actual, ours(objective, rollouts, now, weights))
        bonuses.append(np.abs(actual[2]).max() > 0)
    assert bonuses == [False, True, True, True, False, True]


PREFERENCES = [
    ("dpo(beta=0.3)", {"beta": 0.3}),
    ("f_dpo(divergence=reverse_kl, beta=0.3)", {"beta": 0.3, "f_divergence_type": "reverse_kl"}),
    ("f_dpo(divergence=forward_kl, beta=0.3)", {"beta": 0.3, "f_divergence_type": "forward_kl"}),
    ("f_dpo(divergence=jensen_shannon, beta=0.3)", {"beta": 0.3, "f_divergence_type": "js_divergence"}),
    (
        "f_dpo(divergence=alpha, alpha=0.3, beta=0.3)",
        {"beta": 0.3, "f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 0.7},
    ),
    ("ipo(beta=0.3)", {"beta": 0.3, "loss_type": ["ipo"]}),
]


def pairs(seed=0, prompts=6):
    rollouts, scores = random_rollouts(seed, prompts, group=2, length=6)
    winner = np.random.default_rng(seed).integers(0, 2, prompts)
    return dataclasses.replace(rollouts, rewards=jnp.stack([winner, 1.0 - winner], axis=-1)), scores


@pytest.mark.parametrize(("text", "options"), PREFERENCES, ids=[row[0] for row in PREFERENCES])
def test_preference_losses_are_those_of_trl(folder, text, options):
    for seed in range(2):
        rollouts, scores = pairs(seed)
        expected = ours(made(text), rollouts, scores)[:2]
        for micro_batches in (1, 3):
            actual = trl_trainers.preference_step(folder, rollouts, scores, micro_batches, **options)
            assert_same(actual, expected)


RPO = {"beta": 0.5, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2]}


def test_rpo_is_that_of_trl_where_winners_are_equally_long(folder):
    rollouts, scores = pairs()
    won = (rollouts.rewards > 0)[..., None]
    rollouts = dataclasses.replace(rollouts, token_mask=jnp.where(won, jnp.arange(6) < 4, rollouts.token_mask))
    expected = ours(made("rpo"), rollouts, scores)[:2]
    for micro_batches in (1, 3):
        assert_same(trl_trainers.preference_step(folder, rollouts, scores, micro_batches, **RPO), expected)


@pytest.mark.parametrize(("beta1", "beta2"), [(0.5, 1e-3), (0.2, 0.7)])
def test_regression_is_that_of_trl(folder, beta1, beta2):
    """The first groups come from the reference, as TRL's do before training; the others from anywhere."""
    for seed in range(2):
        rollouts, scores = rollouts_with_ties(seed, scale=1.0)
        first, _ = rollouts_with_ties(seed + 2, scale=1.0)
        first = dataclasses.replace(first, reference_log_probs=first.behaviour_log_probs)
        objective = made(f"a2po(beta1={beta1}, beta2={beta2})")
        _, state, _ = objective.weigh(first, objective.init(Sizes(4)))
        weights, _, _ = objective.weigh(rollouts, state)
        expected = ours(objective, rollouts, scores, weights)[:2]
        actual = trl_trainers.regression_step(folder, first, rollouts, scores, beta1=beta1, beta2=beta2)
        assert_same(actual, expected)


# Differences on purpose, and their size. Their reasons are in docs/objectives.md.


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
