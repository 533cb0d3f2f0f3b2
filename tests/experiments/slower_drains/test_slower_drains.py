import math

import pytest

from experiments import slower_drains
from experiments.slower_drains import CLAIMS, PLACEBO, ends_as
from experiments.slower_drains.drains import LATER, delay, elsewhere
from ipsrl.records.tidy import Records
from ipsrl.study.claims import above


def exact(**values):
    """Records of GRPO and of a method at two numbers of steps on a batch; each value is GRPO's and the method's."""
    rows = [
        {"side": "exact", "objective": name, "k": k, "step": 2000} | {of: both[place] for of, both in values.items()}
        for place, name in enumerate(("grpo", "aer"))
        for k in (2, 4)
    ]
    return Records(rows, ("side", "objective", "k"))


@pytest.mark.parametrize(
    ("times", "ratio"),
    # At the end of training GRPO, or a method that delays it by a tenth, may not have lost half.
    [((200, 250), 1.25), ((2000, 2000), math.nan), ((1900, 2000), math.nan)],
)
def test_a_delay_is_a_ratio_of_half_times_within_training(times, ratio):
    number = delay("aer").within(k=2)
    assert number(exact(half_time=times)).mean == pytest.approx(ratio, nan_ok=True)
    assert above(number, LATER)(exact(half_time=times)) is (True if ratio > LATER else None)


@pytest.mark.parametrize(
    ("words", "differs", "same"),
    [
        (("collapses", "collapses"), 0, True),
        (("collapses", "uniform over correct"), 1, False),
        (("collapses", "other"), math.nan, None),
        (("other", "collapses"), math.nan, None),
    ],
)
def test_where_training_ends_is_a_word_and_other_is_none(words, differs, same):
    records = exact(word=words)
    assert elsewhere("aer")(records.where(k=2)).mean == pytest.approx(differs, nan_ok=True)
    assert ends_as("aer")(records) is same
    assert ends_as("aer", words[1])(records) is (None if words[1] == "other" else True)


def test_no_claim_is_made_of_aer_which_is_grpo_here():
    assert not [sentence for sentence in CLAIMS if "AER" in sentence]


def test_grpo_loses_a_right_outcome_and_ips_keeps_both(smoke):
    _, records = smoke(slower_drains)
    words = {
        name: set(records.where(side="exact", objective=name).column("word").tolist()) for name in ("grpo", "ips_grpo")
    }
    assert words == {"grpo": {"collapses"}, "ips_grpo": {"uniform over correct"}}
    fast, slow = (records.mean("half_time", side="exact", objective=name, k=2) for name in ("grpo", PLACEBO))
    assert fast < slow
    sampled = {name: records.mean("effective", side="sampled", objective=name, k=2) for name in words}
    assert sampled["grpo"] + 1 < sampled["ips_grpo"]
