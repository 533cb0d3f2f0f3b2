"""Decisions of the study, given the course of training."""

from experiments.planning_and_execution import CLAIMS, GRPO, USUAL
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def of_grpo(execution, right_plan, entropy):
    """Which claims on GRPO's course hold; five seeds with these values at updates 0, 20 and 40."""
    rows = [
        {"prior": USUAL, "objective": GRPO, "seed": seed, "step": 20 * place}
        | {"execution": execution[place], "right_plan": right_plan[place]}
        | {"plan_entropy": entropy[place], "semantic_entropy": entropy[place]}
        for place in range(3)
        for seed in range(5)
    ]
    found = claims.decided(CLAIMS, Records(rows, ("prior", "objective")))
    return [held for held in found.values() if held is not None]


def test_plans_are_later_and_entropy_rises_behind_execution():
    assert of_grpo((0.5, 0.9, 1.0), (0.3, 0.3, 0.8), (1.0, 0.5, 1.0)) == [True] * 3
    assert of_grpo((0.5, 0.7, 1.0), (0.3, 0.55, 0.8), (1.5, 1.0, 0.9)) == [False] * 3
