"""Each claim of each study: records decide it in every way, the demo has the arms it names, and results are about it.

A value that is recorded stands in for a number that a function computes: that is for the study's own tests.
"""

import re

import pytest

from ipsrl.records.json_files import read_json
from ipsrl.study import catalog
from ipsrl.study.claims import AtEach, Comparison, decision
from ipsrl.study.numbers import Best, Combined, Constant
from ipsrl.study.pages.claim_pages import result_path
from ipsrl.study.training_runs import TrainingGrid
from tests.study.made_up import records_for, with_stand_ins

ANY = "any value"
NOT_HERE = {"inside_trl", "math_answers", "molecules", "one_of_many", "transfer", "warm_start"}
"""Studies whose demo begins with a model, with molecules, or with one device alone."""
OF_POINTS = {"covariate_shift": {"method"}, "hypergrid": {"dimensions"}}
"""Labels that a curve records at its points, or that another command than the demo's changes."""


def verdicts(claim):
    """The verdicts on made-up records: some that support the claim, some that refute it, and some of too few seeds."""
    made = (records_for(claim, True), records_for(claim, False), records_for(claim, True, seeds=4))
    return [decision(claim, records).verdict for records in made]


def comparisons(claim, values=lambda label, labels: [ANY]):
    """All comparisons that may decide a claim; `values` are those of a label at each of which there is one."""
    match claim:
        case Comparison():
            return [claim]
        case AtEach(label, of_value, labels):
            parts = [of_value.within(**labels, **{label: value}) for value in values(label, labels)]
        case _:
            parts = claim.parts
    return [each for part in parts for each in comparisons(part, values)]


def labels_of(number):
    """The labels of all values that a number is made of."""
    match number:
        case Combined(_, left, right):
            return labels_of(left) + labels_of(right)
        case Best(number=inner):
            return labels_of(inner)
        case Constant():
            return []
    return [number.labels]


@pytest.mark.parametrize("name", catalog.names())
def test_each_claim_has_each_verdict(name):
    found = {sentence: verdicts(with_stand_ins(claim)) for sentence, claim in catalog.find(name).claims.items()}
    assert {sentence: each for sentence, each in found.items() if each != [True, False, None]} == {}


@pytest.mark.parametrize("name", sorted({*catalog.names()} - NOT_HERE))
def test_the_demo_has_a_curve_with_the_labels_of_each_claim(name, monkeypatch):
    # Nothing is trained: whether these devices could share its prompts does not matter.
    monkeypatch.setattr(TrainingGrid, "__post_init__", lambda grid: None)
    study = catalog.find(name)
    curves = [dict(curve.labels) for curve in study.curves(study.presets["demo"].resolved())]
    told = {label for curve in curves for label in curve} - OF_POINTS.get(name, set())

    def values(label, labels):
        return {curve[label] for curve in curves if labels.items() <= curve.items() and label in curve} or [ANY]

    for sentence, claim in study.claims.items():
        for labels in (labels for each in comparisons(claim, values) for labels in labels_of(each.number)):
            asked = {label: value for label, value in labels.items() if label in told and value != ANY}
            assert any(asked.items() <= curve.items() for curve in curves), (sentence, labels)


@pytest.mark.parametrize("name", [name for name in catalog.names() if result_path(catalog.find(name)).exists()])
def test_a_published_verdict_is_on_the_number_and_the_limit_of_its_claim(name):
    study = catalog.find(name)
    for sentence, result in read_json(result_path(study))["claims"].items():
        said = [f"{each.number} is {each.claimed}" for each in comparisons(study.claims[sentence])]
        pattern = "|".join(re.escape(each).replace(re.escape(ANY), ".+") for each in said)
        assert "of" not in result or re.fullmatch(pattern, f"{result['of']} is {result['claimed']}"), sentence
