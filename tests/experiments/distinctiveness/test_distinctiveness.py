import dataclasses

import numpy as np
import pytest

from experiments import distinctiveness
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("arm", "errors", "age", "learning_rate")
EXACT = "With an exact grader, "


def rows(arm, rate=0.03, accuracy=(0.5, 0.5), **values):
    """Two seeds of an arm; `values` are pairs, too."""
    labels = dict(zip(LABELS, (arm, 0.0, 0, rate), strict=True))
    of_seeds = {"accuracy": accuracy, **values}
    return [labels | {"seed": seed, "step": 10} | {name: of[seed] for name, of in of_seeds.items()} for seed in (0, 1)]


def decided(words, *arms):
    """The verdict on the one claim of the exact grader whose sentence has these words."""
    records = Records([row for arm in arms for row in arm], LABELS)
    found = claims.decided(distinctiveness.CLAIMS, records)
    (verdict,) = (held for sentence, held in found.items() if sentence.startswith(EXACT) and words in sentence)
    return verdict


@pytest.mark.parametrize(
    ("near", "far", "clash", "lower"),
    [
        ((-0.3, -0.2), (0.2, 0.3), True, True),
        # Positive cosines are no clash, however much higher those of other answers are.
        ((0.1, 0.2), (0.3, 0.4), False, True),
        ((0.1, 0.2), (0.1, 0.2), False, False),
        ((-0.1, 0.0), (0.0, 0.0), None, None),
    ],
)
def test_copies_clash_if_their_cosine_is_below_zero(near, far, clash, lower):
    worse = rows("grpo", 0.1, (0.4, 0.4), near=(-1.0, -1.0), far=(1.0, 1.0))
    arms = rows("grpo", near=near, far=far), worse
    assert decided("clash", *arms) is clash
    assert decided("lower in near copies", *arms) is lower


@pytest.mark.parametrize(("value", "words"), [("accuracy", "its random mask's accuracy"), ("clash", "both signs of")])
def test_one_of_the_masks_must_be_above_its_own_placebo(value, words):
    def of(arm, *seeds):
        return rows(arm, **{value: seeds})

    placebos = rows("grpo"), of("random_mask", 0.4, 0.5), of("mild_random_mask", 0.6, 0.7)
    # The seeds differ by 0.1, the differences between runs of one seed hardly.
    high, low, same = of("mask", 0.46, 0.57), of("mild_mask", 0.5, 0.6), of("mask", 0.39, 0.6)
    assert decided(words, *placebos, high, low) is True
    assert decided(words, *placebos, of("mask", 0.41, 0.51), low) is False
    assert decided(words, *placebos, same, low) is None


def test_a_mask_must_be_above_grpo():
    grpo = rows("grpo", accuracy=(0.4, 0.5))
    for accuracy, above in (((0.5, 0.6), True), ((0.41, 0.51), False), ((0.39, 0.6), None)):
        arms = rows("mask", accuracy=accuracy), rows("mild_mask", accuracy=(0.1, 0.1))
        assert decided("above GRPO's accuracy", grpo, *arms) is above


def test_calm_is_a_smaller_deviation_and_a_smaller_maximum():
    def of(arm, deviation, maximum, more=0.0):
        return rows(arm, norm_std=(deviation, deviation), norm_max=(maximum, maximum + more))

    placebos = of("random_mask", 1, 1), of("mild_random_mask", 1, 1), rows("grpo")
    assert decided("spikes", *placebos, of("mask", 0.5, 0.5), of("mild_mask", 2, 2)) is True
    assert decided("spikes", *placebos, of("mask", 0.5, 0.95), of("mild_mask", 2, 2)) is False
    assert decided("spikes", *placebos, of("mask", 0.5, 0.8, 0.2), of("mild_mask", 2, 2)) is None


@pytest.mark.parametrize("words", ["beyond GRPO's", "that with anchors of the policy"])
def test_anchors_are_judged_on_hopeless_prompts(words):
    others = [rows(arm, accuracy=(0.9, 0.9), hopeless=(0.1, 0.2)) for arm in ("own_anchors", "grpo")]
    for hopeless, revived in (((0.2, 0.3), True), ((0.11, 0.21), False), ((0.1, 0.3), None)):
        assert decided(words, *others, rows("anchors", hopeless=hopeless)) is revived


def test_mask_and_anchors_are_compared_with_anchors():
    anchors = rows("anchors", accuracy=(0.4, 0.5))
    for accuracy, above in (((0.5, 0.6), True), ((0.41, 0.51), False), ((0.39, 0.6), None)):
        assert decided("with the mild mask", anchors, rows("masked_anchors", accuracy=accuracy)) is above


def test_all_masks_weigh_the_batches_of_grpo():
    settings = dataclasses.replace(
        distinctiveness.PRESETS["smoke"],
        arms=("grpo", "mild_mask", "mild_random_mask", "anchors"),
        intervals=1,
        group_size=4,
    )
    of = {curve.labels["arm"]: curve.compute().values for curve in distinctiveness.curves(settings)}
    assert "clash" not in of["anchors"]
    # Of the same answers a placebo keeps as many as its mask.
    assert (of["mild_mask"]["kept"] <= of["grpo"]["kept"]).all()
    assert (of["mild_mask"]["kept"] < of["grpo"]["kept"]).any()
    assert np.array_equal(of["mild_mask"]["kept"], of["mild_random_mask"]["kept"])
    assert not np.array_equal(of["mild_mask"]["accuracy"], of["grpo"]["accuracy"])
