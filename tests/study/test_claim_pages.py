"""Headlines and what decides them; the pages themselves are tested with the command that writes them."""

import dataclasses

import pytest

from ipsrl.study import claim_pages
from ipsrl.study.claim_pages import SUBJECTS, Headline
from ipsrl.study.study import Study
from tests.study import small_study

SQUARES, LINES, CUBES = small_study.CLAIMS
HEADLINE = Headline(SUBJECTS[0], "Squares grow faster.", "a parabola", (SQUARES, CUBES))


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("supported", "supported"), "supported"),
        (("refuted", "refuted"), "refuted"),
        (("supported", "refuted"), "mixed"),
        (("supported", "undecided"), "undecided"),
        (("refuted", "undecided"), "refuted"),
    ],
)
def test_all_that_decides_must_agree(verdicts, expected):
    found = {sentence: {"verdict": word} for sentence, word in zip(HEADLINE.decided_by, verdicts, strict=True)}
    assert HEADLINE.verdict(found) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subject": "cats"}, "the headline's subject is 'cats', it must be one of Collapse"),
        ({"claim": "so " * 21}, "has more than 20 words: shorten it"),
        ({"decided_by": ()}, "nothing decides the headline 'Squares grow faster.': name sentences of CLAIMS"),
    ],
)
def test_a_bad_headline_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(HEADLINE, **change)


def test_a_headline_is_decided_by_claims_of_its_study(monkeypatch):
    monkeypatch.setattr(small_study, "HEADLINE", HEADLINE, raising=False)
    assert Study.of(small_study).headline == HEADLINE
    monkeypatch.setattr(small_study, "HEADLINE", dataclasses.replace(HEADLINE, decided_by=("no claim",)))
    with pytest.raises(ValueError, match="the headline is decided by 'no claim', which is none of its CLAIMS"):
        Study.of(small_study)


def test_results_have_a_folder():
    with pytest.raises(ValueError, match="small_study has a headline, but no folder for its results: make "):
        claim_pages.result_path(Study.of(small_study))
