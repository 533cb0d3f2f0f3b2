import csv
import json

import numpy as np
import pytest
from scipy import stats

from scripts.audit_verifier import check, main, parser, rates, read, report


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
    assert decision == "decision: go, but see above: training also raises what the verifier wrongly accepts"


def test_a_kind_with_a_j_below_0_is_named():
    text = report(answers(90, 5, 5, 90) + answers(1, 19, 4, 16, kind="trick"), "kind")
    assert "J of trick is below 0" not in text
    text = report(answers(90, 5, 5, 90) + answers(0, 20, 12, 0, kind="trick"), "kind")
    assert "J of trick is below 0: training lowers the true accuracy of such answers" in text
    assert text.splitlines()[-1].startswith("decision: go, but")


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
    ("content", "message"),
    [
        (b"", "has no answers"),
        (b"[1]", "line 1 is not a JSON object"),
        (b"[" * 100_000, "line 1 is not a JSON object"),
        (b'\n{"label": 1}', "line 2 of .* has no verdict; its fields are: label"),
        (b'\n{"label": 1, "verdict": "maybe"}', "verdict in line 2 of .* is 'maybe', it must be true, false, 1 or 0"),
        (b"label;verdict\n1;0\n", "line 2 of .*a.csv has no label; its fields are: label;verdict"),
        (b"label,verdict\n1,0\n\n1\n", "line 4 of .*a.csv has no verdict"),
        (b"label,verdict\n1,\xe9\n", "a.csv is not UTF-8: byte 16 is 0xe9"),
    ],
)
def test_what_is_no_labelled_answer_is_refused(tmp_path, content, message):
    path = tmp_path / ("a.csv" if b"label" in content[:5] else "a.jsonl")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(path, ["label", "verdict"])


def test_files_of_spreadsheets_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbflabel, verdict\r\n1 , 0\r\n\r\nfalse, true\r\n")
    assert read(path, ["label", "verdict"]) == [{"label": True, "verdict": False}, {"label": False, "verdict": True}]


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    (tmp_path / "a.txt").write_text("")
    for name, message in (("nofile.csv", "there is no file"), ("a.txt", "must end in .jsonl or .csv")):
        with pytest.raises(ValueError, match=message):
            check(parser().parse_args([str(tmp_path / name)]))
