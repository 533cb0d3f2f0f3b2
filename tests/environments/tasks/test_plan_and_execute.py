import itertools
import re

import numpy as np
import pytest

from ipsrl.environments.tasks.plan_and_execute import PLANS, PlanAndExecute, carry_out
from ipsrl.environments.text import STOP
from tests.environments.reading.answers import tokens_of, trajectories_of

TASK = PlanAndExecute()
TASKS = [TASK, PlanAndExecute(length=5, fitting=1, problems=20), PlanAndExecute(length=12, fitting=4, problems=8)]
every_task = pytest.mark.parametrize("task", TASKS, ids=str)


def slow_results(digits):
    """The results of the six plans on a text of digits, digit by digit."""
    half, following = len(digits) // 2, dict(zip("0123456789", "1234567890", strict=True))
    swapped = list(digits)
    for i in range(0, len(digits) - 1, 2):
        swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
    return {
        "copy": digits,
        "reverse": "".join(digits[-1 - i] for i in range(len(digits))),
        "halves": "".join(digits[(i + half) % len(digits)] for i in range(len(digits))),
        "neighbours": "".join(swapped),
        "complement": "".join("9876543210"["0123456789".index(digit)] for digit in digits),
        "increment": "".join(following[digit] for digit in digits),
    }


def asked(task, prompt):
    """The digits and the goal of a prompt in plain words."""
    first, second, *_ = task.prompt_text(prompt).splitlines()
    return second.replace(" ", ""), re.search(r"begins with (\d),", first)[1]


@every_task
def test_right_are_the_plans_whose_result_begins_with_the_goal(task):
    for prompt in range(task.num_prompts):
        digits, goal = asked(task, prompt)
        assert task.question_text(prompt).replace(" ", "") == f"{digits}->{goal}"
        results = slow_results(digits)
        right = {f"{plan}: {' '.join(result)}" for plan, result in results.items() if result[0] == goal}
        assert {task.hypotheses[i] for i in np.flatnonzero(task.admissible[prompt])} == right
        assert len(right) == task.fitting
        own = [f"{plan}: {' '.join(results[plan])}" for plan in PLANS]
        assert task.hypotheses[6 * prompt : 6 * prompt + 6] == tuple(own)
        assert task.fits[prompt].tolist() == [name in right for name in own]
    assert task.num_hypotheses == 6 * task.num_prompts


def test_plans_of_the_docstring():
    digits = (3, 1, 4, 1, 5, 9, 2, 6)
    made = [f"{plan} {' '.join(map(str, carry_out(plan, digits)))}" for plan in PLANS]
    assert " ".join(", ".join(made).split()) in " ".join(PlanAndExecute.__doc__.replace(",  ", ", ").split())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<answer>reverse: 6 2 9 5 1 4 1 3</answer>", "reverse: 6 2 9 5 1 4 1 3"),
        ("I take <answer>\nReverse 62951413\n</answer>.", "reverse: 6 2 9 5 1 4 1 3"),
        ("<answer> COPY : 6, 2,9, 5, 1, 4, 1, 3</answer>", "copy: 6 2 9 5 1 4 1 3"),
        ("<answer>sort: 6 2 9 5 1 4 1 3</answer>", None),
        ("<answer>reverse: 6 2 9 5 1 4 1</answer>", None),
        ("<answer>reverse: 6 2 9 5 1 4 1 3 0</answer>", None),
        ("<answer>reverse copy: 6 2 9 5 1 4 1 3</answer>", None),
        ("<answer>reverse: 6 2 9 5 1 4 1 ３</answer>", None),
    ],
)
def test_answers_in_text(text, name):
    found = TASK.parse_text(text)
    assert found == (-1 if name is None else TASK.outside(name))
    if name is not None:
        assert found == TASK.parse([*tokens_of(TASK, name.replace(":", "").split()), STOP]) >= TASK.num_hypotheses


def test_each_failure_is_wrong():
    """Every plan with every single slip, too short, too long and unfinished, to each of two prompts."""
    task = PlanAndExecute(length=4, problems=2)
    for prompt in range(2):
        digits, goal = asked(task, prompt)
        for number, (plan, result) in enumerate(slow_results(digits).items()):
            slipped = [
                result[:i] + other + result[i + 1 :]
                for i, other in itertools.product(range(4), "0123456789")
                if other != result[i]
            ]
            twice = [text[:-1] + "5" for text in slipped[:9] if result[3] != "5"]
            texts = [result, *slipped, *twice]
            answers = [[*tokens_of(task, [plan, *text]), STOP] for text in texts]
            answers += [tokens_of(task, [plan, *result]), [*tokens_of(task, [plan, *result[:3]]), STOP]]
            answers += [[*tokens_of(task, [*result]), STOP], [STOP], []]
            trajectories = trajectories_of(task, [prompt], [answers])
            outcomes = task.verify(trajectories)
            assert (outcomes.rewards[0] > 0).tolist() == [result[0] == goal] + [False] * (len(answers) - 1)
            assert outcomes.outcome_id[0, 0] == 6 * prompt + number
            assert (outcomes.outcome_id[0, -5:] == -1).all()
            assert (outcomes.outcome_id[0, 1:-5] >= 0).all()


def test_probabilities_are_those_of_enumerated_answers():
    """A policy with given probabilities of plans and of slips at each place."""
    rng, shape = np.random.default_rng(0), TASK.executions.shape
    plans = rng.dirichlet(np.ones(6), TASK.num_prompts)
    tokens = rng.uniform(0.8, 1, (*shape[:2], shape[2] - 1))
    found = TASK.probabilities(np.log(np.concatenate([plans[..., None], tokens], axis=-1)))
    for prompt in range(TASK.num_prompts):
        digits, goal = asked(TASK, prompt)
        mass = {"right": [0.0, 0.0], "wrong": [0.0, 0.0]}
        for number, result in enumerate(slow_results(digits).values()):
            kind = mass["right" if result[0] == goal else "wrong"]
            kind[0] += plans[prompt, number]
            kind[1] += plans[prompt, number] * float(np.prod(tokens[prompt, number]))
        assert found["right_plan"][prompt] == pytest.approx(mass["right"][0])
        for name, (chosen, executed) in mass.items():
            assert found[f"execution_of_{name}_plans"][prompt] == pytest.approx(executed / chosen)


def test_a_plan_that_is_never_chosen_can_still_be_carried_out():
    log_probs = np.zeros(TASK.executions.shape)
    log_probs[..., 0] = np.where(TASK.fits, -3000.0, np.log(1 / (6 - TASK.fitting)))
    log_probs[..., 1] = np.log(0.5)
    found = TASK.probabilities(log_probs)
    assert (found["right_plan"] == 0).all()
    assert found["execution_of_right_plans"] == pytest.approx([0.5] * TASK.num_prompts)
    with pytest.raises(ValueError, match=r"log_probs has the shape \(64, 6\), it must be \(64, 6, 10\)"):
        TASK.probabilities(log_probs[..., 0])
