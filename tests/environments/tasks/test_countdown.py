import itertools
from fractions import Fraction

import pytest

from ipsrl.environments.reading.arithmetic import value
from ipsrl.environments.reading.expressions import as_tree, canonical, infix
from ipsrl.environments.tasks import countdown, countdown_solver
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.countdown_solver import Solver
from tests.environments.reading.test_expressions import all_trees

SMALL = Countdown(numbers=3, problems=12, largest_number=9, largest_target=30, least_solutions=2)


def parts_of(numbers):
    return [part for size in range(1, len(numbers) + 1) for part in itertools.combinations(numbers, size)]


def brute_force(numbers, use_all):
    """Value -> the canonical forms that reach it, from every tree."""
    found = {}
    for part in [numbers] if use_all else parts_of(numbers):
        for tree in all_trees(list(part)):
            if (reached := value(tree)) is not None:
                found.setdefault(reached, set()).add(canonical(tree))
    return found


@pytest.mark.parametrize("use_all", [True, False])
@pytest.mark.parametrize(
    "numbers", [(7,), (2, 2), (3, 8), (1, 2, 3), (5, 5, 5), (3, 3, 8), (10, 25, 4), (1, 1, 2)], ids=str
)
def test_every_tree_of_up_to_three_numbers(numbers, use_all):
    expected = brute_force(numbers, use_all)
    solver = Solver(numbers, use_all)
    for target in {*expected, 97}:
        assert solver.solutions(target) == expected.get(target, set())
    for target in expected:
        if target > 0:
            # What is positive is complete: none of it needs a sign before everything else.
            assert all(map(as_tree, solver.solutions(target)))


@pytest.mark.parametrize("numbers", [(3, 3, 8, 8), (1, 2, 3, 4), (5, 5, 5, 1), (2, 2, 2, 2)], ids=str)
def test_search_from_the_target_finds_what_enumeration_finds(numbers, monkeypatch):
    expected = brute_force(numbers, use_all=True)
    listed = Solver(numbers, use_all=True)
    targets = sorted(expected, key=lambda value: (value.denominator, abs(value)))[:40]
    wanted = {target: listed.solutions(target) for target in [*targets, Fraction(0), Fraction(97)]}
    monkeypatch.setattr(countdown_solver, "ENUMERATED", 2)
    searched = Solver(numbers, use_all=True)
    for target, forms in wanted.items():
        assert forms == expected.get(target, set())
        assert searched.solutions(target) == forms


@pytest.mark.parametrize(
    "task",
    [
        SMALL,
        Countdown(problems=4, largest_number=10),
        Countdown(numbers=3, problems=6, largest_number=12, use_all=False, seed=3),
        Countdown(numbers=2, problems=3, largest_number=30, least_solutions=1),
    ],
    ids=str,
)
def test_every_prompt_has_exactly_its_own_solutions(task):
    for prompt, (problem, solutions) in enumerate(task.problem_table.items()):
        assert len(problem.numbers) == task.numbers
        assert list(problem.numbers) == sorted(problem.numbers)
        assert 1 <= min(problem.numbers) <= max(problem.numbers) <= task.largest_number
        assert 10 <= problem.target <= task.largest_target
        expected = brute_force(problem.numbers, task.use_all)[problem.target]
        assert solutions == expected
        assert len(expected) >= task.least_solutions
        space = task.outcome_space(prompt)
        named = {name for name, reward in zip(space.names, space.rewards, strict=True) if reward == 1}
        assert named == {infix(as_tree(form)) for form in expected}


def test_problems_that_cannot_be_found_are_not_looked_for_again(monkeypatch):
    """There are five samples of 4 numbers up to 2."""
    solved = []
    monkeypatch.setattr(countdown, "Solver", lambda *given: solved.append(given) or Solver(*given))
    with pytest.raises(ValueError, match=r"only 5 of 64 problems with 4 numbers up to 2 and 2 solutions or more"):
        _ = Countdown(problems=64, largest_number=2).problem_table
    assert len(solved) < 100


def verdict_of(text, prompt=0):
    outcomes = SMALL.verify_texts([prompt], [[text]])
    return int(outcomes.outcome_id[0, 0]), float(outcomes.rewards[0, 0])


def test_other_expressions_have_outcomes_without_reward():
    problem = SMALL.asked[0]
    a, b, c = problem.numbers
    solution = SMALL.hypotheses[SMALL.admissible[0].argmax()]
    wrong = [f"({a} + {b}) * {c} + 1", f"{solution} + 1 - 1", f"{problem.target}", f"-({solution})", "1 + 1"]
    outcomes = [verdict_of(f"Answer: {text}") for text in wrong]
    assert all(outcome >= SMALL.num_hypotheses and reward == 0 for outcome, reward in outcomes)
    assert len(set(outcomes)) == len(wrong)
    assert verdict_of("Answer: 2 + 3") == verdict_of("Answer: 3 + 2")
    for nothing in (f"Answer: {a} / ({b} - {b})", solution, "Answer: Answer:", "Answer: eval('1')"):
        assert verdict_of(nothing) == (-1, 0)


def test_prompts():
    problem = SMALL.asked[1]
    text = SMALL.prompt_text(1)
    assert str(list(problem.numbers)) in text
    assert f"equals {problem.target}." in text
    assert "exactly once" in text
    assert "at most once" in Countdown(numbers=3, problems=1, use_all=False).prompt_text(0)
    # The example of the format is no answer to this prompt.
    assert SMALL.answer_text(0) not in text
    symbols = [SMALL.vocabulary[token] for token in SMALL.prompt_tokens(1)]
    assert symbols == ["<bos>", *map(str, problem.numbers), "=", str(problem.target), "<answer>"]


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        # 3 pairs of 1 and 2, with 6 values each.
        ({"numbers": 2, "problems": 100_000, "largest_number": 2}, 18),
        # 45 pairs.
        ({"numbers": 2, "problems": 300, "largest_number": 9, "use_all": False}, 270),
        # 84 triples and 2 targets.
        ({"numbers": 3, "problems": 200, "largest_number": 7, "largest_target": 11}, 168),
        ({"problems": 50_001}, 50_000),
    ],
)
def test_problems_that_cannot_be_are_refused_at_once(fields, most):
    with pytest.raises(ValueError, match=rf"^{fields['problems']} problems with .*: choose at most {most}$"):
        Countdown(**fields)
    Countdown(**fields | {"problems": most})


def test_too_many_solutions(monkeypatch):
    monkeypatch.setattr("ipsrl.environments.listed_task.LARGEST_SPACE", 10)
    with pytest.raises(ValueError, match=r"have \d+ solutions, more than the 10 .*choose fewer problems or numbers"):
        _ = Countdown(numbers=3, problems=5, largest_number=9, largest_target=30).hypotheses
