import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.search_agents.tables import Settings
from experiments.search_strata.searchers import (
    BLENDS,
    EQUAL,
    GRPO,
    IPS,
    LONGER,
    NAMES,
    SAN,
    SHORTER,
    TASK,
    VALUE,
    RunningBaseline,
    ShuffledStrata,
    measures,
    objective_of,
    prior,
    reward_table,
    trained,
    two_strata,
)
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.structures import Sizes
from ipsrl.synthetic_rollouts import synthetic_rollouts

MEASURES = jax.jit(measures)


def measured(logits, regime):
    found = MEASURES({"logits": jnp.asarray(logits, jnp.float32)}, jnp.asarray(reward_table(regime)))
    return {name: float(value) for name, value in found.items()}


def test_the_prior_knows_the_short_way_only():
    found = {regime: measured(prior(), regime) for regime in (EQUAL, LONGER, SHORTER)}
    short = 0.6 * 0.9 * 0.6  # asks right, names the result, and stops
    for values in found.values():
        assert sum(values[f"look_ups_{number}"] for number in range(4)) == pytest.approx(1)
        assert values["look_ups_0"] == pytest.approx(0.4 / 6)
        assert values["long"] == pytest.approx(values["look_ups_2"] + values["look_ups_3"])
        assert values["long_skill"] < 0.25
        assert 1 < values["behaviours"] < 20
    # With equal worth the rest is right after one look-up by another relation that leads to the answer, in two prompts.
    assert 0 <= found[EQUAL]["reward"] - short - found[EQUAL]["long"] * found[EQUAL]["long_skill"] < 0.05
    assert 0.4 * short < found[LONGER]["reward"] < found[EQUAL]["reward"] < 0.5
    assert short < found[SHORTER]["reward"] < found[EQUAL]["reward"]


def test_a_better_policy_measures_better():
    logits = np.full((8, 4, 8, 9, TASK.vocabulary_size), -9.0)
    logits[:, :, np.arange(8), -1, 4 + np.arange(8)] = 0.0
    for prompt in range(TASK.problems):
        at = int(TASK.starts[prompt])
        for queries, relation in enumerate(TASK.questions[prompt][1]):
            logits[prompt, queries, at, at, TASK.first_word + relation] = 0.0
            at = int(TASK.heads[relation, at])
        logits[prompt, 3, at, at, 1] = 0.0
    found = measured(logits.reshape(prior().shape), LONGER)
    assert [found[name] for name in ("reward", "long", "long_skill")] == pytest.approx([1.0] * 3, abs=0.02)
    assert 1 <= found["behaviours"] < 1.5


def test_training_depends_on_its_regime_its_rate_and_its_seed():
    settings = Settings(seeds=(0, 1), group_size=8, intervals=2, steps_between=3)
    runs = (EQUAL, 64.0), (LONGER, 64.0), (EQUAL, 1e-6)
    equal, longer, slow = (trained(objective_of(GRPO), *run, settings) for run in runs)
    for found, regime in ((equal, EQUAL), (longer, LONGER)):
        assert found["reward"].shape == (2, 3)
        assert found["reward"][0, 0] != found["reward"][1, 0]
        assert found["reward"][:, 0] == pytest.approx(measured(prior(), regime)["reward"], abs=0.05)
    assert (equal["reward"][:, -1] > equal["reward"][:, 0] + 0.1).all()
    assert slow["reward"][:, -1] == pytest.approx(np.asarray(slow["reward"][:, 0]), abs=1e-3)
    # At first only the worth differs.
    for name in ("long", "long_skill", "behaviours"):
        assert (equal[name][:, 0] == longer[name][:, 0]).all()


def test_two_strata_without_noise():
    found = {}
    for arm in (GRPO, SAN, *BLENDS, IPS):
        of_arm = two_strata(objective_of(arm, "first_token"), 100, 4, 4.0)
        found[arm] = {name: values[0] for name, values in of_arm.items()}
    for values in found.values():
        assert (values["better"][0], values["reward"][0]) == pytest.approx((0.5, 0.45), abs=1e-6)
    assert abs(found[SAN]["drift"][0]) < 1e-6
    assert found[SAN]["better"] == pytest.approx(0.5, abs=1e-4)
    assert found[SAN]["reward"][-1] > 0.7
    # Only GRPO's part of the advantages tells strata apart.
    for arm, alpha in BLENDS.items():
        assert found[arm]["drift"][0] == pytest.approx((1 - alpha) * found[GRPO]["drift"][0], rel=1e-4)
        assert found[arm]["better"][-1] > 0.9
    assert found[IPS]["drift"][0] > 0


def test_a_running_baseline_follows_the_groups():
    rollouts, _ = synthetic_rollouts(0, prompts=2, group=2, length=4)
    part, state = RunningBaseline(0.5), RunningBaseline(0.5).init(Sizes(2))
    batch = dataclasses.replace(rollouts, prompt_index=jnp.array([1, 0]))
    values, state = part.update_state(jnp.array([[1.0, 0.0], [1.0, 1.0]]), batch, state)
    assert values.tolist() == [[0.5, -0.5], [0.0, 0.0]]
    assert state.tolist() == [1.0, 0.5]
    values, state = part.update_state(jnp.array([[1.0, 1.0], [0.0, 0.0]]), batch, state)
    assert values.tolist() == [[0.5, 0.5], [-1.0, -1.0]]
    assert state.tolist() == [0.5, 0.75]


def test_shuffled_strata_are_the_same_strata_at_random():
    rollouts, _ = synthetic_rollouts(0, prompts=64, group=4, length=4)
    keys = jax.random.split(jax.random.key(0), 64)
    one = jnp.zeros_like(rollouts.token_mask)
    rewards = jnp.tile(jnp.array([1.0, 0.0, 0.0, 1.0]), (64, 1))
    alike = dataclasses.replace(rollouts, keys=keys, planning_mask=one)
    whole = GroupMeanStd()(rewards, rollouts)
    assert np.asarray(ShuffledStrata()(rewards, alike)) == pytest.approx(np.asarray(whole), abs=1e-6)
    mask = jnp.ones_like(one).at[:, 2:].set(False)
    two = dataclasses.replace(rollouts, keys=keys, token_mask=jnp.ones_like(one), planning_mask=mask)
    # Strata of two: an answer differs from the other of its stratum, or has none of its own advantage.
    found = np.asarray(ShuffledStrata(1.0)(rewards, two))
    assert set(np.unique(found).tolist()) == {-1.0, 0.0, 1.0}
    assert (found == 0).all(axis=1).mean() == pytest.approx(1 / 3, abs=0.2)


def test_every_arm_has_an_objective_of_its_own():
    made = [objective_of(arm) for arm in NAMES]
    assert len(set(made)) == len(NAMES)
    assert {type(objective.aggregation) for objective in made} == {type(made[0].aggregation)}
    assert objective_of(VALUE).advantages == RunningBaseline()
