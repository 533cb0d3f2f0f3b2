import dataclasses
import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from experiments import verdicts
from experiments.verdicts import ADDED, PRESETS, Settings, chosen_objectives, computed_flows, verdict_page
from experiments.verdicts.verdict_page import REWARDS, SHOWN, PublishedVerdict, document, grouped
from ipsrl import objectives, study
from ipsrl.dynamics.cases import CASES, REFERENCES, STARTS, Case
from ipsrl.dynamics.verdict import MEANINGS, Verdict, Word
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from ipsrl.study.study import Study, run
from tests.experiments.verdicts.made_up import made_up

DOCUMENT = Path(__file__).parents[3] / "docs" / "verdicts.md"


def made_up_verdict(word="collapses", winner=0):
    """One outcome takes all, from every start and for all rewards."""
    case = Case(None, np.tile(np.eye(3)[winner], (len(STARTS), 1)), np.zeros((len(STARTS), 3)))
    cases = dict.fromkeys(CASES, case)
    return Verdict(word, "seen", cases, cases, "ClippedRatio")


def words_of(page):
    """Objective -> word, as the page says."""
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        word, _, body = section.partition("\n")
        rows = [line for line in body.splitlines() if line.startswith("| `")]
        found |= {name: word for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    return found


def test_every_word_case_and_reference_is_explained():
    assert tuple(MEANINGS) == get_args(Word)
    assert tuple(REWARDS) == tuple(CASES)
    page = document(grouped([made_up("first", "other")]), {}, 8, "the command", "figure.png")
    for what in (*MEANINGS, *REWARDS):
        assert f"- **{what}**" in page
    assert " : ".join(map(str, REFERENCES["skewed"])) in page
    assert "![Where training ends, for each objective and reward](figure.png)" in page
    assert page.endswith("\n    the command\n")
    # Every number and name was put in.
    assert not re.search(r"[{}]", page)


def test_objectives_that_do_the_same_share_a_row_under_their_word():
    made = [
        made_up("late", "other", text="0.40 : 0.40 : 0.20"),
        made_up("first", "collapses"),
        dataclasses.replace(made_up("second(alpha=0.5)", "collapses"), unseen="SoftGate"),
        made_up("third", "collapses", evidence="seen otherwise"),
        dataclasses.replace(made_up("fifth", "other"), several="collapses: soon"),
        dataclasses.replace(made_up("sixth", "other"), several="collapses: late"),
        dataclasses.replace(made_up("seventh", "other"), walks="collapses"),
    ]
    rows = grouped(made)
    assert [[entry.objective for entry in row] for row in rows] == [
        ["first", "second(alpha=0.5)"],
        ["third"],
        ["late"],
        ["fifth", "sixth"],
        ["seventh"],
    ]
    page = document(rows, {"fourth": "no prompt"}, 8, "the command", "figure.png")
    assert "\n| `first`, `second(alpha=0.5)` |" + " 0.50 : 0.50 : 0 |" * len(CASES) + " seen | - | - | - |\n" in page
    assert "| seen | `fifth`: collapses: soon<br>`sixth`: collapses: late | - | - |" in page
    assert "| seen | - | collapses | - |" in page
    assert "\n- `fourth`: no prompt.\n" in page
    assert "steps only: SoftGate of `second(alpha=0.5)`." in page
    assert words_of(page) == {entry.objective: entry.word for entry in made}


def test_other_ends_are_another_row_even_where_the_words_are_the_same():
    same = made_up("first", "collapses", text="one of 2 outcomes", ends=(1.0, 0.0, 0.0))
    other = dataclasses.replace(same, objective="second", ends=made_up("", "", ends=(0.0, 1.0, 0.0)).ends)
    assert not same.equals(other)
    assert same.equals(dataclasses.replace(same, objective="third"))
    assert not same.equals(made_up("fourth", "collapses", references=tuple(REFERENCES)))


def test_cells_of_objectives_that_look_at_a_reference_have_a_line_for_each():
    page = document(grouped([made_up("kept", "other", references=tuple(REFERENCES))]), {}, 8, "c", "f.png")
    assert "| uniform: 0.50 : 0.50 : 0<br>skewed: 0.50 : 0.50 : 0 |" in page


def test_starts_that_are_drawn():
    leaders = [int(np.argmax(STARTS[number])) for number in SHOWN]
    assert leaders == [0, 1, 2] * 2
    behind = [[p for p in STARTS[number] if p < max(STARTS[number])] for number in SHOWN]
    assert all(first > second for first, second in behind)


def test_records_say_all_that_is_told():
    ends, exponents = np.tile([0.899, 0.1, 0.001], (12, 1)), np.tile([0.0, -0.5, -0.5], (12, 1))
    cases = {name: Case(None, ends, exponents) for name in CASES}
    kept = {name: Case(None, np.tile([0.2, 0.3, 0.5], (12, 1)), np.zeros((12, 3))) for name in CASES}
    on_walks = Verdict("uniform over correct", "evenly; slowly", kept, kept, "")
    records = verdict_page.records_of(Verdict("other", "seen", cases, kept, "SoftGate"), cases["binary"], on_walks)
    assert len(records) == 2 * len(CASES) * len(STARTS)
    assert (records[1]["start_1"], records[1]["exponent_3"]) == (STARTS[1][0], -0.5)
    entry = PublishedVerdict.of("it", Records(records, ()))
    assert (entry.word, entry.evidence, entry.unseen, entry.several) == ("other", "seen", "SoftGate", "")
    assert entry.beside == "1.00 : 0 : 0"
    assert entry.walks == "uniform over correct: evenly; full tie 0.20 : 0.30 : 0.50"
    assert entry.texts == {
        "uniform": dict.fromkeys(CASES, "1.00 : 0 : 0"),
        "skewed": dict.fromkeys(CASES, "0.20 : 0.30 : 0.50"),
    }
    np.testing.assert_allclose(entry.ends["uniform"]["binary"], np.tile([1, 0, 0], (12, 1)))
    np.testing.assert_allclose(entry.ends["skewed"]["binary"], kept["binary"].ends)


def test_all_is_the_catalog_without_what_has_no_verdict():
    chosen, left_out = chosen_objectives(("all",), 8)
    assert {*chosen, *left_out} == {*objectives.names(), *ADDED}
    # They need a prompt, or hidden states; sample at random; read several rewards, or that of a greedy answer.
    assert set(left_out) == {"progrpo", "clip_cov", "placebo", "gdpo", "vector_po", "remax", "rep_exp"}
    assert {"progrpo(reference=correct)", "rep_exp(features=outcome)"} <= set(chosen)
    with pytest.raises(ValueError, match=r"progrpo has no verdict: .*prompt_log_probs"):
        chosen_objectives(("progrpo",), 8)


def test_claims_and_numbers_are_on_words():
    words = {"grpo": "collapses", "maxrl": "collapses", "ips_grpo": "other"}
    records = Records([{"objective": name, "word": word} for name, word in words.items() for _ in "ab"], ("objective",))
    assert list(claims.decided(verdicts.CLAIMS, records).values()) == [True, False]
    numbers = claims.measured(verdicts.NUMBERS, records)
    assert {word: number.mean for word, number in numbers.items()} == {"collapses": 2, "other": 1}


def publish(path, page, verdict=None, monkeypatch=None, **changes):
    """The study, with made-up verdicts."""
    monkeypatch.setattr(verdicts, "beside_another", lambda *arguments: made_up_verdict().cases["binary"])
    monkeypatch.setattr(verdicts, "verdict", lambda *arguments, **named: verdict or made_up_verdict())
    settings = Settings(objectives=("grpo", "maxrl", "dapo"), document=str(page), **changes)
    run(Study.of(verdicts), settings, "demo", study.Output(path, resume=False))


def test_one_row_of_a_page_is_replaced(tmp_path, monkeypatch, capsys):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    publish(tmp_path / "all", page, monkeypatch=monkeypatch)
    assert words_of(page.read_text()) == dict.fromkeys(("grpo", "maxrl", "dapo"), "collapses")
    assert f"document: {page}" in capsys.readouterr().out
    pictured = page.with_suffix(".png").read_bytes()
    assert pictured == (tmp_path / "all" / "verdicts.png").read_bytes()
    assert len(page.with_suffix(".json").read_text().splitlines()) == 2 + 3

    monkeypatch.setitem(objectives.catalog.CATALOG, "mine", objectives.catalog.CATALOG["grpo"])
    new = made_up_verdict("other", winner=2)
    publish(tmp_path / "one", page, verdict=new, monkeypatch=monkeypatch, only=("maxrl", "mine"))
    expected = {"grpo": "collapses", "dapo": "collapses", "maxrl": "other", "mine": "other"}
    assert words_of(page.read_text()) == expected
    assert page.with_suffix(".png").read_bytes() != pictured
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in table[1:3]] == [["collapses", "grpo"], ["other", "maxrl"]]
    # What is computed is recorded, and nothing else.
    rows = (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(row)["objective"] for row in rows} == {"maxrl", "mine"}

    monkeypatch.delitem(objectives.catalog.CATALOG, "mine")
    publish(tmp_path / "again", page, monkeypatch=monkeypatch, only=("maxrl",))
    assert words_of(page.read_text()) == dict.fromkeys(("grpo", "maxrl", "dapo"), "collapses")


