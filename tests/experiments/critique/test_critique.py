"""What the study decides from made-up records of runs, and that all of it runs."""

import pytest

from experiments import critique
from experiments.critique import (
    ARMS,
    BEFORE,
    CLAIMS,
    CRITICS,
    FIRST,
    GRPO_8,
    GRPO_16,
    NUMBERS,
    SHUFFLED,
    WORDS,
    Settings,
)  # fmt: skip
from ipsrl.records.tidy import Records
from ipsrl.study import claims

# At the end, on prompts without initial success.
AS_CLAIMED = {
    "grpo_8": 0.01, "grpo_16": 0.02, "grpo_first_mistake": 0.4, "grpo_shuffled": 0.2, "unshaped": 0.4,
    "critique_first_mistake": 0.6, "critique_right_or_wrong": 0.4, "critique_true_answer": 0.9, "critique_own": 0.5,
    "critique_shuffled": 0.3, "supervised": 0.5, "supervised_shuffled": 0.3,
}  # fmt: skip
REPAIRED = dict(zip(CRITICS, (0.1, 0.04, 0.9, 0.03, 0.04), strict=True))


def records(hard=AS_CLAIMED, repaired=REPAIRED, chance=0.0):
    """Six seeds, which differ in the same way in all arms, and by `chance` in every other arm and critic."""
    rows = []
    for number, (critic, share) in enumerate(repaired.items()):
        for seed in range(6):
            value = share + 0.001 * seed + chance * (number % 2) * (-1) ** seed
            rows.append({"critic": critic, "step": 0, "seed": seed, "repaired": value})
    for number, (arm, end) in enumerate(hard.items()):
        for seed in range(6):
            value = end + 0.001 * seed + chance * (-1) ** seed * (-1) ** number
            for step, each in ((0, 0.0), (1000, value)):
                rows.append({"arm": arm, "step": step, "seed": seed, "hard": each, "score": (1 + each) / 2})
    return Records(rows, ("arm", "critic"))


def decided(*arguments):
    return claims.decided(CLAIMS, records(*arguments))


def test_what_is_claimed_may_hold():
    assert set(AS_CLAIMED) == set(ARMS)
    assert set(decided().values()) == {True}


def test_each_claim_may_fail():
    found = decided({arm: 0.95 - end for arm, end in AS_CLAIMED.items()}, {c: 0.5 - r for c, r in REPAIRED.items()})
    assert set(found.values()) == {False}


def test_equal_arms_refute_all_but_the_plateau():
    found = decided(dict.fromkeys(ARMS, 0.05), dict.fromkeys(CRITICS, 0.1))
    assert [sentence for sentence, held in found.items() if held] == [
        sentence for sentence in CLAIMS if sentence.endswith("ends with an accuracy below 0.1")
    ]


def test_seeds_that_disagree_decide_nothing():
    found = decided(dict.fromkeys(ARMS, 0.1), dict.fromkeys(CRITICS, 0.1), 0.2)
    decisive = [sentence for sentence, held in found.items() if held is not None]
    # Arms that share their chance differ by nothing, and so do critics.
    assert len(decisive) < len(CLAIMS) / 2
    assert not any("below 0.1" in sentence for sentence in decisive)


def test_what_was_not_run_decides_nothing():
    found = decided({arm: AS_CLAIMED[arm] for arm in (GRPO_8, WORDS)}, {FIRST: 0.1, SHUFFLED: 0.02})
    held = [sentence for sentence, each in found.items() if each]
    assert len(held) == 4
    assert set(found.values()) == {True, None}
    assert not any(critique.NAMES[GRPO_16] in sentence for sentence in held)
    assert any(sentence.startswith(BEFORE) for sentence in held)


def test_numbers_are_those_at_the_end():
    found = claims.measured(NUMBERS, records())
    assert set(found) == set(NUMBERS)
    assert found[f"accuracy of {critique.NAMES[WORDS]}, {critique.HARD}"].mean == pytest.approx(0.6025)


def test_settings_out_of_range():
    with pytest.raises(ValueError, match="--arms is 'ppo', it must be one of grpo_8, "):
        Settings(arms=("ppo",))
    with pytest.raises(ValueError, match="--critics is 'me', it must be one of first_mistake, "):
        Settings(critics=("me",))
    with pytest.raises(ValueError, match="--asked is 1, it must be at least 2"):
        Settings(asked=1)


def test_a_small_run_measures_all(smoke):
    settings, found = smoke(critique)
    assert len(found) == 2 * (1 + 3 * len(settings.arms))
    assert found.where(arm=WORDS).distinct("step") == [0, 250, 500]
    priors, arms = critique.TABLE(found, settings).split("\n\n")
    assert FIRST in priors
    assert WORDS in arms
    assert critique.FIGURE(found, settings).rows
