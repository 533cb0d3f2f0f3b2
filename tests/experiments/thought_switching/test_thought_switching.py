"""What the study decides from made-up records of penalties, and that all of it runs."""

import dataclasses

import pytest

from experiments import thought_switching
from experiments.thought_switching import CLAIMS, DEAD, EARLY, GRPO, IPS, NUMBERS, WEIGHTED, Settings
from experiments.thought_switching.best_penalty import best, best_alphas, strongest
from experiments.thought_switching.thought_switches import PLACEBO, PRIOR, SWITCH
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study import claims

FIRST, EVERYWHERE = 2.0, 100.0
ALPHAS = (0.0, 3.0, 10.0)
LABELS = ("search", "objective", "penalised", "alpha", "beta")

# Of each curve, accuracy at the three alphas in the first tokens, then everywhere.
AS_CLAIMED = {
    (EARLY, PRIOR, SWITCH): ((0.6, 0.8, 0.7), (0.6, 0.7, 0.3)),
    (EARLY, PRIOR, PLACEBO): ((0.6, 0.6, 0.5), (0.6, 0.5, 0.4)),
    (DEAD, PRIOR, SWITCH): ((0.9, 0.7, 0.5), (0.9, 0.5, 0.1)),
    (EARLY, GRPO, SWITCH): ((0.9, 0.9, 0.9), (0.9, 0.9, 0.9)),
    (EARLY, IPS, SWITCH): ((0.9, 0.9, 0.9), (0.9, 0.9, 0.9)),
}
NOT_AS_CLAIMED = {
    (EARLY, PRIOR, SWITCH): ((0.6, 0.5, 0.4), (0.6, 0.61, 0.609)),
    (EARLY, PRIOR, PLACEBO): ((0.6, 0.5, 0.4), (0.6, 0.8, 0.5)),
    (DEAD, PRIOR, SWITCH): ((0.6, 0.8, 0.5), (0.6, 0.7, 0.7)),
    (EARLY, GRPO, SWITCH): ((0.4, 0.5, 0.6), (0.4, 0.4, 0.4)),
    (EARLY, IPS, SWITCH): ((0.4, 0.5, 0.6), (0.4, 0.4, 0.4)),
}


def records(accuracy, chance=0.0):
    """Six seeds, which differ in the same way under all penalties, and by `chance` under some strength.

    Weighted underthinking is 1 less the accuracy. The prompts that choose have the accuracies themselves.
    """
    return Records(
        [
            dict(zip(LABELS, (*curve, alpha, beta), strict=True))
            | {"step": 0, "seed": seed, "tuning": value, "accuracy": measured, WEIGHTED: 1 - measured}
            for curve, rows in accuracy.items()
            for beta, row in zip((FIRST, EVERYWHERE), rows, strict=True)
            for alpha, value in zip(ALPHAS, row, strict=True)
            for seed in range(6)
            for measured in [value + 0.01 * seed + chance * (-1) ** seed * (alpha > 0)]
        ],
        LABELS,
    )


def decided(*arguments):
    return claims.decided(CLAIMS, records(*arguments))


def test_what_is_claimed_may_hold():
    after = ["accuracy by over 0.02 after GRPO", "accuracy by over 0.02 after IPS-GRPO"]
    found = decided(AS_CLAIMED)
    assert [sentence for sentence, held in found.items() if not held] == [
        sentence for sentence in CLAIMS if sentence.endswith(tuple(after))
    ]
    assert None not in found.values()


def test_each_claim_may_fail():
    found = decided(NOT_AS_CLAIMED)
    assert [sentence for sentence, held in found.items() if held is not False] == [
        sentence for sentence in CLAIMS if "raises accuracy by over 0.02 after" in sentence
    ]


def test_seeds_that_disagree_decide_nothing():
    level = dict.fromkeys(AS_CLAIMED, ((0.6, 0.61, 0.6), (0.6, 0.605, 0.6)))
    found = decided(level, 0.1)
    # Windows and strengths compare penalties with each other, which share their chance.
    shared = ("first tokens", "strongest", "more on switches")
    assert {sentence for sentence, held in found.items() if held is not None} == {
        sentence for sentence in CLAIMS if any(word in sentence for word in shared) or "best alpha" in sentence
    }


def test_what_was_not_run_decides_nothing():
    found = decided({(EARLY, PRIOR, SWITCH): AS_CLAIMED[EARLY, PRIOR, SWITCH]})
    assert [held for held in found.values() if held is not None] == [True] * 4


def test_prompts_that_choose_are_not_those_that_report():
    made = records(AS_CLAIMED)
    rows = [row | {"accuracy": 0.1} if row["alpha"] == 3 and row["beta"] == FIRST else row for row in made.rows]
    lucky = dataclasses.replace(made, rows=rows)
    assert best(EARLY)(lucky)["alpha"] == 3.0
    assert NUMBERS["accuracy at the best penalty, early, prior"](lucky).mean == pytest.approx(0.1)


def test_among_equals_the_weakest_penalty_is_best():
    made = records({(EARLY, PRIOR, SWITCH): ((0.6, 0.6, 0.6), (0.6, 0.6, 0.605))})
    assert best_alphas(made, EARLY, PRIOR, 0.01).tolist() == [0.0] * 6
    assert best_alphas(made, EARLY, PRIOR, 0.001).tolist() == [10.0] * 6
    assert best(EARLY, where="in the first tokens")(made) == best(EARLY)(made) | {"alpha": 3.0, "beta": FIRST}
    assert strongest(EARLY)(made) == best(EARLY, where="everywhere")(made)
    with pytest.raises(NotRecorded, match="no record of tuning"):
        best(DEAD)(made)


def test_the_best_penalty_may_cost():
    assert best(DEAD)(records(AS_CLAIMED)) == best(DEAD)(records(NOT_AS_CLAIMED)) | {"alpha": 3.0, "beta": FIRST}
    found = claims.measured(NUMBERS, records(AS_CLAIMED))
    assert found["accuracy at the best penalty, dead, prior"].mean == pytest.approx(0.725)
    gained = {label: number.mean for label, number in found.items() if "gained" in label}
    assert gained["accuracy gained by early's best penalty, dead, prior"] == pytest.approx(-0.2)
    assert gained["accuracy gained by the best penalty on a vertex, early, prior"] == pytest.approx(0.0)
    assert gained["accuracy gained by the strongest penalty on a vertex, early, prior"] == pytest.approx(-0.2)


def test_settings_out_of_range():
    with pytest.raises(ValueError, match="--searches is 'late', it must be one of early, dead"):
        Settings(searches=("late",))
    with pytest.raises(ValueError, match="--alphas is"):
        Settings(alphas=(3.0, 1.0))


def test_a_small_run_measures_every_penalty(smoke):
    settings, found = smoke(thought_switching)
    assert len(found) == 2 * (8 + 4)
    assert not found.where(penalised=PLACEBO, objective=GRPO)
    without = found.where(alpha=0.0, objective=PRIOR)
    for seed in (0, 1):
        # Without strength the token does not count.
        assert len(set(without.where(seed=seed).column("switches").tolist())) == 1
    assert without.column("switches").min() > 0
    assert set(found.where(alpha=100.0, beta=100.0, penalised=SWITCH).column("switches").tolist()) == {0.0}
    assert found.where(alpha=100.0, beta=100.0, penalised=PLACEBO).column("switches").min() > 0
    grid, _, placebo = thought_switching.TABLE(found, settings).split("\n\n")
    assert grid.count("prior") == placebo.count("prior") == 2
    assert thought_switching.FIGURE(found, settings).rows
