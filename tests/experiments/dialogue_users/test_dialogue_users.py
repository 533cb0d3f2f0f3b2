import pytest

from experiments import dialogue_users as study
from experiments.dialogue_users import CONTEXT, ENTROPY, EXACT, FLAT, FOMAML, IPS, PLACEBO, PLAIN
from ipsrl.environments.interview import BONUSES
from ipsrl.records.tidy import Records
from ipsrl.study import claims

SEEDS = 6
LABELS = ("part", "bonuses", "arm")
ONE = {"commonest": 0.99, "kept_reward": 0.6, "adapted_information": 0.01, "information": 0.0}
MANY = {"commonest": 0.5, "kept_reward": 0.8, "adapted_information": 0.5, "information": 0.5}
WITHOUT = (FLAT, PLAIN, PLACEBO, CONTEXT, "exact_hierarchy")


def decided(changes=(), spread=0.0, bonuses=tuple(BONUSES)):
    """Sentence -> what it is, of records in which all is as claimed but for the changes, arm -> values.

    Args:
      spread: by how much values of a seed differ, in three ways.
    """
    rows = []
    for number, arm in enumerate(study.NAMES):
        values = (ONE if arm in WITHOUT else MANY) | ({"commonest": 0.5} if arm == CONTEXT else {})
        values |= dict(changes).get(arm, {})
        for kind in bonuses:
            for seed in range(SEEDS):
                of_seed = {name: each + spread * (-1) ** (seed // (1 + number % 3)) for name, each in values.items()}
                rows.append({"part": study.TRAINING, "bonuses": kind, "arm": arm, "seed": seed, "step": 1, **of_seed})
    return claims.decided(study.CLAIMS, Records(rows, LABELS))


def test_all_that_is_claimed_may_hold():
    assert set(decided().values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    arms = dict.fromkeys(study.NAMES, ONE) | dict.fromkeys((FLAT, PLAIN, "exact_hierarchy"), MANY)
    arms |= {PLACEBO: MANY | {"kept_reward": 0.9}, "exact_maml": ONE | {"kept_reward": 0.4}}
    assert set(decided(arms).values()) == {False}


def test_overlap_decides_nothing():
    between = {"commonest": 0.9, "adapted_information": 0.1, "information": 0.1, "kept_reward": 0.62}
    lower = between | {"kept_reward": 0.6}
    found = decided(dict.fromkeys(study.NAMES, between) | {PLAIN: lower, CONTEXT: lower}, spread=0.1)
    assert set(found.values()) == {None}


def test_the_whole_claim_needs_both_bonuses():
    whole = next(sentence for sentence in study.CLAIMS if sentence.startswith("with both"))
    assert decided()[whole] is True
    assert decided(bonuses=("published",))[whole] is None
    assert decided({FOMAML: ONE})[whole] is False


def test_a_claim_without_its_arms_is_undecided():
    assert set(claims.decided(study.CLAIMS, Records([], LABELS)).values()) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("maml",)}, "--arms is 'maml', it must be one of flat, hierarchy"),
        ({"bonuses": ("none",)}, "--bonuses is 'none', it must be one of published, equalised"),
        ({"updates": 50}, "--updates is 50, it must be a multiple of 2 --records, 12"),
        ({"turns": 42}, "--turns is 42, it must be a multiple of 4"),
        ({"inner": 0.0}, "--inner is 0.0, it must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_arms_have_a_curve_of_training_and_one_by_turn():
    parts = {}
    for curve in study.curves(study.PRESETS["demo"]):
        parts.setdefault(curve.labels["arm"], []).append(curve.labels["part"])
    assert set(parts) == {FLAT, PLAIN, ENTROPY, IPS, CONTEXT, FOMAML, PLACEBO, *EXACT}
    assert parts[PLAIN] == [study.TRAINING, study.BY_TURN] * 2
    assert parts[FLAT] == [study.TRAINING] * 2


def test_smoke_records_phases_and_shows_dialogues(smoke):
    settings, records = smoke(study)
    _, reward = records.curve("reward", part=study.TRAINING)
    assert reward.shape == (2, 2)
    by_turn = records.where(part=study.BY_TURN)
    assert by_turn.distinct("kind") == ["open", "resistant", "receptive"]
    assert by_turn.distinct("step") == [0, 4]
    text = study.TABLE(records, study.Settings(**{**vars(settings), "show": True}))
    assert "hierarchy, equalised bonuses, a user who is resistant" in text
    assert (
        text.count("engaging: ") + text.count("focusing: ") + text.count("evoking: ") + text.count("planning: ") == 24
    )
