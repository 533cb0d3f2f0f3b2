import numpy as np
import pytest

from ipsrl.environments.tasks.n_queens import NQueens, problem_of_seed

TASK = NQueens(n=6, min_remove=4, max_remove=6, problems=8, least_solutions=1)


def test_numbers_of_solutions():
    # OEIS A000170.
    assert [len(NQueens(n, 1, 1).answers) for n in range(4, 10)] == [2, 10, 4, 40, 92, 352]
    for board in NQueens(8).answers:
        assert len(set(board)) == len({c + r for r, c in enumerate(board)}) == len({c - r for r, c in enumerate(board)})


def test_a_default_that_the_size_rules_out_is_called_one():
    with pytest.raises(ValueError, match=r"min_remove is 7 \(its default\), it must lie between 1 and 5"):
        NQueens(n=5)
    with pytest.raises(ValueError, match="min_remove is 6, it must lie between 1 and 5"):
        NQueens(n=5, min_remove=6)


def test_prompts_admit_the_boards_with_their_queens():
    for given, valid in zip(TASK.asked, TASK.admissible, strict=True):
        for board, is_valid in zip(TASK.answers, valid, strict=True):
            assert is_valid == all(queen in (-1, column) for queen, column in zip(given, board, strict=True))
    assert NQueens().admissible.sum(axis=1).min() == 4


BOARD = "_ Q _ _ _ _\n_ _ _ Q _ _\n_ _ _ _ _ Q\nQ _ _ _ _ _\n_ _ Q _ _ _\n_ _ _ _ Q _"


@pytest.mark.parametrize(
    "answer", [BOARD, f"\n\n{BOARD}\n ", BOARD.replace(" ", ""), BOARD.replace(" ", "  "), BOARD.replace(" ", " | ")]
)
def test_boards_are_read(answer):
    assert TASK.hypotheses[TASK.parse_text(f"Let me see.\n<answer>{answer}</answer>")] == "2 4 6 1 3 5"


def test_other_boards():
    attacked = BOARD.replace("_ Q _ _ _ _", "Q _ _ _ _ _")
    assert TASK.parse_text(f"<answer>{attacked}</answer>") >= TASK.num_hypotheses
    for answer in (
        BOARD.replace("_ _ Q _ _ _", "_ _ _ _ _ _"),
        BOARD.replace("_ _ Q _ _ _", "_ _ Q Q _ _"),
        f"{BOARD}\n_ _ _ _ _ Q",
        BOARD.rpartition("\n")[0],
        BOARD.replace("_", "."),
        repr([row.split() for row in BOARD.split("\n")]),
    ):
        assert TASK.parse_text(f"<answer>{answer}</answer>") == -1


def test_problems_and_words_are_those_of_reasoning_gym():
    theirs = pytest.importorskip("reasoning_gym", reason='pip install -e ".[reasoning_gym]"')
    data_set = theirs.create_dataset("n_queens", seed=3, size=30, n=6, min_remove=4, max_remove=6)
    problems = [data_set[number] for number in range(30)]
    drawn = [problem_of_seed(3 + number, TASK.answers, 4, 6) for number in range(30)]
    puzzles = [problem["metadata"]["puzzle"] for problem in problems]
    assert drawn == [tuple(row.index("Q") if "Q" in row else -1 for row in puzzle) for puzzle in puzzles]
    task = NQueens(n=6, min_remove=4, max_remove=6, problems=8, least_solutions=1, seed=3)
    assert task.asked == tuple(dict.fromkeys(drawn))[:8]
    for prompt, given in enumerate(task.asked):
        problem = problems[drawn.index(given)]
        assert task.prompt_text(prompt).startswith(problem["question"])
        right = [
            task.answer_text(int(i))[len("<answer>\n") : -len("\n</answer>")]
            for i in np.flatnonzero(task.admissible[prompt])
        ]
        assert sorted(right) == problem["metadata"]["valid_answers"]
