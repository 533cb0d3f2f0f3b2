import numpy as np
import pytest

from experiments import thought_switching
from experiments.thought_switching import CLAIMS, DEAD, EARLY, GRPO, WEIGHTED
from experiments.thought_switching.best_penalty import EVERYWHERE, FIRST_TOKENS, at, best, best_alpha, gain, strongest
from experiments.thought_switching.thought_switches import PLACEBO, PRIOR, SWITCH
from ipsrl.records.tidy import NotRecorded
from ipsrl.study import claims
from tests.experiments.recorded import made_up

FIRST, ALL = 2.0, 100.0


def records(**accuracy):
    """Five seeds, 0.01 apart; accuracies of GRPO and of the prior's penalties at alpha 0, 3 and 10, by place.

    The prompts that report have 0.1 less than those that choose; weighted underthinking is what they lack.
    """
    curves = {
        "switch": (EARLY, PRIOR, SWITCH),
        "vertex": (EARLY, PRIOR, PLACEBO),
        "dead": (DEAD, PRIOR, SWITCH),
        "grpo": (EARLY, GRPO, SWITCH),
    }
    arms = {}
    for curve, of_windows in accuracy.items():
        for beta, of_alphas in zip((FIRST, ALL), of_windows, strict=True):
            for alpha, chosen in zip((0.0, 3.0, 10.0), of_alphas, strict=True):
                values = chosen + 0.01 * np.arange(5)
                ends = {"tuning": values, "accuracy": values - 0.1, WEIGHTED: 1.1 - values}
                arms[*curves[curve], alpha, beta] = ends
    return made_up(("search", "objective", "penalised", "alpha", "beta"), arms)


FOUND = records(
    switch=((0.6, 0.8, 0.7), (0.6, 0.75, 0.3)),
    vertex=((0.6, 0.65, 0.5), (0.6, 0.5, 0.4)),
    dead=((0.9, 0.7, 0.5), (0.9, 0.5, 0.1)),
    grpo=((0.9, 0.9, 0.95), (0.9, 0.9, 0.9)),
)


@pytest.mark.parametrize(
    ("choice", "alpha", "beta"),
    [
        (best(EARLY), 3.0, FIRST),
        (best(EARLY, window=EVERYWHERE), 3.0, ALL),
        (best(EARLY, GRPO), 10.0, FIRST),
        # Among equals the weakest; and one that costs is still the best.
        (best(EARLY, GRPO, EVERYWHERE), 3.0, ALL),
        (best(DEAD), 3.0, FIRST),
        (strongest(EARLY), 10.0, ALL),
    ],
)
def test_the_prompts_that_choose_decide_which_penalty_is_best(choice, alpha, beta):
    found = choice.labels(FOUND)
    assert (found["alpha"], found["beta"], found["penalised"]) == (alpha, beta, SWITCH)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (at("accuracy", best(EARLY)), 0.72),
        (gain("accuracy", best(EARLY)), 0.2),
        (gain("accuracy", best(EARLY), penalised=PLACEBO), 0.05),
        (gain("accuracy", best(EARLY), search=DEAD), -0.2),
        (gain("accuracy", strongest(EARLY)), -0.3),
        (best_alpha(EARLY, PRIOR), 3.0),
        (best_alpha(EARLY, GRPO), 10.0),
    ],
)
def test_numbers_are_those_of_the_prompts_that_report(number, value):
    assert number(FOUND).mean == pytest.approx(value)


def test_what_is_not_recorded_is_not_chosen():
    with pytest.raises(NotRecorded, match="no record of tuning of dead, prior"):
        best(DEAD).labels(FOUND.where(search=EARLY))
    with pytest.raises(NotRecorded, match="no penalty first tokens to choose from"):
        best(EARLY, window=FIRST_TOKENS).labels(FOUND.where(beta=ALL))


def test_each_claim_reads_its_penalty():
    """The one on a vertex raises accuracy, and training by GRPO moves the best alpha up."""
    found = claims.decided(CLAIMS, FOUND)
    assert {sentence for sentence, held in found.items() if held is False} == {
        "where switches come too early, the penalty that is best on switches raises accuracy by less than 0.02 on a "
        "vertex instead",
        "where switches come too early, the best alpha of a seed is over 0.5 below the prior's after GRPO",
    }
    assert [held for sentence, held in found.items() if sentence.endswith("IPS-GRPO")] == [None] * 3
    assert list(found.values()).count(True) == len(CLAIMS) - 5


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
