"""Tests of fields that are recognised by their values."""

import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.cases import WALKS, case_of
from ipsrl.dynamics.equal_fields import once_for_equal
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import Field

REWARDS = (1.0, 1.0, 0.5)


def field(name: str, rewards: tuple[float, ...] = REWARDS, **more) -> Field:
    return Field(objectives.make(name), rewards, 4, **more)


SEVERAL = {"steps": Steps(4, 2.0)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (field("grpo"), field("grpo(clip=0.1)"), True),
        (field("grpo", **SEVERAL), field("grpo(clip=0.1)", **SEVERAL), False),
        # They differ where the least likely outcome has 0.0003 to 0.001 of the probability of the likeliest.
        (field("lp_reg(kappa=0.001)"), field("lp_reg(kappa=0.0003)"), False),
        (field("dr_grpo(clip=(0.9, 1.2))", **SEVERAL), field("dr_grpo(clip=(0.9, 100.0))", **SEVERAL), False),
        (field("dr_grpo"), field("dr_grpo", (1.0, 1.0, 0.50001)), False),
        # Expected return needs no sampling to be the same for every group; standardised advantages do.
        (field("reinforce"), Field(objectives.make("reinforce"), REWARDS, 8), True),
        (field("grpo"), Field(objectives.make("grpo"), REWARDS, 8), False),
        (field("grpo"), field("grpo", reference=(0.2, 0.3, 0.5)), True),
        (field("grpo(kl=0.1)"), field("grpo(kl=0.1)", reference=(0.2, 0.3, 0.5)), False),
        (field("grpo", environment=WALKS), field("grpo(clip=0.1)", environment=WALKS), True),
    ],
)
def test_equal_fields_are_computed_once(one, other, same):
    calls = []
    count = once_for_equal(calls.append)
    count(one)
    count(other)
    assert len(calls) == (1 if same else 2)


def test_nothing_that_moves_is_a_field_too():
    still = field("grpo", (0.0, 0.0, 0.0))
    assert once_for_equal(lambda field: field)(still) is still


def test_several_fields_are_a_key_in_their_order():
    one, other = field("grpo"), field("dr_grpo")
    pairs = once_for_equal(lambda first, second: (first, second))
    assert pairs(one, other) == (one, other)
    assert pairs(other, one) == (other, one)


def test_shared_flows_end_where_an_objective_ends_alone():
    first, second = field("grpo"), field("grpo(clip=0.1)")
    shared, alone = case_of(first), case_of.__wrapped__(second)
    assert case_of(second) is shared
    np.testing.assert_allclose(shared.ends, alone.ends, rtol=0, atol=1e-6)
