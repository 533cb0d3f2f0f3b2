import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.verdict import fitted_alpha, verdict


def test_fitted_alpha():
    rewards = np.array([1.0, 0.6, 0.3])
    alpha, residual = fitted_alpha(rewards**2 / (rewards**2).sum(), rewards)
    assert alpha == pytest.approx(0.5)
    assert residual == pytest.approx(0.0, abs=1e-12)
    assert fitted_alpha(np.full(3, 1 / 3), rewards)[0] == np.inf
    # A law that grows as exp(3 r) is no power of r.
    assert fitted_alpha(np.exp(3 * rewards) / np.exp(3 * rewards).sum(), rewards)[1] > 0.05


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("reinforce", "collapses"),
        ("ips_reinforce(probability=exact)", "reward-proportional"),
        pytest.param("grpo", "collapses", marks=pytest.mark.slow),
        pytest.param("darling", "uniform over correct", marks=pytest.mark.slow),
        pytest.param("unlikeliness", "uniform over correct", marks=pytest.mark.slow),
        pytest.param("grpo(kl=0.5)", "reference-shaped", marks=pytest.mark.slow),
        pytest.param("flowrl", "reference-shaped", marks=pytest.mark.slow),
        pytest.param("trajectory_balance", "reward-proportional", marks=pytest.mark.slow),
    ],
)
def test_words(text, word):
    found = verdict(objectives.make(text), group_size=4)
    assert found.word == word, found.evidence
    if text == "reinforce":
        assert [case.text for case in found.cases.values()] == [
            "stays where it is", "one of 2 outcomes", "one of 2 outcomes", "1.00 : 0 : 0",
        ]  # fmt: skip
        assert "as t^-0.5" in found.evidence


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_exponent_is_found_again(alpha):
    found = verdict(objectives.make(f"ips_reinforce(alpha={alpha}, probability=exact)"), group_size=4)
    assert found.word == "reward-proportional"
    assert fitted_alpha(found.cases["unequal"].law, np.array([1.0, 0.6, 0.3]))[0] == pytest.approx(alpha, abs=0.02)


@pytest.mark.parametrize(
    ("text", "message"), [("progrpo", "needs prompt_log_probs"), ("placebo", "the objective draws at random")]
)
def test_what_cannot_be_judged_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        verdict(objectives.make(text), group_size=4)
