"""Our objectives give the losses and gradients of TRL's trainers (PyTorch) from the same rewards and log-probabilities.

How TRL's code is called: `trl_trainers.py`. Where the two differ on purpose: `test_trl_differences.py`. DPPO, KL-Cov
and most others have no counterpart in TRL.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.structures import Sizes

pytest.importorskip("trl", reason="compares with TRL, which scripts/test.sh --slow installs")
from trl.rewards import get_soft_overlong_punishment

from tests.objectives import trl_trainers
from tests.objectives.beside_trl import (
    GRPO,
    LARGE,
    RPO,
    assert_same,
    made,
    ours,
    pairs,
    rollouts_with_ties,
    step_of,
    weighed,
)

pytestmark = [
    pytest.mark.slow,
    # TRL uses two names that transformers has renamed.
    pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trl_trainers.save_model(tmp_path_factory.mktemp("model"))


def assert_steps_are(expected, kind, folder, rollouts, scores, **options):
    """Compares steps in one piece and in several."""
    for micro_batches in (1, 4):
        assert_same(step_of(kind, folder, rollouts, scores, micro_batches, **options), expected)


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


@pytest.mark.parametrize(("text", "options"), PREFERENCES, ids=[row[0] for row in PREFERENCES])
def test_preference_losses_are_those_of_trl(folder, text, options):
    for seed in range(2):
        rollouts, scores = pairs(seed)
        expected = ours(made(text), rollouts, scores)[:2]
        for micro_batches in (1, 3):
            actual = trl_trainers.preference_step(folder, rollouts, scores, micro_batches, **options)
            assert_same(actual, expected)


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
