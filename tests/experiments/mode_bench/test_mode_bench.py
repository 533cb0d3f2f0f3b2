"""The claims of the study on made-up records, and a run of its smoke preset."""

import pytest

from experiments import mode_bench as study
from experiments.mode_bench import CLAIMS, DOMAINS, GRPO, HELD_OUT, IPS, NAMES, NUMBERS, PLACEBO, RIVALS
from ipsrl.records.tidy import Records
from ipsrl.study import claims

START = {"pass_1": 0.3, "pass_8": 0.8, "pass_32": 0.9, "pcmd": 0.8, "defined": 1.0, "effective": 4.0}


def records(ends, chance=0.0):
    """Six seeds of each objective in both domains, of which `ends` says how they end: objective -> value -> mean."""
    rows = []
    for domain in DOMAINS:
        for number, arm in enumerate(NAMES):
            both = [{f"{part}{name}": value for name, value in START.items()} for part in ("", HELD_OUT)]
            for step, change in enumerate(({}, ends.get(arm, {}))):
                for seed in range(6):
                    noise = chance * (-1) ** (seed + number) * number * step
                    values = {name: value + noise for name, value in (both[0] | both[1] | change).items()}
                    rows.append({"domain": domain, "objective": arm, "seed": seed, "step": step} | values)
    return Records(rows, ("domain", "objective"))


COLLAPSED = {"pcmd": 0.1, f"{HELD_OUT}pcmd": 0.1, f"{HELD_OUT}pass_32": 0.5, "pass_1": 0.9}
AS_CLAIMED = {GRPO: COLLAPSED, PLACEBO: COLLAPSED, IPS: {"pass_1": 0.88}} | {arm: {"pcmd": 0.4} for arm in RIVALS}
NOT_AS_CLAIMED = {
    GRPO: {"pass_1": 0.9},
    IPS: COLLAPSED | {"pass_1": 0.5},
    PLACEBO: {"pcmd": 0.9},
    **{arm: {"pcmd": 0.2} for arm in RIVALS},
}


def test_all_that_is_claimed_may_hold():
    assert set(claims.decided(CLAIMS, records(AS_CLAIMED)).values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    assert set(claims.decided(CLAIMS, records(NOT_AS_CLAIMED)).values()) == {False}


def test_seeds_that_disagree_decide_nothing():
    found = claims.decided(CLAIMS, records({}, chance=0.3))
    assert {sentence for sentence, held in found.items() if held is not None} == {
        f"{on}: GRPO ends with a PCMD over 0.1 below its prior's" for on in DOMAINS.values()
    }


def test_a_claim_without_its_objectives_is_undecided():
    assert set(claims.decided(CLAIMS, Records([], ("domain", "objective"))).values()) == {None}


def test_numbers_are_read_from_the_records():
    found = claims.measured(NUMBERS, records(AS_CLAIMED))
    assert set(found) == set(NUMBERS)
    assert found["PCMD, factors, training problems, UCPO"].mean == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": ("countdown",)}, "--domains is 'countdown', it must be one of graph_coloring, factors"),
        ({"level": 6}, "--level is 6, it must lie between 1 and 5"),
        ({"seeds": (0,)}, "--seeds"),
        ({"answers": 1}, "--answers is 1, it must be at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke(smoke):
    settings, found = smoke(study)
    assert sorted(found.column("step").tolist()) == [0, 0, 1, 1, 2, 2]
    assert "held-out problems" in study.TABLE(found, settings)
    assert study.FIGURE(found, settings).rows
