import pytest

from experiments.thought_switching.early_switches import EarlySwitches
from experiments.thought_switching.underthinking import underthinking
from ipsrl.environments.tasks.graph_search import SWITCH, GraphSearch
from ipsrl.environments.text import STOP
from tests.environments.reading.answers import demonstrated
from tests.environments.tasks.plain_graphs import edges_of, every_path, is_correct

TASK = GraphSearch()


@pytest.mark.parametrize("early", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "task", [TASK, GraphSearch(branches=4, depth=3, dead_first=0.9), GraphSearch(3, 6, 0.3, 0.5, problems=16)], ids=str
)
def test_demonstrations_switch_as_early_as_asked(task, early):
    rows = EarlySwitches(early, answers=40).rows(task)
    assert [row["prompt"] for row in rows] == list(range(task.num_prompts))
    number_cut = 0
    for row in rows:
        heads, goal = edges_of(task, row["prompt"])
        for tokens in row["answers"]:
            assert tokens[-1] == STOP
            text = " ".join(task.vocabulary[token] for token in tokens[:-1])
            thoughts = [thought.split() for thought in text.split(SWITCH)]
            assert [thought[0] for thought in thoughts] == heads["A"][: len(thoughts)]
            *earlier, last = thoughts
            cut = [thought for thought in earlier if is_correct(heads, goal, thought)]
            right = last in every_path(heads, goal)
            assert len(cut) <= 1
            assert right or cut
            assert all(thought[-1] not in heads for thought in earlier if thought not in cut)
            assert all(0 < len(thought) < task.depth for thought in cut)
            assert right or (last[-1] not in heads and len(thoughts) == task.branches)
            number_cut += bool(cut)
    assert number_cut / (40 * task.num_prompts) == pytest.approx(early, abs=0.05 * (0 < early < 1))


def test_underthinking_of_the_demonstrations():
    """All wrong searches were cut, and nothing before the cut counts as lost."""
    rows = EarlySwitches(answers=20).rows(TASK)
    trajectories = demonstrated(TASK, rows)
    thoughts, outcomes = TASK.thoughts(trajectories), TASK.verify(trajectories)
    found = underthinking(thoughts.first_correct, thoughts.tokens, outcomes.rewards > 0)
    wrong = outcomes.rewards == 0
    assert found["promising"] == 1
    assert found["underthinking"] == pytest.approx(1 - (thoughts.first_correct / thoughts.tokens)[wrong].mean())
    assert found["weighted_underthinking"] == pytest.approx(found["underthinking"] * wrong.mean())
