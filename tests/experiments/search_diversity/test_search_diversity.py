"""The claims of the study on made-up records, and a run of its smoke preset."""

import pytest

from experiments import search_diversity as study
from experiments.search_diversity import FEWER, MORE, SFT
from experiments.search_diversity.agents import (
    BY_ANSWER,
    DIVERSE,
    DIVERSITY,
    GRPO,
    NAMES,
    NARROW,
    PRIOR,
    RANDOM,
    SHIFTED,
    SLOW,
    SLOW_RANDOM,
    THEN,
)
from ipsrl.records.tidy import Records
from ipsrl.study import claims

VALUES = {"right": 10.0, "wrong": 50.0, "effective": 4.0, "pass_1": 0.5, "pass_64": 0.9}
BOTH = VALUES | {f"held_out_{name}": value for name, value in VALUES.items()}


def decided(ends=(), spread=0.0):
    """Sentence -> what it is; by default all arms end alike, except what `ends` says: arm -> value -> its mean.

    Args:
      spread: by what share of themselves seeds differ between arms.
    """
    rows = []
    for number, arm in enumerate(NAMES):
        for seed in range(5):
            noise = 1 + spread * (-1) ** (seed + number) * (number + 1)
            values = {name: value * noise for name, value in (BOTH | dict(ends).get(arm, {})).items()}
            rows.append({"arm": arm, "seed": seed, "step": 1} | values)
    return claims.decided(study.CLAIMS, Records(rows, ("arm",)))


SQUEEZED = {"right": 1.0, "wrong": 2.0, "effective": 1.0, "pass_1": 0.9}
AS_CLAIMED = {
    GRPO: SQUEEZED | {"held_out_right": 6.0, "held_out_pass_1": 0.6, "held_out_pass_64": 0.8},
    DIVERSE: {"right": 20.0, "wrong": 20.0, "held_out_right": 14.0},
    NARROW: SQUEEZED,
    THEN: {"right": 18.0, "effective": 12.0},
    BY_ANSWER: SQUEEZED,
    SLOW: SQUEEZED,
} | {arm: {"effective": 3.0} | {"pass_1": 0.9} for arm in DIVERSITY}
NOT_AT_ALL = {
    GRPO: {"right": 12.0, "wrong": 60.0, "held_out_right": 12.0, "held_out_pass_1": 0.4},
    DIVERSE: {"right": 5.0, "wrong": 60.0, "held_out_right": 5.0},
    NARROW: {"right": 20.0},
    THEN: {"right": 2.0},
    BY_ANSWER: {"effective": 5.0},
    SHIFTED: {"right": 9.0},
    RANDOM: {"right": 5.0},
    SLOW: {"right": 12.0},
} | {arm: {"pass_1": 0.2} for arm in DIVERSITY}


def test_all_that_is_claimed_may_hold():
    assert set(decided(AS_CLAIMED).values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    assert set(decided(NOT_AT_ALL).values()) == {False}


def test_overlap_decides_nothing():
    ends = {GRPO: {"right": 9.0, "wrong": 45.0}, DIVERSE: {"right": 11.0}}
    found = decided(ends, spread=0.3)
    assert found[f"GRPO {FEWER % 'right'}"] is None
    assert found[f"GRPO {FEWER % 'wrong'}"] is None
    assert found[f"{SFT} {MORE % 'right'}"] is None


def test_a_placebo_that_does_the_same_refutes():
    ends = AS_CLAIMED | {SHIFTED: AS_CLAIMED[DIVERSE], RANDOM: SQUEEZED, SLOW_RANDOM: SQUEEZED}
    found = decided(ends)
    assert [held for sentence, held in found.items() if sentence.startswith("placebo")] == [False] * 3
    assert {held for sentence, held in found.items() if not sentence.startswith("placebo")} == {True}


def test_a_claim_without_its_arms_is_undecided():
    assert set(claims.decided(study.CLAIMS, Records([], ("arm",))).values()) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("dapo",)}, "--arms is 'dapo', it must be one of prior, sft_diverse"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"group_size": 1}, "--group_size is 1, it must be at least 2"),
        ({"demonstrations": 0}, "--demonstrations is 0, it must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke(smoke):
    settings, found = smoke(study)
    assert sorted(found.where(arm=GRPO).column("step").tolist()) == [0, 0, 2, 2]
    begins = [found.where(arm=arm, step=0).column("right").tolist() for arm in settings.arms]
    assert begins[0] == begins[1]
    assert PRIOR not in settings.arms
    assert "held-out questions" in study.TABLE(found, settings)
    assert study.FIGURE(found, settings).rows
