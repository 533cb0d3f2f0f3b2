import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.evolution.smoothed_return import smoothed_velocity
from experiments.evolution.strategies import EvolutionTrainer, paired_noise
from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings

LOGITS, REWARDS = (0.5, 0.0, -0.5), (1.0, 0.5, 0.0)


def trainer(objective="reinforce", noise=1.0, rewards=REWARDS, **changed):
    bandit = Bandit(rewards)
    settings = {"steps": 1, "prompts_per_step": 1, "group_size": 16, "optimizer": "sgd", "learning_rate": 1.0}
    return EvolutionTrainer(
        bandit,
        Tabular(bandit.num_observations, 3, LOGITS),
        objectives.make(objective),
        TrainSettings(max_gradient_norm=None, **settings | changed),
        noise=noise,
    )


def steps(trainer, seeds):
    """`[S, P, 3]`, how far the first step of each seed moves the logits."""
    logits = train_ensemble(trainer, jnp.arange(seeds), itself)["logits"]
    return np.asarray(logits[:, 1] - logits[:, 0], np.float64)


def test_the_mean_step_is_the_gradient_of_the_smoothed_return_averaged_over_prompts():
    noise, rewards = 0.5, (REWARDS, (0.0, 0.0, 4.0))
    found = steps(trainer(noise=noise, rewards=rewards, prompts_per_step=2), 20_000)
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
    expected, other = (
        np.stack([smoothed_velocity(np.array(LOGITS), np.array(of_prompt), each) for of_prompt in rewards]) / 2
        for each in (noise, 2 * noise)
    )
    assert np.all(np.abs(mean - expected) < 4 * error)
    # Precise enough to tell the gradient of another noise.
    assert np.any(np.abs(mean - other) > 8 * error)


def test_a_baseline_changes_nothing_because_noise_comes_in_pairs():
    with_baseline, without = (steps(trainer(name), 5) for name in ("dr_grpo", "reinforce"))
    np.testing.assert_allclose(with_baseline, without, atol=1e-5)
    assert np.abs(without).min() > 1e-3


def test_standardised_rewards_have_no_scale():
    large, small = (steps(trainer("grpo", rewards=rewards), 5) for rewards in ((10.0, 5.0, 0.0), REWARDS))
    np.testing.assert_allclose(large, small, rtol=1e-4)


@pytest.mark.parametrize("objective", ["grpo", "dr_grpo"])
def test_equal_rewards_move_nothing(objective):
    assert not steps(trainer(objective, rewards=(0.7, 0.7, 0.7)), 5).any()


def test_nearly_greedy_members_are_rewarded_for_their_likeliest_answer():
    """With little noise all members give the first answer."""
    assert not steps(trainer("grpo", noise=0.01, temperature=1e-3), 5).any()
    assert steps(trainer("grpo", noise=0.01), 5).any()


def test_runs_are_the_same_alone_and_every_step_has_noise_of_its_own():
    """With one pair of members a step moves along its noise."""
    together = train_ensemble(trainer(steps=3, group_size=2), jnp.arange(20), itself)["logits"]
    alone = train_ensemble(trainer(steps=3, group_size=2), jnp.arange(19, 20), itself)["logits"]
    np.testing.assert_allclose(together[19:], alone, atol=1e-6)
    moved = np.diff(np.asarray(together)[:, :, 0], axis=1)
    one, next_one = moved[:, :-1].reshape(-1, 3), moved[:, 1:].reshape(-1, 3)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(next_one, axis=1)
    assert (lengths > 0).sum() > 10
    assert (np.abs((one * next_one).sum(axis=1))[lengths > 0] < 0.999 * lengths[lengths > 0]).all()


def test_noise_comes_in_pairs_of_opposite_sign():
    noise = paired_noise(
        jax.random.key(0), {"a": jnp.zeros((20, 30)), "b": jnp.zeros((20, 30)), "c": jnp.zeros(())}, 64
    )
    assert noise["c"].shape == (64,)
    for leaf in noise.values():
        np.testing.assert_array_equal(leaf[:32], -leaf[32:])
    assert noise["a"].std() == pytest.approx(1.0, abs=0.02)
    assert abs(np.corrcoef(noise["a"].ravel(), noise["b"].ravel())[0, 1]) < 0.02
