"""What the study decides from made-up records, and that a small run measures every arm."""

import dataclasses

import pytest

from experiments import evolution
from experiments.evolution import CLAIMS, ES, EXACT, FLOW, GRPO, NUMBERS, PRESETS, R99, RANDOM, WORLDS
from experiments.evolution.evolved import SHARED, TABLED
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("world", "kind", "noise")
PLAIN = {
    TABLED: {"rarer at 0.65": 0.37, "rarer at 0.9": 0.31, "rarer at 0.99": 0.17, "rarer at the end": 0.1},
    SHARED: {"effective at 0.6": 4.0, "pass@4 at 0.6": 0.95, "effective": 2.0},
}


def decided(changes=(), chance=0.0):
    """Of arms that are all as GRPO, but for `changes`, (world, kind) -> name -> noise -> value."""
    changes = dict(changes)
    found = []
    for world, arms in WORLDS.items():
        cells = [(arm.kind, arm.noise, range(8)) for arm in arms]
        cells += [(FLOW, noise, [None]) for noise in EXACT] * (world == TABLED)
        for kind, noise, seeds in cells:
            values = PLAIN[world] | {name: of(noise) for name, of in changes.get((world, kind), {}).items()}
            for seed in seeds:
                spread = 0.0 if seed is None else (0.001 + chance * (noise > 0)) * (-1) ** seed
                measured = {name: value + spread for name, value in values.items()}
                labels = {"world": world, "kind": kind, "noise": noise, "step": 9} | (
                    {} if seed is None else {"seed": seed}
                )
                found.append(labels | measured)
    return claims.decided(CLAIMS, Records(found, LABELS))


THEORY = {"rarer at 0.9": lambda s: 0.31 + 0.01 * s, "rarer at 0.99": lambda s: 0.17 + 0.05 * s}
KEEPS = THEORY | {"rarer at 0.65": lambda s: 0.45, "rarer at the end": lambda s: 0.1}
AS_CLAIMED = {
    (TABLED, FLOW): THEORY | {"rarer at 0.65": lambda s: 0.5},
    (TABLED, ES): KEEPS,
    (TABLED, "es_greedy"): KEEPS,
    (TABLED, "es_ips"): {"rarer at 0.99": lambda s: 0.48},
    (SHARED, ES): {"effective at 0.6": lambda s: 5.0, "pass@4 at 0.6": lambda s: 0.98},
    (SHARED, "es_greedy"): {"pass@4 at 0.6": lambda s: 0.98},
    (SHARED, "es_ips"): {"effective at 0.6": lambda s: 8.0},
}


def test_each_claim_may_hold():
    found = decided(AS_CLAIMED)
    # With as little noise as 0.1, the same share as without noise is what theory says.
    assert [sentence for sentence, held in found.items() if not held] == [
        "noise 0.1: the rarer's share is over 0.05 above that under GRPO at accuracy 0.99 (table)"
    ]


def test_each_claim_may_fail():
    flow = {"rarer at 0.99": lambda s: 0.17 + 0.1 * (s == 0.1), "rarer at the end": lambda s: 0.17}
    changes = {
        (TABLED, FLOW): flow,
        (TABLED, ES): {"rarer at 0.9": lambda s: 0.2, "rarer at 0.99": lambda s: 0.1 + 0.3 * (s == 0.1)},
        (TABLED, "es_ips"): {"rarer at 0.99": lambda s: 0.1},
        (TABLED, RANDOM): {"rarer at the end": lambda s: 0.39},
        (SHARED, RANDOM): {"effective": lambda s: 15.0},
    }
    found = decided(changes)
    assert [sentence for sentence, held in found.items() if held is not False] == [
        "noise 0.1: the rarer's share is over 0.05 above that under GRPO at accuracy 0.99 (table)"
    ]


def test_seeds_that_disagree_decide_nothing():
    found = decided(AS_CLAIMED, chance=100.0)
    # Both sides of a comparison of rewards, paired by seed, have the same chance.
    shared = ("(exact flow)", "IPS rewards leave")
    assert {sentence for sentence, held in found.items() if held is not None} == {
        sentence for sentence in CLAIMS if any(words in sentence for words in shared)
    }


def test_arms_without_a_signal_have_no_number_at_a_bar():
    assert not [label for label in NUMBERS if "random" in label and " at 0." in label]
    assert "rarer at the end, es_random, noise 0.1 (table)" in NUMBERS
    assert "pass@4 at 0.6, es, noise 1 (shared)" in NUMBERS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": 7}, "--population is 7, it must be even and positive"),
        ({"shared_population": 0}, "--shared_population is 0, it must be even and positive"),
        ({"arms": ("ppo",)}, "--arms is 'ppo', it must be one of grpo"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["smoke"], **changes)


def test_on_a_table_large_noise_keeps_what_grpo_loses(smoke):
    settings, found = smoke(evolution)
    assert len(found) == len(EXACT) + 8 * 5 + 2 * 5
    flow = {noise: found.mean(R99, kind=FLOW, noise=noise) for noise in (0.0, 1.0, 4.0)}
    assert found.mean(R99, kind=GRPO, world=TABLED) == pytest.approx(flow[0.0], abs=0.02)
    for noise in (1.0, 4.0):
        assert found.mean(R99, kind=ES, noise=noise, world=TABLED) == pytest.approx(flow[noise], abs=0.05)
    assert evolution.TABLE(found, settings).count("es ") >= 6
    assert evolution.FIGURE(found, settings).rows
