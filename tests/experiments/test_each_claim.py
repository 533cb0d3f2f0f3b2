"""Each claim of each study is supported, refuted and undecided by records that are made up for it.

A value that is recorded stands in for a number that a function computes: that is for the study's own tests.
"""

import pytest

from ipsrl.study import catalog
from ipsrl.study.claims import decision
from tests.study.made_up import records_for, with_stand_ins


def verdicts(claim):
    """The verdicts on made-up records: some that support the claim, some that refute it, and some of too few seeds."""
    made = (records_for(claim, True), records_for(claim, False), records_for(claim, True, seeds=4))
    return [decision(claim, records).verdict for records in made]


@pytest.mark.parametrize("name", catalog.names())
def test_each_claim_has_each_verdict(name):
    found = {sentence: verdicts(with_stand_ins(claim)) for sentence, claim in catalog.find(name).claims.items()}
    assert {sentence: each for sentence, each in found.items() if each != [True, False, None]} == {}
