import numpy as np
import pytest
from scipy.special import softmax

from ipsrl import objectives
from ipsrl.dynamics.cases import CASES, REFERENCES, STARTS, Case
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.verdict import fitted_alpha, is_idle, verdict, word_for
from tests.tiers import slow_after


def case(rewards, ends, exponents=0.0):
    """A case whose flows end in `ends`: one distribution for all starts, or `[12, 3]`."""
    ends = np.broadcast_to(ends, (len(STARTS), 3))
    return Case(Field(objectives.make("reinforce"), rewards, 2), ends, np.broadcast_to(exponents, ends.shape))


def cases_of(distribution_of_rewards, **others):
    """All cases, each at the distribution that belongs to its rewards, or as given by name."""
    return {
        name: others.get(name, case(rewards, distribution_of_rewards(np.array(rewards))))
        for name, rewards in CASES.items()
    }


def power(exponent, reference=1.0):
    def probs(rewards):
        unnormalised = rewards**exponent * reference
        return unnormalised / unnormalised.sum()

    return probs


def boltzmann(temperature):
    def probs(rewards):
        return softmax(rewards / temperature)

    return probs


# Each start keeps the shares of its first two outcomes; the rarer of them is lost, or left behind as t^-0.5.
SHARES = np.array(STARTS) * [1, 1, 0] / np.array(STARTS)[:, :2].sum(axis=1, keepdims=True)
WINNER = np.eye(3)[SHARES.argmax(axis=1)]
FADING = np.where(WINNER > 0, 0.0, -0.5)


@pytest.mark.parametrize(
    ("cases", "word"),
    [
        (cases_of(power(1.0)), "reward-proportional"),
        (cases_of(power(2.0)), "reward-proportional"),
        (cases_of(power(0.5)), "reward-proportional"),
        # A distribution of another form, however near; one that loses what pays less; one that knows only right and
        # wrong.
        (cases_of(boltzmann(0.3)), "uniform over correct"),
        (cases_of(power(1.0), unequal=case((1.0, 0.6, 0.3), [0.67, 0.33, 0.0])), "uniform over correct"),
        (cases_of(power(0.0), binary=case((1.0, 1.0, 0.0), [0.5, 0.5, 0.0])), "uniform over correct"),
        (cases_of(power(1.0), unequal=case((1.0, 0.6, 0.3), [0.42, 0.26, 0.32])), "uniform over correct"),
        (cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), SHARES)), "neutral on ties"),
        (cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), WINNER)), "collapses"),
        (cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), 0.8 * WINNER + 0.2 * SHARES, FADING)), "collapses"),
        # Both correct outcomes are lost; the wrong one stays; the end depends on the start.
        (cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), [0.0, 0.0, 1.0])), "other"),
        (cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), [0.4, 0.4, 0.2])), "other"),
        (cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), 0.5 * WINNER + 0.5 * SHARES)), "other"),
    ],
)
def test_words_for_ends(cases, word):
    assert word_for(cases, cases) == word


def test_words_with_a_reference():
    shaped = cases_of(power(1.0, np.array(REFERENCES["skewed"])))
    assert word_for(cases_of(power(1.0)), shaped) == "reference-shaped"
    # Which of two wins may depend on the reference: one is lost all the same.
    losing = [cases_of(power(1.0), binary=case((1.0, 1.0, 0.0), ends)) for ends in (WINNER, WINNER[:, [1, 0, 2]])]
    assert word_for(*losing) == "collapses"
    # One side alone does not make a word.
    assert word_for(losing[0], cases_of(power(1.0))) == "reference-shaped"


def test_fitted_alpha():
    alpha, residual, good = fitted_alpha(cases_of(power(0.5)))
    assert alpha == pytest.approx(2.0)
    assert residual == pytest.approx(0.0, abs=1e-12)
    assert good
    assert not fitted_alpha(cases_of(boltzmann(0.5)))[2]
    assert fitted_alpha(cases_of(power(0.0)))[0] == np.inf


@pytest.mark.parametrize(
    ("text", "word"),
    slow_after(
        1,
        [
            ("reinforce", "collapses"),
            ("ips_reinforce(probability=exact)", "reward-proportional"),
            ("grpo", "collapses"),
            ("unlikeliness", "uniform over correct"),
            ("grpo(kl=0.5)", "reference-shaped"),
            ("reinforce(entropy=0.3)", "uniform over correct"),
        ],
    ),
)
def test_words(text, word):
    found = verdict(objectives.make(text), group_size=3)
    assert found.word == word, found.evidence
    if text == "reinforce":
        assert [case.text for case in found.cases.values()] == [
            "stays where it is",
            "one of 2 outcomes",
            "one of 2 outcomes",
            "1.00 : 0 : 0",
        ]
        assert "as t^-0.5; an even split is not restored" in found.evidence


@pytest.mark.slow
def test_exponent_is_found_again():
    found = verdict(objectives.make("ips_reinforce(alpha=2.0, probability=exact)"), group_size=4)
    assert found.word == "reward-proportional"
    assert fitted_alpha(found.cases)[0] == pytest.approx(2.0, abs=0.02)
    assert "the slowest deviation fades at -" in found.evidence


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("grpo", True),
        ("gspo", True),
        ("cispo", True),
        ("dppo", True),
        ("rover", True),
        ("reinforce", False),
        ("critique_grpo", False),
        ("trajectory_balance", False),
        ("dpo", False),
    ],
)
def test_clips_do_nothing_where_all_ratios_are_one(text, idle):
    assert is_idle(objectives.make(text).surrogate) == idle
