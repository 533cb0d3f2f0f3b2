"""Advantages of flat batches."""

import numpy as np
import pytest

from ipsrl.integrations import advantages
from ipsrl.integrations.advantages_only import MoreThanAdvantages

REWARDS, OUTCOMES, GROUPS = [1, 0, 1, 0, 1, 1], ["a", None, "b", None, "a", "c"], [5, 8, 5, 8, 5, 8]


def test_advantages_are_those_of_the_groups():
    found = advantages("grpo", REWARDS, None, GROUPS)
    # The first group is all correct, the second has one of three.
    np.testing.assert_allclose(found, [0, -(0.5**0.5), 0, -(0.5**0.5), 0, 2**0.5], rtol=1e-6)


def test_rare_outcomes_weigh_more():
    found = advantages("ips_grpo(floor=0.2)", REWARDS, OUTCOMES, GROUPS)
    assert found[2] > found[0] == found[4]


def test_a_loss_of_its_own_is_named():
    with pytest.warns(MoreThanAdvantages, match="differs from GRPO in its surrogate as well.*ClippedSequenceRatio"):
        found = advantages("gspo", REWARDS, None, GROUPS)
    np.testing.assert_array_equal(found, advantages("grpo", REWARDS, None, GROUPS))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dapo", REWARDS, None, GROUPS), "no advantages of rewards and outcomes alone: its weights read token_mask"),
        (("ips_grpo", REWARDS, None, GROUPS), "reads outcomes"),
        (("grpo", REWARDS, None, [5, 8, 5, 8, 5, 5]), "groups have 2, 4 answers"),
        (("grpo", REWARDS[:5], None, GROUPS), "rewards has 5 entries, and groups has 6"),
        (("grpo", [np.nan, *REWARDS[1:]], None, GROUPS), "the reward of row 0 is nan"),
        (("grpo", [1.0], None, ["a"]), "a group needs 2 or more, not 1"),
        (("ips_grpo(probability=exact)", REWARDS, OUTCOMES, GROUPS), "log_backward"),
        (("vargrad", REWARDS, None, GROUPS), "log_backward"),
        (("aer", REWARDS, None, GROUPS), "its weights read behaviour_entropy, token_mask"),
    ],
)
def test_what_advantages_cannot_cover_is_refused_in_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        advantages(*arguments)
