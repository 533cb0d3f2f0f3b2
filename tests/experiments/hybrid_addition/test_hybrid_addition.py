"""What the study decides from made-up records of both modes, and that all of it runs."""

import pytest

from experiments import hybrid_addition as study
from experiments.hybrid_addition import (
    BETTER_ALPHA,
    COMPETENT,
    FORCED_GRPO,
    FORCED_HGPO,
    GRPO,
    PAPERS,
    THINKING,
    TOKENS,
    WEAK,
)
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("prior", "arm", "learning_rate")
SLOW, FAST = study.RATES
THINKS = {"reward": 0.48, "thinking": 0.999, "fits": 0.0, "short_then": 0.2, "short_gain": 0.1, "think_gain": 0.05}
BOTH = {"reward": 0.8, "thinking": 0.2, "fits": 0.3, "short_then": 0.9, "short_gain": 0.8, "think_gain": -0.3}


def records(weak=(), competent=(), slow=(), spread=0.0):
    """Six seeds of all arms: those with a weak short mode think, those with a competent one do not, but for these.

    Args:
      weak, competent: arm -> its values.
      slow: arm -> its values at the smaller learning rate, which else earns less than the other.
      spread: by how much the reward of a seed differs from the mean, in turn above and below, but for GRPO.
    """
    rows, weak, competent, slow = [], dict(weak), dict(competent), dict(slow)
    for prior, names, usual, given in (
        (WEAK, (*study.NAMES, THINKING), THINKS, weak),
        (COMPETENT, study.CONTROLLED, BOTH, competent),
    ):
        for arm in names:
            values = usual | given.get(arm, {})
            for rate, of_rate in ((SLOW, values | {"reward": 0.0} | slow.get(arm, {})), (FAST, values)):
                for seed in range(6):
                    row = of_rate | {"prior": prior, "arm": arm, "learning_rate": rate, "seed": seed, "step": 1}
                    row["reward"] += 0.01 * seed + (spread * (-1) ** (seed // 2) if arm != GRPO else 0.0)
                    rows.append(row)
    return Records(rows, LABELS)


def decided(*arguments, **named):
    return claims.decided(study.CLAIMS, records(*arguments, **named))


def about(found, *parts):
    return [held for sentence, held in found.items() if all(part in sentence for part in parts)]


def test_all_that_is_claimed_may_hold():
    remedies = dict.fromkeys(study.REMEDIES, BOTH) | {FORCED_HGPO: BOTH | {"reward": 0.9}}
    assert set(decided(remedies).values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    weak = dict.fromkeys(study.REMEDIES, THINKS) | dict.fromkeys((GRPO, TOKENS), BOTH)
    weak |= {PAPERS: THINKS | {"reward": 0.4}, THINKING: {"short_gain": 0.0}}
    found = decided(weak, {GRPO: THINKS, BETTER_ALPHA: BOTH})
    assert {sentence for sentence, held in found.items() if held is not False} == set()


def test_seeds_that_disagree_decide_nothing():
    unsure = {arm: {"reward": 0.52} for arm in study.REMEDIES}
    found = decided(unsure, {BETTER_ALPHA: {"reward": 0.82}}, spread=0.2)
    assert set(about(found, "above GRPO's")) == {None}


def test_rates_are_chosen_for_the_arms_and_named_where_they_are_compared():
    found = decided({GRPO: THINKS, BETTER_ALPHA: THINKS}, slow={GRPO: BOTH, BETTER_ALPHA: BOTH})
    assert about(found, "GRPO at a rate of 0.0003 ends") == [False]
    assert about(found, "GRPO at a rate of 0.001 ends") == [True]
    assert about(found, "DeGRPO at alpha 0.01 ends with under 90 %") == [True]
    assert about(found, "DeGRPO at alpha 0.01 ends with a reward over") == [False]
    # Forced to think, both rates must teach the short mode something.
    assert about(decided(slow={THINKING: {"short_gain": 0.0}}), "forced to think raises") == [False]


def test_one_alpha_is_enough_to_fit_and_one_better_alpha_to_beat_that_of_the_paper():
    found = decided({BETTER_ALPHA: BOTH})
    assert about(found, "DeGRPO with some alpha") == [True]
    assert about(found, "at most 0.02 in reward below") == [False]
    assert about(decided(), "at most 0.02 in reward below") == [True]


def test_a_claim_without_its_arms_is_undecided():
    assert set(claims.decided(study.CLAIMS, Records([], LABELS)).values()) == {None}


def test_only_some_arms_begin_with_a_competent_short_mode():
    found = [curve.labels for curve in study.curves(study.PRESETS["demo"])]
    assert {labels["arm"] for labels in found if labels["prior"] == COMPETENT} == set(study.CONTROLLED)
    assert {labels["arm"] for labels in found if labels["prior"] == WEAK} == {*study.NAMES, THINKING}
    assert {labels["learning_rate"] for labels in found} == {SLOW, FAST}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("forced_dapo",)}, "forced_dapo"),
        ({"priors": ("strong",)}, "--priors is 'strong', it must be one of weak, competent"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"problems": 145}, "--problems is 145, it must lie between 4 and 144"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_groups_that_cannot_be_halved_are_refused():
    settings = study.Settings(arms=(FORCED_GRPO,), group_size=6)
    with pytest.raises(
        ValueError, match=r"group_size is 6, it must be a multiple of 4, because AdditionModes\(.*forced='half'\)"
    ):
        list(study.curves(settings))


def test_a_small_run_measures_both_modes(smoke):
    settings, found = smoke(study)
    assert found.distinct("step") == [0, 1]
    levels = [found.curve(f"thinking_{level}")[1] for level in (1, 2, 3, 4)]
    assert sum(levels) / 4 == pytest.approx(found.curve("thinking")[1])
    assert study.TABLE(found, settings).startswith("weak short mode")
    assert study.FIGURE(found, settings).rows
