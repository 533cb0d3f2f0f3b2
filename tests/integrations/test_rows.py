import datetime
import enum
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from ipsrl.integrations.advantages_only import advantages
from ipsrl.integrations.guest import GuestObjective
from ipsrl.integrations.rows import Rows, groups_of, numbered, rollouts_of
from tests.objectives.groups import random_rollouts


def test_rows_of_a_prompt_are_a_group_wherever_they_stand():
    assert groups_of(list("abba"), 2).tolist() == [[0, 3], [1, 2]]
    assert groups_of(list("aabaab"), 2).tolist() == [[0, 1], [2, 5], [3, 4]]


def test_a_group_that_is_not_whole_is_refused():
    with pytest.raises(ValueError, match="3 answers to the prompt 'a', which must be a multiple of the group size, 2"):
        groups_of(list("abaab"), 2)


def test_equal_outcomes_have_equal_numbers():
    assert numbered(["x", ("x", 1), None, "x", 7]).tolist() == [0, 1, -1, 0, 2]
    for unhashable in (["x"], ("x", [1])):
        with pytest.raises(ValueError, match=r"outcome_of gave .*, which cannot be hashed"):
            numbered(["x", unhashable])


class Answer(enum.StrEnum):
    YES = "yes"


class Colour(enum.Enum):
    RED, BLUE = 1, 2


EQUAL = [
    [5, np.int64(5), 5.0, np.float32(5), Fraction(5), Decimal("5.00"), 5 + 0j, np.uint8(5)],
    [True, 1, np.True_, np.int8(1)],
    ["a", np.str_("a")],
    ["yes", Answer.YES],
    [0.5, Fraction(1, 2), np.float64(0.5)],
    [(1, "a"), (np.int64(1), np.str_("a")), (True, "a")],
    [frozenset([1, 2, "a"]), frozenset(["a", 2.0, np.int64(1)])],
    ["5"], [(5,)], [-5], [2**70], [2**70 + 1], ["None"], [b"a"], [float("inf")], [()], ["a, b"], [("a", "b")],
    ["half \ud800"], [1j, complex(-0.0, 1)], [Colour.RED, Colour(1)], [Colour.BLUE],
    [(1, math.nan), (1, float("nan")), (1, None)], [np.array(9), 9],
]  # fmt: skip


@pytest.mark.parametrize("keeps", [False, True])
def test_outcomes_are_the_same_where_they_are_equal(keeps):
    """Whatever their types, in a batch and over all batches."""
    objective = "ips_grpo(probability=ema)" if keeps else "ips_grpo"
    flat = [value for values in EQUAL for value in values]
    found = GuestObjective(objective, 2, "a trainer").outcome_id(["p"] * len(flat), flat)
    assert found.tolist() == [number for number, values in enumerate(EQUAL) for _ in values]


class Modulo:
    """A class that says itself which of its objects are equal."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Modulo) and (self.number - other.number) % 10 == 0

    def __hash__(self):
        return self.number % 10

    def __repr__(self):
        return "Modulo"


NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
NAMELESS = [
    [Modulo(1), Modulo(11)],
    [Modulo(2)],
    [NOON, NOON.astimezone(datetime.timezone(datetime.timedelta(hours=1)))],
    [range(0, 3, 2), range(0, 4, 2)],
    [np.timedelta64(60, "s"), np.timedelta64(1, "m")],
    [(Modulo(1), math.nan), (Modulo(11), float("nan"))],
]


def test_in_a_batch_outcomes_are_equal_as_they_say_themselves():
    flat = [value for values in NAMELESS for value in values]
    expected = [number for number, values in enumerate(NAMELESS) for _ in values]
    assert numbered(flat).tolist() == expected
    found = advantages("ips_grpo(floor=0.2)", [1, 1, 1, 1], [Modulo(1), Modulo(1), Modulo(11), Modulo(2)], ["p"] * 4)
    named = advantages("ips_grpo(floor=0.2)", [1, 1, 1, 1], "aaab", [NOON] * 4)
    assert found.tolist() == named.tolist()
    assert found[3] > 0 > found[0]


@pytest.mark.parametrize("value", [values[0] for values in NAMELESS])
def test_a_table_over_batches_refuses_outcomes_without_a_name_that_lasts(value):
    with pytest.raises(ValueError, match=r"no name that lasts from batch to batch: give a text, a number"):
        GuestObjective("ips_grpo(probability=ema)", 2, "a trainer").outcome_id(["p"], [value])


@pytest.mark.parametrize("keeps", [False, True])
def test_what_pandas_and_numpy_write_for_none_is_no_outcome(keeps):
    class Unknown:
        """A value like pandas.NA, which does not say whether it is equal to itself."""

        def __eq__(self, other):
            return self

        def __hash__(self):
            return 0

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

    nothing = [None, math.nan, np.nan, np.float32("nan"), np.datetime64("NaT"), Decimal("nan"), Unknown()]
    objective = "ips_grpo(probability=ema)" if keeps else "ips_grpo"
    found = GuestObjective(objective, 2, "a trainer").outcome_id(["p"] * 8, [*nothing, "a"])
    assert found.tolist() == [-1] * 7 + [0]


def test_groups_become_rows_and_groups_again():
    rollouts, _ = random_rollouts(prompts=3, group=4)
    rows = Rows.of(rollouts)
    again = rollouts_of(rows, np.arange(12).reshape(3, 4))
    for name in ("prompt_index", "rewards", "outcome_id", "tokens", "token_mask", "behaviour_log_probs"):
        np.testing.assert_array_equal(getattr(again, name), getattr(rollouts, name))
