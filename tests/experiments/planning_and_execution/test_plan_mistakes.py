import numpy as np
import pytest

from experiments.planning_and_execution.plan_mistakes import PlanMistakes
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.plan_and_execute import PlanAndExecute

TASK = PlanAndExecute()


def failures(mistakes):
    """`[prompt, answer]`: the number of an answer's plan, whether it fits, and how many digits slipped."""
    answers, prompts = np.array([row["answers"] for row in mistakes.rows(TASK)]), np.arange(TASK.num_prompts)[:, None]
    plan = (answers[:, :, None, 0] == TASK.executions[:, None, :, 0]).argmax(axis=-1)
    return plan, TASK.fits[prompts, plan], (answers != TASK.executions[prompts, plan]).sum(axis=-1)


@pytest.mark.parametrize(("right_plans", "right_execution"), [(0.3, 0.6), (0.3, 0.2), (0.0, 1.0), (1.0, 0.0)])
def test_demonstrations_have_the_mistakes_asked_for(right_plans, right_execution):
    plan, fits, slips = failures(PlanMistakes(right_plans, right_execution, answers=200))
    assert fits.mean() == pytest.approx(right_plans, abs=0.02)
    for right in (False, True):
        of_kind = fits == right
        if of_kind.any():
            assert (slips[of_kind] == 0).mean() == pytest.approx(right_execution, abs=0.02)
            chosen = np.bincount(plan[of_kind], minlength=6)
            offered = (TASK.fits == right).sum(axis=0)
            assert chosen / chosen.sum() == pytest.approx(offered / offered.sum(), abs=0.02)


def test_demonstrations_may_favour_plans():
    plan, fits, _ = failures(PlanMistakes(0.3, 1.0, favour=2.0, answers=200))
    assert fits.mean() == pytest.approx(0.3, abs=0.02)
    weights = np.where(TASK.fits, np.arange(1, 7) ** -2.0, 0)
    expected = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    chosen = np.bincount(plan[fits], minlength=6)
    assert chosen / chosen.sum() == pytest.approx(expected, abs=0.02)


def test_mistakes_in_another_task_are_refused():
    with pytest.raises(ValueError, match=r"task is GraphSearch.*, it must be a PlanAndExecute"):
        PlanMistakes().rows(GraphSearch())
