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


GRADED = [1.0, 0.01, 0.01, 0.01]
BY_RIGHT = ["pass_at_k", "f_grpo", "pkpo", "gapo", "darling", "uniqueness_aware"]


@pytest.mark.parametrize("objective", BY_RIGHT)
def test_what_wrong_answers_earn_does_not_make_them_right(objective):
    """The advantages are nearly those of one right and three wrong answers, once it is said what is right."""
    with pytest.raises(ValueError, match=r"rewards such as 0\.01 and 1 do not say which are right: give right_above"):
        advantages(objective, GRADED, "abcd", ["p"] * 4)
    found, plain = (
        advantages(objective, rewards, "abcd", ["p"] * 4, right_above=0.5) for rewards in (GRADED, [1.0, 0.0, 0.0, 0.0])
    )
    assert found[0] > 0.1
    np.testing.assert_allclose(found, plain, atol=0.02)


def test_objectives_that_tell_no_right_from_wrong_take_graded_rewards():
    assert advantages("grpo", GRADED, None, ["p"] * 4)[0] > 1


def test_groups_may_be_messages():
    first, second = [{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]
    found = advantages("grpo", REWARDS, None, [first, second] * 3)
    np.testing.assert_array_equal(found, advantages("grpo", REWARDS, None, GROUPS))
    assert advantages("grpo", [1, 0], None, [[0], [0]]).tolist() == [1, -1]
    assert advantages("grpo", [1, 0], None, np.zeros((2, 1))).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dapo", REWARDS, None, GROUPS), "no advantages of rewards and outcomes alone: its weights read token_mask"),
        (("ips_grpo", REWARDS, None, GROUPS), "reads outcomes"),
        (("grpo", REWARDS, None, [5, 8, 5, 8, 5, 5]), "groups have 2, 4 answers"),
        (("grpo", REWARDS[:5], None, GROUPS), "rewards has 5 entries, and groups has 6"),
        (("grpo", [None, *REWARDS[1:]], None, GROUPS), "the reward of row 0 is nan"),
        (("grpo", [1e20, *REWARDS[1:]], None, GROUPS), r"row 0 is 1e\+20: rewards must be finite, and 0 or of a size"),
        (("grpo", [-(10**400), *REWARDS[1:]], None, GROUPS), "row 0 is -inf: rewards must be finite, and 0 or of a"),
        (("grpo", [[1], [0]], None, [0, 0]), r"rewards is \[\[1\], \[0\]\], it must hold one number for each answer"),
        (("grpo", [[1], 0], None, [0, 0]), r"rewards is \[\[1\], 0\], it must hold one number for each answer"),
        (("grpo", ["x", "y"], None, [0, 0]), "rewards is .*, it must hold one number"),
        (("ips_grpo", REWARDS, set("abcdef"), GROUPS), "outcomes is .*, it must be a list, with one entry for each"),
        (("grpo", [1e-300, *REWARDS[1:]], None, GROUPS), "the reward of row 0 is 1e-300: rewards must be finite"),
        (("grpo", {1: 0}, None, GROUPS), "rewards is {1: 0}, it must be a list"),
        (("grpo", REWARDS, None, dict.fromkeys(range(6))), "groups is .*, it must be a list"),
        (("grpo", REWARDS, None, GROUPS, 0.5), "seed is 0.5, it must be a whole number"),
        ((3, REWARDS, None, GROUPS), "objective is 3, it must be an Objective"),
        (("grpo", REWARDS, None, GROUPS, 0, -1.0), "right_above is -1.0, it must not be negative"),
    ],
)
def test_what_advantages_cannot_cover_is_refused_in_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        advantages(*arguments)
