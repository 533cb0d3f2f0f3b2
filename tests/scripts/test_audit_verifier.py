"""The audit of a verifier: rates, the decision, and what it refuses."""

import csv
import json

import numpy as np
import pytest
from scipy import stats

from scripts.audit_verifier import main, rates, read, report


def answers(*counts, kind="sum"):
    """Labelled answers from how many of them were (right, accepted), (right, rejected), (wrong, ...), (wrong, ...)."""
    cells = [(True, True), (True, False), (False, True), (False, False)]
    return [
        {"label": label, "verdict": verdict, "kind": kind}
        for (label, verdict), count in zip(cells, counts, strict=True)
        for _ in range(count)
    ]


def arrays(rows):
    return (np.array([row[name] for row in rows]) for name in ("label", "verdict"))


def test_rates_are_those_of_the_posterior():
    tpr, fpr, youden = rates(*arrays(answers(70, 30, 10, 40)))
    for found, posterior in ((tpr, stats.beta(70.5, 30.5)), (fpr, stats.beta(10.5, 40.5))):
        assert found.mean == pytest.approx(posterior.mean(), abs=1e-3)
        assert (found.low, found.high) == pytest.approx(posterior.interval(0.95), abs=2e-3)
    deviation = np.sqrt(stats.beta(70.5, 30.5).var() + stats.beta(10.5, 40.5).var())
    assert youden.mean == pytest.approx(tpr.mean - fpr.mean, abs=1e-9)
    assert (youden.low, youden.high) == pytest.approx(
        (youden.mean - 1.96 * deviation, youden.mean + 1.96 * deviation), abs=1e-2
    )


def test_answers_chosen_by_their_verdict_are_weighed():
    # A tenth of 100,000 answers is accepted; 1,000 of each verdict are labelled: 90 % and 20 % of these are right.
    tpr, fpr, youden = rates(*arrays(answers(900, 200, 100, 800)), share=0.1)
    assert tpr.mean == pytest.approx(0.09 / (0.09 + 0.18), abs=5e-3)
    assert fpr.mean == pytest.approx(0.01 / (0.01 + 0.72), abs=5e-3)
    assert youden.low < tpr.mean - fpr.mean < youden.high


@pytest.mark.parametrize(
    ("counts", "decision"),
    [((40, 10, 5, 45), "go"), ((5, 45, 40, 10), "no-go"), ((3, 2, 2, 3), "unclear"), ((10, 5, 0, 0), "unclear")],
)
def test_the_decision_is_whether_j_is_above_0(counts, decision):
    assert report(answers(*counts)).splitlines()[-1] == f"decision: {decision}"


def test_a_kind_of_wrong_answers_that_is_always_accepted_is_a_systematic_error():
    text = report(answers(50, 5, 5, 95) + answers(0, 0, 12, 0, kind="trick"), "kind")
    _, whole, first, trick, error, decision = text.splitlines()
    assert (whole.split()[:3], first.split()[:3]) == (["all", "55", "112"], ["sum", "55", "100"])
    assert trick.split()[:4] == ["trick", "0", "12", "-"]
    assert error == "systematic error: wrong answers of trick are accepted more often than others"
    assert decision == "decision: go"


def test_both_formats_say_the_same(tmp_path, capsys):
    rows = answers(8, 1, 2, 9)
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with (tmp_path / "a.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": int(row["label"])} for row in rows)
    main([str(tmp_path / "a.jsonl"), "--pattern=kind"])
    main([str(tmp_path / "a.csv"), "--pattern=kind"])
    text = capsys.readouterr().out
    assert text[: len(text) // 2] == text[len(text) // 2 :]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no answers"),
        ("[1]", "line 1 is not a JSON object"),
        ('{"label": 1}', "answer 1 has no verdict"),
        ('{"label": 1, "verdict": "maybe"}', "verdict of answer 1 is 'maybe', it must be true, false, 1 or 0"),
    ],
)
def test_what_is_no_labelled_answer_is_refused(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.jsonl", ["label", "verdict"])
