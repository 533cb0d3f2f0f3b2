import dataclasses

import numpy as np
import pytest

from experiments import dapo_steps as study
from experiments.dapo_steps import PLACEBO, STEPS
from ipsrl.objectives.surrogates import ClippedRatio
from tests.experiments.recorded import made_up


def test_a_step_is_taken_in_three_places():
    assert study.pairs("higher_clip") == {
        "added to GRPO": ("GRPO_plus_higher_clip", "GRPO"),
        "in turn": ("GRPO_plus_no_KL_plus_higher_clip", "GRPO_plus_no_KL"),
        "left out of DAPO": ("DAPO", "DAPO_without_higher_clip"),
    }
    assert study.pairs("no_KL")["in turn"] == study.pairs("no_KL")["added to GRPO"]
    assert study.pairs("dynamic")["in turn"] == study.pairs("dynamic")["left out of DAPO"]


def test_steps_are_those_of_the_papers():
    grpo, dapo = study.objective(()), study.objective(STEPS)
    assert grpo.surrogate == ClippedRatio(0.2, 0.2)
    assert dapo.surrogate == ClippedRatio(0.2, 0.28)
    assert grpo.penalties
    assert not grpo.reward_shaping
    assert not dapo.penalties
    assert type(grpo.aggregation) is not type(dapo.aggregation)


def test_a_comparison_counts_once():
    """No KL adds 0.3 to GRPO, alone and in its turn, and 0.1 to the rest of DAPO."""
    ends = {"GRPO": 0.5, "GRPO_plus_no_KL": 0.8, "DAPO_without_no_KL": 0.6, "DAPO": 0.7}
    records = made_up(("arm", "learning_rate"), {(arm, 0.1): {"accuracy": [end] * 2} for arm, end in ends.items()})
    assert study.gain("no_KL")(records).mean == pytest.approx(0.2)


def test_other_seeds_are_other_runs_of_the_same_arm():
    runs = study.runs(f"GRPO_{PLACEBO}", study.PRESETS["smoke"])
    again = dataclasses.replace(runs, seeds=(1000, 1001), seed_offset=0)
    np.testing.assert_array_equal(runs.trained["accuracy"], again.trained["accuracy"])
    (curve,) = runs.curves({}, "tokens", np.array([0, 100]))
    assert curve.compute().seeds == (0, 1)


def test_most_questions_are_hopeless_and_right_answers_are_short_and_long():
    success, _, lengths = (np.asarray(values) for values in study.TASK.exact(study.TASK.prior()).values())
    assert (success < 0.02).mean() == 10 / 16
    assert success.max() > 0.8
    assert lengths.min() < 5 < 15 < lengths.max()
