import dataclasses

import numpy as np
import pytest

from experiments import group_size_or_sampling as study
from experiments.exams.exam import Exam, runs_on_exam
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from tests.experiments.recorded import recorded

LABELS = ("arm", "group_size", "learning_rate")


def rows(arm, size, rate, ends, early=0.5):
    """A curve of each seed: `early` until 60 % of the budget, then its end."""
    for seed, end in enumerate(ends):
        for point in range(study.POINTS):
            accuracy = end if point > 24 else early
            yield dict(zip(LABELS, (arm, size, rate), strict=True)) | {
                "seed": seed, "step": point, "accuracy": accuracy
            }  # fmt: skip


def decided(*curves):
    records = Records([row for curve in curves for row in curve], LABELS)
    return list(claims.decided(study.CLAIMS, records).values())


def test_claims_compare_the_best_curves_and_know_when_they_cannot():
    grpo = [*rows("GRPO", 8, 0.1, [0.80, 0.81]), *rows("GRPO", 16, 0.1, [0.6, 0.61]), *rows("GRPO", 8, 0.2, [0.1, 0.2])]
    dynamic = [*rows("dynamic", 4, 0.1, [0.70, 0.71]), *rows("dynamic", 64, 0.1, [0.90, 0.91])]
    depo = rows("DEPO", 8, 0.1, [0.95, 0.96], early=0.85)
    chance = [*rows("random_skip", 8, 0.1, [0.94, 0.97]), *rows("random_discard", 8, 0.1, [0.97, 0.98])]
    assert decided(grpo, dynamic, depo, chance) == [True, True, True, None, False, True]
    assert decided(grpo, dynamic) == [True, True, None, None, None, None]
    assert decided(rows("GRPO", 16, 0.1, [0.9, 0.91]), rows("dynamic", 8, 0.1, [0.9, 0.92]))[:2] == [None, None]


@pytest.mark.parametrize(("early", "held"), [(0.84, True), (0.80, False), (0.832, None)])
def test_depo_is_cheaper_if_it_gets_as_far_as_grpo_with_less(early, held):
    """GRPO ends at 0.84, so that up to 0.83 is as far; its seeds differ by 0.01, those of DEPO do not."""
    assert decided(rows("GRPO", 8, 0.1, [0.835, 0.845]), rows("DEPO", 8, 0.1, [0.9, 0.91], early=early))[-1] is held


def test_a_difference_of_less_than_a_point_of_accuracy_is_none():
    assert decided(rows("GRPO", 8, 0.1, [0.9, 0.8]), rows("dynamic", 8, 0.1, [0.905, 0.805]))[1] is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("foo",)}, "--arms is 'foo', it must be one of GRPO, dynamic"),
        ({"group_sizes": (8, 48)}, "--group_sizes has 48, it must divide --batch, which is 256"),
        ({"group_sizes": (512,)}, "--group_sizes has 512, it must divide --batch"),
        ({"group_sizes": (1,)}, "--group_sizes is 1, it must be at least 2"),
        ({"budget": 1000}, "--budget is 1000, it must be a multiple of --batch, which is 256"),
        ({"learning_rates": (-1.0,)}, "--learning_rates is -1.0, it must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


@pytest.mark.parametrize("arm", ["GRPO", "random_discard"])
def test_points_lie_at_equal_numbers_of_sampled_trajectories(arm, tmp_path):
    smoke = study.PRESETS["smoke"]
    settings = dataclasses.replace(smoke, arms=(arm,), prompts=16, families=4, batch=32, budget=128, group_sizes=(4,))
    records = recorded(study, settings, tmp_path / "out")
    places, accuracy = records.curve("accuracy")
    assert places[0] == 0
    assert places[-1] == 128
    runs = runs_on_exam(study.filters(arm, settings), 4, settings)
    p = Exam.of(16, 4).success(Exam.of(16, 4).prior(settings.spread))
    np.testing.assert_allclose(runs["silent"][0, :, 0], np.mean(p**4 + (1 - p) ** 4), rtol=1e-5)
    for seed in (0, 1):
        of_seed = runs["trajectories"][0, seed], runs["accuracy"][0, seed]
        np.testing.assert_allclose(accuracy[seed], np.interp(np.linspace(0, 128, 41), *of_seed))


@pytest.mark.parametrize("preset", ["smoke", "demo", "paper"])
def test_depo_warms_up_for_a_tenth_of_the_run(preset):
    settings = study.PRESETS[preset]
    (predicts,) = study.filters("DEPO", settings)
    assert predicts.warm_up == settings.budget // settings.batch // 10
    assert (predicts.lowest, predicts.highest) == (0.15, 0.85)
