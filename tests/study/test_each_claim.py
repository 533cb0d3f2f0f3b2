"""Each claim of each study is supported, refuted and undecided by records that are made up for it."""

import pytest

from ipsrl.study import catalog
from ipsrl.study.claims import decision
from tests.study.made_up import NotLinear, records_for

CLAIMS = {
    f"{name}: {sentence}": claim for name, study in catalog.every().items() for sentence, claim in study.claims.items()
}


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_claim_has_each_verdict(sentence):
    claim = CLAIMS[sentence]
    try:
        supporting = records_for(claim, True)
    except NotLinear:
        pytest.skip("its number is computed by a function, which its study's tests try")
    found = decision(claim, supporting)
    assert found.verdict is True, found
    assert found.number
    assert decision(claim, records_for(claim, False)).verdict is False
    assert decision(claim, records_for(claim, True, seeds=4)).verdict is None
