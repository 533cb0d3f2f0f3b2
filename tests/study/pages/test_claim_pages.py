import dataclasses

import pytest

from ipsrl import study
from ipsrl.records.tidy import Records
from ipsrl.study.pages import claim_pages
from ipsrl.study.pages.claim_pages import SUBJECTS, Headline
from ipsrl.study.study import Study
from tests.study import small_study

SQUARES, LINES, CUBES = small_study.CLAIMS
HEADLINE = Headline(SUBJECTS[0], "Squares grow faster.", "a parabola", (SQUARES, CUBES))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((15, 16), "supported"),
        ((17, 18), "refuted"),
        ((15, 17), "mixed"),
        ((15, 16.02), "undecided"),
        ((17, 16.02), "refuted"),
        # With five seeds the upper end of the interval of 95 % is 16.040, and of 97.5 % 16.045.
        ((16.042, 16.042), "undecided"),
        ((16.042,), "refuted"),
    ],
)
def test_all_that_decides_must_agree(limits, expected):
    records = Records([{"height": 16 + seed / 100, "seed": seed, "step": 0, "arm": "a"} for seed in range(5)], ("arm",))
    claims = {f"part {i}": study.above(study.final("height", arm="a"), limit) for i, limit in enumerate(limits)}
    assert dataclasses.replace(HEADLINE, decided_by=tuple(claims)).verdict(claims, records) == expected


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
