"""The claims of the study on made-up records, and a run of its smoke preset."""

import pytest

from experiments import search_strata as study
from experiments.search_strata import BETTER, EXACT, KEPT, OFTEN, SAMPLED, WORSE
from experiments.search_strata.searchers import ADVANTAGES, BLENDS, EQUAL, GRPO, IPS, LONGER, NAMES, SAN, SHORTER, WORTH
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("part", "arm", "regime")


def decided(ends=(), exact=(), spread=0.0):
    """Sentence -> what it is; by default all arms end alike, with a reward of 0.6 and a share of long searches of 0.2.

    Args:
      ends: of an arm, or an arm and a regime: value -> its mean over seeds.
      exact: of an arm, value -> itself.
      spread: by how much seeds differ between arms.
    """
    ends, exact, rows = dict(ends), dict(exact), []
    for number, arm in enumerate(NAMES):
        if arm not in ADVANTAGES:
            rows.append({"part": EXACT, "arm": arm, "drift": 0.1, "better": 0.99} | exact.get(arm, {}))
        for regime in WORTH:
            values = {"reward": 0.6, "long": 0.2} | ends.get(arm, {}) | ends.get((arm, regime), {})
            for seed in range(5):
                noise = 0.1 * seed + spread * (-1) ** (seed + number) * (number + 1)
                moved = {name: value + noise for name, value in values.items()}
                rows.append({"part": SAMPLED, "arm": arm, "regime": regime, "seed": seed} | moved)
    return claims.decided(study.CLAIMS, Records([row | {"step": 1} for row in rows], LABELS))


STILL = {SAN: {"drift": 1e-9, "better": 0.5}}
BEST, WORST = {"reward": 0.9, "long": 0.8}, {"reward": 0.3, "long": 0.1}


def test_all_that_is_claimed_may_hold():
    ends = dict.fromkeys((*BLENDS, IPS), BEST) | {SAN: WORST | {"long": 0.8}}
    assert set(decided(ends, STILL).values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    ends = dict.fromkeys((*BLENDS, IPS), WORST) | {SAN: BEST | {"long": 0.1}}
    moves = {arm: {"drift": -0.1, "better": 0.7} for arm in NAMES}
    assert set(decided(ends, moves).values()) == {False}


def test_overlap_decides_nothing():
    found = decided({arm: {"reward": 0.6, "long": 0.25} for arm in NAMES if arm != GRPO}, STILL, spread=0.2)
    assert {held for sentence, held in found.items() if not sentence.startswith("exactly")} == {None}


def test_each_sentence_is_about_its_own_arm_and_regime():
    found = decided({("blend_06", LONGER): BEST, (SAN, SHORTER): WORST, (IPS, EQUAL): BEST}, STILL)
    assert found[f"{study.WHERE[LONGER]} {NAMES['blend_06']} {BETTER}"] is True
    assert found[f"{study.WHERE[LONGER]} {NAMES['blend_08']} {BETTER}"] is False
    assert found[f"{study.WHERE[SHORTER]} {NAMES[SAN]} {WORSE}"] is True
    assert found[f"{study.WHERE[LONGER]} {NAMES[SAN]} {WORSE}"] is False
    assert found[f"{study.WHERE[EQUAL]} {NAMES[IPS]} {OFTEN}"] is True
    assert all(held for sentence, held in found.items() if sentence.endswith(KEPT))
    found = decided({("shuffled_blend", LONGER): WORST, ("running_baseline", EQUAL): WORST}, STILL)
    assert [held for sentence, held in found.items() if "shuffled" in sentence or "running" in sentence] == [True] * 2


def test_a_claim_without_its_arms_is_undecided():
    assert set(claims.decided(study.CLAIMS, Records([], LABELS)).values()) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("dapo",)}, "--arms is 'dapo', it must be one of grpo, san"),
        ({"regimes": ("none",)}, "--regimes is 'none', it must be one of equal, longer, shorter"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"group_size": 1}, "--group_size is 1, it must be at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke(smoke):
    settings, found = smoke(study)
    exact, runs = found.where(part=EXACT), found.where(part=SAMPLED)
    assert exact.column("better").tolist() == pytest.approx([0.5] * (settings.updates + 1), abs=1e-4)
    assert sorted(runs.column("step").tolist()) == [0, 0, 2, 2]
    assert ((runs.column("reward") > 0.2) & (runs.column("reward") < 0.8)).all()
    assert "two strata, exact" in study.TABLE(found, settings)
    assert study.FIGURE(found, settings).rows
