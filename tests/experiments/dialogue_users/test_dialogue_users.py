import pytest

from experiments import dialogue_users as study
from experiments.dialogue_users.dialogue_arms import NAMES, Settings


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
        Settings(**changes)


def test_arms_have_a_curve_of_training_and_one_by_turn():
    parts = {}
    for curve in study.curves(study.PRESETS["demo"]):
        parts.setdefault(curve.labels["arm"], []).append(curve.labels["part"])
    assert set(parts) == set(NAMES)
    assert parts["hierarchy"] == [study.TRAINING, study.BY_TURN] * 2
    assert parts["flat"] == [study.TRAINING] * 2


def test_smoke_records_phases_and_shows_dialogues(smoke):
    settings, records = smoke(study)
    _, reward = records.curve("reward", part=study.TRAINING)
    assert reward.shape == (2, 2)
    by_turn = records.where(part=study.BY_TURN)
    assert by_turn.distinct("kind") == ["open", "resistant", "receptive"]
    assert by_turn.distinct("step") == [0, 4]
    text = study.TABLE(records, Settings(**{**vars(settings), "show": True}))
    assert "hierarchy, equalised bonuses, a user who is resistant" in text
    assert (
        text.count("engaging: ") + text.count("focusing: ") + text.count("evoking: ") + text.count("planning: ") == 24
    )