def test_a_row_needs_a_page_of_the_same_groups(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="--only updates a page: name it by --document"):
        Settings(only=("grpo",))
    page = tmp_path / "page.md"
    with pytest.raises(ValueError, match=r"page\.json is missing: write the whole page"):
        publish(tmp_path / "out", page, monkeypatch=monkeypatch, only=("grpo",))
    publish(tmp_path / "out", page, monkeypatch=monkeypatch, group_size=4)
    with pytest.raises(ValueError, match="has groups of 4, not 8"):
        publish(tmp_path / "other", page, monkeypatch=monkeypatch, only=("grpo",))
    assert not (tmp_path / "other").exists()


def test_the_page_in_docs_names_every_objective():
    _, left_out = chosen_objectives(("all",), PRESETS["demo"].group_size)
    page, every = DOCUMENT.read_text(), {*objectives.names(), *ADDED}
    command = "python -m experiments.verdicts --document=docs/verdicts.md --only="
    missing = sorted(name for name in every - words_of(page).keys() if f"\n- `{name}`: " not in page)
    # Any row will do for those without a verdict, which are listed below the tables.
    chosen = ",".join(name for name in missing if name not in left_out) or "grpo"
    assert not missing, f"docs/verdicts.md lacks {', '.join(missing)}: run {command}{chosen}"
    more = words_of(page).keys() - (every - left_out.keys())
    assert not more, f"docs/verdicts.md has {', '.join(more)}, which the catalog has not: run {command}grpo"
    kept = verdict_page.read(DOCUMENT.with_suffix(".json"), PRESETS["demo"].group_size)
    assert {entry.objective: entry.word for entry in kept} == words_of(page)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["reinforce", "ips_dr_grpo"])
def test_the_page_in_docs_says_what_is_computed(objective):
    page = DOCUMENT.read_text()
    entry = PublishedVerdict.of(objective, Records(computed_flows(objective, PRESETS["demo"].group_size), ()))
    assert words_of(page)[objective] == entry.word
    (row,) = [line for line in page.splitlines() if line.startswith("| `") and f"`{objective}`" in line.split(" | ")[0]]
    _, *cells, evidence, several, walks, beside = row.strip("| ").split(" | ")
    for name, cell in zip(CASES, cells, strict=True):
        assert all(cases[name] in cell for cases in entry.texts.values())
    assert evidence.startswith(entry.evidence)
    assert (entry.several or "-") in several
    assert entry.walks in walks
    assert entry.beside == beside
