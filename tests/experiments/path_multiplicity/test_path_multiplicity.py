import numpy as np
import pytest

from experiments import path_multiplicity
from experiments.path_multiplicity import PRESETS

REWARDS = (0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def test_the_settings_know_ends_and_paths():
    settings = PRESETS["demo"]
    assert settings.tree().rewards == REWARDS
    assert settings.paths.tolist() == [35, 7]


def test_measures_are_of_the_two_rewarded_ends():
    probs = np.array([[[0.5, 0.1, 0.1, 0.3], [0.0, 0.5, 0.0, 0.5]]])
    measures = path_multiplicity.measures(probs, ends=[3, 1])
    np.testing.assert_allclose(measures["share"], [[0.75, 0.5]])
    np.testing.assert_allclose(measures["reward"], [[0.4, 1.0]])
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    np.testing.assert_allclose(measures["effective_outcomes"], [[np.exp(entropy), 2.0]], rtol=1e-6)
    at_the_limit = path_multiplicity.measures(np.array([[[0.9, 0.1]]]), ends=[0, 1])
    assert at_the_limit["effective_outcomes"][0, 0] == pytest.approx(path_multiplicity.BOTH)


def test_paths_decide_unless_the_probability_is_that_of_the_outcome(smoke):
    _, records = smoke(path_multiplicity)
    for labels, rows in records.each():
        np.testing.assert_allclose(rows.curve("share", **labels)[1][:, 0], 35 / 42, rtol=1e-5)
        assert rows.ends("reward").min() > 0.95
    shares = {name: records.ends("share", objective=name) for name in records.distinct("objective")}
    assert shares["grpo"].min() > 0.9
    assert abs(shares["ips_grpo"].mean() - 0.5) < 0.05
    assert np.abs(shares["ips_grpo(probability=exact)"] - 0.5).max() < 0.02
    assert np.abs(shares["ips_grpo(probability=exact(backward=none))"] - 35 / 42).max() < 0.02
