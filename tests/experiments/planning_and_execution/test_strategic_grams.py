"""Strategic grams, by hand and by counting slices of texts."""

import numpy as np
import pytest

from experiments.planning_and_execution.strategic_grams import agreement, gram_mask, strategic_grams
from ipsrl.environments.demonstrations import PlanMistakes
from ipsrl.environments.plan_and_execute import PlanAndExecute
from ipsrl.environments.text import STOP
from tests.environments.answers import trajectories_of

# Of 14 grams of two tokens, 1 2 and 2 7 are in three answers, 3 4 and 4 7 in two. 7 is in all, but twice in each.
ANSWERS = np.array([[1, 2, 7, 7, 5], [7, 1, 2, 7, 6], [1, 2, 7, 3, 7], [7, 8, 3, 4, 7], [3, 4, 7, 9, 7]])
ALL = np.ones(ANSWERS.shape, bool)


def test_frequent_grams_without_repetitions_are_kept():
    assert strategic_grams(ANSWERS, ALL, 2, 2, kept=1 / 14) == [(1, 2), (2, 7)]
    assert strategic_grams(ANSWERS, ALL, 2, 2, kept=3 / 14) == [(1, 2), (2, 7), (3, 4), (4, 7)]
    assert len(strategic_grams(ANSWERS, ALL, 2, 2, kept=5 / 14)) == 14
    assert strategic_grams(ANSWERS, ALL, 1, 1, kept=0.3) == [(1,), (2,), (3,)]
    assert strategic_grams(ANSWERS, ALL, 1, 1, kept=0.1, most_inside=2)[0] == (7,)


def test_counts_agree_with_slices_of_texts():
    rng = np.random.default_rng(0)
    tokens, lengths = rng.integers(0, 4, (50, 8)), rng.integers(0, 9, (50, 1))
    texts = ["".join(map(str, row[:length])) for row, (length,) in zip(tokens.tolist(), lengths.tolist(), strict=True)]
    grams = {text[i : i + n] for text in texts for n in (2, 3) for i in range(len(text) - n + 1)}
    having = {gram: sum(gram in text for text in texts) for gram in grams}
    inside = {gram: sum(text[i:].startswith(gram) for text in texts for i in range(len(text))) for gram in grams}
    few = [gram for gram in grams if inside[gram] <= 1.05 * having[gram]]
    least = sorted((having[gram] for gram in few), reverse=True)[-(-len(few) // 4) - 1]
    kept = strategic_grams(tokens, np.arange(8) < lengths, 2, 3, kept=0.25, most_inside=1.05)
    assert {"".join(map(str, gram)) for gram in kept} == {gram for gram in few if having[gram] >= least}
    ranks = [having["".join(map(str, gram))] for gram in kept]
    assert ranks == sorted(ranks, reverse=True)


def test_marked_are_the_tokens_inside_a_gram_under_the_mask():
    mask = ALL.copy()
    mask[1, 2] = False
    marked = gram_mask(ANSWERS.reshape(5, 1, 5), mask.reshape(5, 1, 5), [(1, 2), (2, 7, 3)])
    expected = [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0], [0] * 5, [0] * 5]
    assert marked[:, 0].tolist() == np.array(expected, bool).tolist()


def test_agreement_by_hand():
    marked, planning = np.array([[1, 1, 0, 0]], bool), np.array([[1, 0, 1, 1]], bool)
    assert agreement(marked, planning) == pytest.approx({"precision": 1 / 2, "recall": 1 / 3})
    nothing = np.zeros_like(marked)
    assert agreement(nothing, planning) == agreement(marked, nothing) == {"precision": 0, "recall": 0}


def test_nothing_to_mine():
    assert strategic_grams(ANSWERS, ~ALL) == strategic_grams(ANSWERS[:0], ALL[:0]) == []
    assert not gram_mask(ANSWERS, ALL, []).any()
    assert not gram_mask(ANSWERS, ALL, [(1, 9), ()]).any()


def test_the_plans_of_plan_and_execute_are_found():
    """Digits are in more answers than any plan, but several times each."""
    task = PlanAndExecute()
    rows = PlanMistakes(answers=20).rows(task)
    trajectories = trajectories_of(task, range(task.num_prompts), [row["answers"] for row in rows])
    tokens, mask = trajectories.tokens, trajectories.token_mask & (trajectories.tokens != STOP)
    planning = task.verify(trajectories).planning_mask
    grams = strategic_grams(tokens, mask, 1, 1, kept=1.0)
    assert {task.vocabulary[gram[0]] for gram in grams} == set(task.planning_symbols)
    assert agreement(gram_mask(tokens, mask, grams), planning) == {"precision": 1, "recall": 1}
    repeated = strategic_grams(tokens, mask, 1, 1, kept=1.0, most_inside=2.0)
    assert agreement(gram_mask(tokens, mask, repeated), planning) == {"precision": pytest.approx(1 / 9), "recall": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shortest": 0}, "shortest is 0 and longest 5, they must be 1 <= shortest <= longest"),
        ({"shortest": 6}, "shortest is 6 and longest 5"),
        ({"kept": 0.0}, "kept is 0.0, it must lie above 0 and not above 1"),
        ({"most_inside": 0.5}, "most_inside is 0.5, it must be at least 1"),
        ({"mask": ALL[:1]}, r"tokens \(5, 5\) and mask \(1, 5\) must both be \[\.\.\., token\]"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        strategic_grams(**{"tokens": ANSWERS, "mask": ALL, **arguments})


def test_masks_of_other_shapes():
    with pytest.raises(ValueError, match=r"marked has the shape \(5, 5\), it must be that of planning, \(1, 5\)"):
        agreement(ALL, ALL[:1])
