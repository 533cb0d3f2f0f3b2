"""Does training on the fifth of the tokens with the highest entropy do as well? What the study measures and decides."""

import dataclasses

from experiments import forking_tokens
from experiments.forking_tokens import ALL, ARMS, LARGER, PLAN, PRESETS, RANDOM, REST, TOP
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def records(scores, overlap=0.9, tasks=("slips 0.002", "slips 0.1", "text")):
    """Two seeds, 0.002 apart, for each arm on each task; `scores` are numbers, or differ by task."""
    rows = [
        {"task": task, "objective": arm, "seed": seed, "step": 1, "overlap": overlap + 0.002 * seed}
        | {"score": (score[task] if isinstance(score, dict) else score) + 0.002 * seed}
        for task in tasks
        for arm, score in scores.items()
        if (task, arm) != ("text", LARGER)
        for seed in (0, 1)
    ]
    return Records(rows, ("task", "objective"))


AS_THE_PAPER_SAYS = {ALL: 0.8, TOP: 0.85, REST: 0.3, RANDOM: 0.6, PLAN: 0.85, LARGER: 0.8}


def decided(*arguments, **changed):
    return list(claims.decided(forking_tokens.CLAIMS, records(*arguments, **changed)).values())


def test_what_the_paper_says_holds():
    assert decided(AS_THE_PAPER_SAYS) == [True] * 7


def test_one_task_refutes_a_claim_about_all():
    fails = {"slips 0.002": 0.85, "slips 0.1": 0.5, "text": 0.85}
    assert decided(AS_THE_PAPER_SAYS | {TOP: fails}) == [False, True, True, False, False, True, True]
    assert decided(AS_THE_PAPER_SAYS, overlap=0.5)[-1] is False


def test_intervals_that_overlap_decide_nothing():
    """A difference of 0.011 and intervals of 0.002 can be more or less than the margin of 0.01."""
    assert decided(AS_THE_PAPER_SAYS | {TOP: 0.789})[0] is None


def test_arms_have_equal_budgets():
    """The same settings, but for the step of one placebo, and objectives that differ only in the tokens."""
    curves = [curve.labels for curve in forking_tokens.curves(dataclasses.replace(PRESETS["demo"], slips=(0.1,)))]
    exact = [labels["objective"] for labels in curves if labels["task"] == "slips 0.1"]
    text = {(labels["objective"], labels["seed"]) for labels in curves if "seed" in labels}
    assert exact == [*ARMS, LARGER]
    assert text == {(arm, seed) for arm in ARMS for seed in range(5)}
