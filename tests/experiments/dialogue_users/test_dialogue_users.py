from experiments import dialogue_users as study
from experiments.dialogue_users.dialogue_arms import Settings


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
