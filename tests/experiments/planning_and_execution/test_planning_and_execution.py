"""What the study decides from made-up records, and that all of it runs."""

import pytest

from experiments import planning_and_execution
from experiments.planning_and_execution import (
    BONUS,
    CLAIMS,
    FAVOURITES,
    GRPO,
    NAMES,
    NUMBERS,
    PAPERS,
    RANDOM_STRONG,
    STRONG,
    USUAL,
    WEAK,
)  # fmt: skip
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("prior", "objective")
SOONER = ((0.5, 0.9, 1.0), (0.3, 0.3, 0.8))
TOGETHER = ((0.5, 0.7, 1.0), (0.3, 0.55, 0.8))


def records(accuracy, courses, entropies, chance=0.0):
    """Six seeds; three records of each arm, of which GRPO's are the courses of execution and right plans."""
    return Records(
        [
            {
                "prior": prior, "objective": arm, "seed": seed, "step": step,
                "accuracy": value + 0.01 * seed + chance * (-1) ** seed * (arm != GRPO),
                "execution": courses[0][place], "right_plan": courses[1][place],
                "plan_entropy": entropies[place] + chance * place * (-1) ** seed,
                "semantic_entropy": entropies[place] + (arm == STRONG) * (1 - 20 * chance) * value,
                "mined_before": 0.0, "mined_after": 1.0,
            }
            for prior in accuracy
            for arm, value in accuracy[prior].items()
            for place, step in enumerate((0, 20, 40))
            for seed in range(6)
        ],
        LABELS,
    )  # fmt: skip


AS_CLAIMED = {
    USUAL: dict.fromkeys(NAMES, 0.6) | {PAPERS: 0.7, STRONG: 0.8},
    WEAK: dict.fromkeys(NAMES, 0.4),
    FAVOURITES: {GRPO: 0.6, STRONG: 0.8, RANDOM_STRONG: 0.6},
}
NOT_AS_CLAIMED = {
    USUAL: dict.fromkeys(NAMES, 0.7) | {GRPO: 0.6, PAPERS: 0.61, STRONG: 0.6, BONUS: 0.9},
    WEAK: dict.fromkeys(NAMES, 0.4) | {PAPERS: 0.5, STRONG: 0.5},
    FAVOURITES: {GRPO: 0.6, STRONG: 0.6, RANDOM_STRONG: 0.7},
}


def test_what_is_claimed_may_hold():
    found = claims.decided(CLAIMS, records(AS_CLAIMED, SOONER, (1.0, 0.5, 1.0)))
    assert set(found.values()) == {True}


def test_each_claim_may_fail():
    found = claims.decided(CLAIMS, records(NOT_AS_CLAIMED, TOGETHER, (1.5, 1.0, 0.9)))
    # The semantic entropies of HICRA and GRPO differ by what is made up.
    assert {sentence for sentence, held in found.items() if held is not False} == {
        sentence for sentence in CLAIMS if "semantic entropy over" in sentence
    }


def test_seeds_that_disagree_decide_no_accuracy():
    level = {prior: dict.fromkeys(NAMES, 0.6) for prior in AS_CLAIMED}
    found = claims.decided(CLAIMS, records(level, SOONER, (1.0, 0.9, 0.9), 0.1))
    against_grpo = [sentence for sentence in CLAIMS if sentence.endswith(("above GRPO", "in accuracy above GRPO"))]
    assert [found[sentence] for sentence in against_grpo] == [None] * len(against_grpo)


def test_what_was_not_run_decides_nothing():
    only = {USUAL: {GRPO: 0.6}}
    found = claims.decided(CLAIMS, records(only, SOONER, (1.0, 0.5, 1.0)))
    assert {sentence for sentence, held in found.items() if held is not None} == {
        sentence for sentence in CLAIMS if "execution of 0.6, GRPO" in sentence or "0.6, the" in sentence
    }


def test_numbers_are_read_from_the_records():
    found = claims.measured(NUMBERS, records(AS_CLAIMED, SOONER, (1.0, 0.5, 1.0)))
    assert set(found) == set(NUMBERS)
    assert found["accuracy, with an execution of 0.6, HICRA at alpha 1"].mean == pytest.approx(0.825)


def test_smoke(smoke):
    _, found = smoke(planning_and_execution)
    assert found.distinct("seed") == [0, 1]
    assert found.distinct("step") == [0, 1, 2]
