"""Does training on the fifth of the tokens with the highest entropy do as well? What the study measures and decides."""

import dataclasses

from experiments import forking_tokens
from experiments.forking_tokens import ALL, ARMS, LARGER, PLAN, PRESETS, RANDOM, REST, TOP
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def records(scores, overlap=0.9, late=None, tasks=("slips 0.002", "slips 0.1", "text"), chance=0.002):
    """Two seeds for each arm on each task, after 600 and 3000 updates; `scores` are numbers, or differ by task.

    Seeds differ by 0.002, and those of all tokens by `chance` from that; `late` are the scores after 3000 updates.
    """
    rows = [
        {"task": task, "objective": arm, "seed": seed, "step": step, "overlap": overlap + 0.002 * seed}
        | {
            "score": (score[task] if isinstance(score, dict) else score)
            + 0.002 * seed
            + chance * (seed == (arm == ALL))
        }
        for step, of_arms in ((600, scores), (3000, scores | (late or {})))
        for task in tasks
        for arm, score in of_arms.items()
        if (task, arm) != ("text", LARGER) and (task != "text" or step == 600)
        for seed in (0, 1)
    ]
    return Records(rows, ("task", "objective"))


AS_THE_PAPER_SAYS = {ALL: 0.8, TOP: 0.85, REST: 0.3, RANDOM: 0.8, PLAN: 0.85, LARGER: 0.8}


def decided(*arguments, **changed):
    return list(claims.decided(forking_tokens.CLAIMS, records(*arguments, **changed)).values())


def test_what_the_paper_says_holds():
    assert decided(AS_THE_PAPER_SAYS) == [True] * 9


def test_one_task_refutes_a_claim_about_all():
    fails = {"slips 0.002": 0.85, "slips 0.1": 0.5, "text": 0.85}
    assert decided(AS_THE_PAPER_SAYS | {TOP: fails}) == [False, True, False, True, False, True, False, True, True]
    assert decided(AS_THE_PAPER_SAYS, overlap=0.5)[-1] is False


def test_the_fifth_may_be_later_only():
    scores = AS_THE_PAPER_SAYS | {TOP: 0.5}
    assert decided(scores)[:3] == [False] * 3
    assert decided(scores, late={TOP: 0.8})[:3] == [False, False, True]


def test_what_claims_compare_with_each_other():
    assert decided(AS_THE_PAPER_SAYS | {REST: 0.795})[3] is False
    assert decided(AS_THE_PAPER_SAYS | {RANDOM: 0.9})[4:6] == [False, False]
    assert decided(AS_THE_PAPER_SAYS | {PLAN: 0.7})[7] is False


def test_intervals_that_hold_the_margin_decide_nothing():
    """Seeds of all tokens and of the other arms differ by 0.03, in opposite directions."""
    near = dict.fromkeys((ALL, TOP, REST, RANDOM, PLAN, LARGER), 0.8)
    assert decided(near, chance=0.03)[:6] == [None, None, None, None, False, None]
    noisy = [{"task": "slips 0.1", "objective": arm, "seed": seed, "step": 600, "score": 0.5 + 0.03 * (seed == other)}
             for arm, other in ((TOP, 0), (RANDOM, 1), (LARGER, 1), (PLAN, 1)) for seed in (0, 1)]  # fmt: skip
    found = list(claims.decided(forking_tokens.CLAIMS, Records(noisy, ("task", "objective"))).values())
    assert [found[number] for number in (4, 6, 7)] == [None] * 3
    assert decided(AS_THE_PAPER_SAYS, overlap=0.859)[-1] is None


def test_arms_have_equal_budgets():
    """The same settings, but for the step of one placebo, and objectives that differ only in the tokens."""
    curves = [curve.labels for curve in forking_tokens.curves(dataclasses.replace(PRESETS["demo"], slips=(0.1,)))]
    exact = [labels["objective"] for labels in curves if labels["task"] == "slips 0.1"]
    text = {(labels["objective"], labels["seed"]) for labels in curves if "seed" in labels}
    assert exact == [*ARMS, LARGER]
    assert text == {(arm, seed) for arm in ARMS for seed in range(5)}
