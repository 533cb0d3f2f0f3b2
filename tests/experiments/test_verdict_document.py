"""The page of verdicts: what is told of made-up ones, and that the one in docs says what is computed today."""

import dataclasses
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from experiments.arenas import group_and_rule
from experiments.verdict_document import MEANINGS, REWARDS, Judgement, document, grouped, short_table
from experiments.verdicts import PRESETS, SHOWN, VARIANTS, Settings, chosen_objectives
from ipsrl import objectives
from ipsrl.dynamics.verdict import CASES, REFERENCES, STARTS, Word, verdict

DOCUMENT = Path(__file__).parents[2] / "docs" / "verdicts.md"


def made_up(objective, word, text="0.50 : 0.50 : 0", law=(0.5, 0.5, 0.0), references=("uniform",), evidence="seen"):
    """A judgement with the same end in all cases."""
    laws = {name: np.tile(law, (len(STARTS), 1)).tolist() for name in CASES}
    texts = dict.fromkeys(CASES, text)
    return Judgement(objective, word, evidence, dict.fromkeys(references, texts), dict.fromkeys(references, laws))


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
    judgements = [
        made_up("late", "other", text="0.40 : 0.40 : 0.20"),
        made_up("first", "collapses"),
        made_up("second(alpha=0.5)", "collapses"),
        made_up("third", "collapses", evidence="seen otherwise"),
    ]
    rows = grouped(judgements)
    assert [[judged.objective for judged in row] for row in rows] == [
        ["first", "second(alpha=0.5)"],
        ["third"],
        ["late"],
    ]
    page = document(rows, {"fourth": "no prompt"}, 8, "the command", "figure.png")
    assert "\n| `first`, `second(alpha=0.5)` |" + " 0.50 : 0.50 : 0 |" * len(CASES) + " seen |\n" in page
    assert "\n- `fourth`: no prompt.\n" in page
    assert words_of(page) == {judged.objective: judged.word for judged in judgements}
    lines = short_table(rows).splitlines()
    assert len(lines) == 1 + len(rows)
    assert lines[1].startswith("collapses  first and 1 more")


def test_other_ends_are_another_row_even_where_the_words_are_the_same():
    same = made_up("first", "collapses", text="one of 2 outcomes", law=(1.0, 0.0, 0.0))
    other = dataclasses.replace(same, objective="second", laws=made_up("", "", law=(0.0, 1.0, 0.0)).laws)
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


def test_all_is_the_catalog_without_what_cannot_be_judged():
    chosen, left_out = chosen_objectives(Settings())
    assert {*chosen, *left_out} == {*objectives.names(), *VARIANTS}
    # It needs a prompt; they draw at random.
    assert set(left_out) == {"progrpo", "clip_cov", "placebo"}
    assert "progrpo(reference=correct)" in chosen
    with pytest.raises(ValueError, match=r"progrpo cannot be judged: .*prompt_log_probs"):
        chosen_objectives(Settings(objectives="progrpo"))
    with pytest.raises(ValueError, match=r"must end in \.md"):
        Settings(document="docs/verdicts.png")


def test_the_page_in_docs_names_every_objective():
    _, left_out = chosen_objectives(Settings())
    page = DOCUMENT.read_text()
    assert {*words_of(page), *left_out} == {*objectives.names(), *VARIANTS}
    assert all(f"\n- `{name}`: " in page for name in left_out)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["reinforce", "grpo(kl=0.04)", "ips_dr_grpo", "trajectory_balance"])
def test_the_page_in_docs_says_what_is_computed(objective):
    page = DOCUMENT.read_text()
    group_size, off_policy = group_and_rule(objective, PRESETS["demo"].group_size)
    judged = Judgement.of(objective, verdict(objectives.make(objective), group_size, off_policy))
    assert words_of(page)[objective] == judged.word
    (row,) = [line for line in page.splitlines() if line.startswith("| `") and f"`{objective}`" in line.split(" | ")[0]]
    _, *cells, evidence = row.strip("| ").split(" | ")
    for name, cell in zip(CASES, cells, strict=True):
        assert all(cases[name] in cell for cases in judged.texts.values())
    assert evidence.startswith(judged.evidence)
