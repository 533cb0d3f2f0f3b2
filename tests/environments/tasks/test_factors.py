import itertools

import numpy as np
import pytest

from ipsrl.environments.tasks.factors import Factors
from tests.environments.reading.answers import tokens_of, trajectories_of

TASK = Factors(numbers=3, largest=30, problems=8, least_solutions=8, most_solutions=60)


@pytest.mark.parametrize("prompt", range(8))
def test_solutions_are_those_of_brute_force(prompt):
    numbers = list(TASK.asked[prompt])
    right = {
        vector
        for vector in itertools.product(range(1, 31), repeat=3)
        if all(1 < d < n and n % d == 0 for d, n in zip(vector, numbers, strict=True))
    }
    solutions = [TASK.hypotheses[i] for i in np.flatnonzero(TASK.admissible[prompt])]
    assert {tuple(map(int, vector.split())) for vector in solutions} == right
    assert 8 <= len(right) <= 60
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("answer", ["2 3 5", " 2,3, 5 ", "[2, 3, 5]", "[2 3 5]", "2\n3\n5", "[ 2 , 3 , 5 ]", "2 ,3 ,5"])
def test_vectors_are_read(answer):
    found = TASK.parse_text(f"<think><answer>7 7 7</answer></think>I see.\n<answer>{answer}</answer> Done.")
    assert found == TASK.parse_text("<answer>2 3 5</answer>")
    assert found == TASK.parse(tokens_of(TASK, ("2", "3", "5", "<stop>")))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "2 3",
        "2 3 5 7",
        "[2, 3, 5",
        "2, 3, 5]",
        "2,, 3, 5",
        "2.0 3 5",
        "02 3 5",
        "0 3 5",
        "-2 3 5",
        "2 3 ５",
        "2 3 ²",
        "(2, 3, 5)",
        "12345 3 5",
        "__import__('os')",
        "2 " * 5000,
    ],
)
def test_other_texts_have_no_outcome(answer):
    assert TASK.parse_text(f"<answer>{answer}</answer>") == -1


def test_one_and_the_number_itself_are_not_proper():
    numbers = TASK.asked[0]
    right = TASK.hypotheses[np.flatnonzero(TASK.admissible[0])[0]].split()
    texts = [right, ["1", *right[1:]], [str(numbers[0]), *right[1:]], [*right[1:], right[0] + "00"]]
    found = TASK.verify_texts([0], [[f"<answer>{' '.join(text)}</answer>" for text in texts]])
    assert found.rewards[0].tolist() == [1, 0, 0, 0]
    assert (found.outcome_id[0, 1:] >= TASK.num_hypotheses).sum() >= 2
    compact = trajectories_of(
        TASK, [0], [[tokens_of(TASK, (*right, "<stop>")), tokens_of(TASK, (*right[:2], "<stop>"))]]
    )
    assert TASK.verify(compact).outcome_id[0].tolist() == [found.outcome_id[0, 0], -1]


def test_too_many_solutions_are_said():
    with pytest.raises(ValueError, match="solutions, more than the 100000 that are enumerated: choose fewer"):
        Factors(numbers=5, largest=500, problems=2000, most_solutions=1000).admissible  # noqa: B018
