import dataclasses

import jax
import numpy as np
import pytest

from experiments import path_multiplicity
from experiments.launch import Output
from experiments.path_multiplicity import Settings, UncorrectedTree
from ipsrl import objectives
from ipsrl.environments.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.training.groups import sample_and_verify

REWARDS = (0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
TWELVE = ",".join(f"ips_grpo(floor=0.{number})" for number in range(11, 23))
SHORT = Settings(seeds="0:8", steps=1000, record_every=500)


def test_all_but_the_backward_policy_is_that_of_the_tree():
    rollouts = {}
    for kind in (Tree, UncorrectedTree):
        environment = kind(7, 1, REWARDS)
        policy = Tabular(environment.num_observations, environment.vocabulary_size)
        parameters = policy.init(jax.random.key(0))
        prompts = environment.prompts(np.zeros(1, np.int32))
        rollouts[kind] = sample_and_verify(environment, policy, parameters, prompts, jax.random.key(1), 64, 1.0, 0)[1]
    with_zeros = dataclasses.replace(rollouts[Tree], log_backward=np.zeros_like(rollouts[Tree].log_backward))
    assert np.any(rollouts[Tree].log_backward < 0)
    jax.tree.map(np.testing.assert_array_equal, rollouts[UncorrectedTree], with_zeros)


def test_measures_are_of_the_two_rewarded_ends():
    law = np.array([[[0.5, 0.1, 0.1, 0.3], [0.0, 0.5, 0.0, 0.5]]])
    measures = path_multiplicity.measure(law, more_paths=3, fewer_paths=1)
    np.testing.assert_allclose(measures["share"], [[0.75, 0.5]])
    np.testing.assert_allclose(measures["reward"], [[0.4, 1.0]])
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    np.testing.assert_allclose(measures["effective_outcomes"], [[np.exp(entropy), 2.0]], rtol=1e-6)


def test_seeds_are_counted_by_where_they_end():
    share = np.array([[0.5, 0.95], [0.5, 0.9], [0.5, 0.6], [0.5, 0.05]])
    summary = path_multiplicity.summarise({"share": share})
    assert [summary[f"seeds_on_{where}"] for where in ("more_paths", "both", "fewer_paths")] == [2, 1, 1]


@pytest.mark.slow
def test_paths_decide_unless_the_probability_is_that_of_the_outcome():
    shares = {}
    for name, kind in (
        ("grpo", Tree),
        ("ips_grpo", Tree),
        ("ips_grpo(probability=exact)", Tree),
        ("ips_grpo(probability=exact)", UncorrectedTree),
    ):
        laws = path_multiplicity.train(kind(7, 1, REWARDS), objectives.make(name), SHORT)
        measures = path_multiplicity.measure(laws, more_paths=3, fewer_paths=1)
        np.testing.assert_allclose(measures["share"][:, 0], 35 / 42, rtol=1e-5)
        assert measures["reward"][:, -1].min() > 0.95
        shares[name, kind] = measures["share"][:, -1]
    assert shares["grpo", Tree].min() > 0.9
    assert abs(shares["ips_grpo", Tree].mean() - 0.5) < 0.05
    assert np.abs(shares["ips_grpo(probability=exact)", Tree] - 0.5).max() < 0.02
    assert np.abs(shares["ips_grpo(probability=exact)", UncorrectedTree] - 35 / 42).max() < 0.02


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 150}, "must be a multiple of --record_every, 20"),
        ({"more_paths": 8}, "it must be in 0 .. depth = 0 .. 7"),
        ({"more_paths": 1, "fewer_paths": 3}, "the first must have more"),
        ({"depth": 0}, "--depth is 0, it must be positive"),
        ({"seeds": "0"}, "an interval needs at least 2"),
        ({"objectives": "grpo,progrpo"}, "progrpo cannot be trained here: .* prompt_log_probs"),
        ({"objectives": TWELVE}, "a figure can tell at most 12 lines apart, not 13"),
        ({"uncorrected": "ips"}, "unknown objective 'ips'"),
        ({"uncorrected": "ips_grpo"}, "reads no given backward policy"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_written(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        path_multiplicity.run(
            dataclasses.replace(path_multiplicity.PRESETS["smoke"], **settings), Output(tmp_path / "out", resume=False)
        )
    assert not list(tmp_path.iterdir())
