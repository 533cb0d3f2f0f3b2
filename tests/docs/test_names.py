"""One name is one metric: in records, SQL, tables, figures and pages."""

import ast
import re
from pathlib import Path

import pytest

from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panels
from ipsrl.measures.answers import AnswerMeasures
from ipsrl.records.sql.result_columns import metric_columns
from ipsrl.study import catalog
from ipsrl.study.pages.tables import Table

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
FUNCTIONS = [
    node
    for folder in ("ipsrl", "experiments")
    for file in sorted((ROOT / folder).rglob("*.py"))
    for node in ast.walk(ast.parse(file.read_text()))
    if isinstance(node, ast.FunctionDef)
]


def displayed(nodes):
    """The dicts that functions write out, as lists of keys that are texts and of values."""
    for node in (inner for each in nodes for inner in ast.walk(each) if isinstance(inner, ast.Dict)):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        if keys:
            yield keys, node.values


def names_of_training():
    """Metrics of a step are pairs, sum and count; what is counted once has the count 0 or 1."""
    pairs = [(keys, values) for keys, values in displayed(FUNCTIONS) if all(isinstance(v, ast.Tuple) for v in values)]
    return {name for keys, values in pairs if all(len(value.elts) == 2 for value in values) for name in keys}


def names_of_evaluations():
    evaluations = [node for node in FUNCTIONS if node.returns and "Evaluation" in ast.unparse(node.returns)]
    return {name for keys, _ in displayed(evaluations) for name in keys} | set(vars(AnswerMeasures)["__annotations__"])


TRAINING, EVALUATIONS = names_of_training(), names_of_evaluations()


def test_names_of_training_and_of_evaluations_are_different():
    assert {"reward", "length", "group_effective_outcomes", "prompt_survival"} <= TRAINING
    assert {"effective_outcomes", "validity", "total_variation"} <= EVALUATIONS
    assert set() == TRAINING & EVALUATIONS
    # So that a column of SQL is the same metric, whichever others there are.
    found = metric_columns([*TRAINING, *(f"evaluation/{name}" for name in EVALUATIONS)])
    assert {found[f"evaluation/{name}"] for name in EVALUATIONS} == EVALUATIONS


def documented():
    """The names in the table of metrics: of training, and of evaluations."""
    section = (ROOT / "docs" / "training.md").read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([\w/]+)`", first) for first in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)]
    evaluated = [row for row in rows if row[0].startswith("evaluation/")]
    return [name for row in rows if row not in evaluated for name in row], [
        name.removeprefix("evaluation/") for row in evaluated for name in row
    ]


TRAINING_ROWS, EVALUATION_ROWS = documented()


def test_the_table_of_metrics_names_each_once():
    assert len(TRAINING_ROWS) > 20
    assert sorted({*TRAINING_ROWS, *EVALUATION_ROWS}) == sorted([*TRAINING_ROWS, *EVALUATION_ROWS])
    assert set(EVALUATION_ROWS) <= EVALUATIONS


def headings():
    """(study, metric, heading) of all tables and panels."""
    for name, found in catalog.every().items():
        if isinstance(found.table, Table) and isinstance(found.table.columns, dict):
            yield from ((name, value, heading) for value, heading in found.table.columns.items())
        figures = [figure for figure in vars(found.module).values() if isinstance(figure, Panels)]
        for panel in (panel for figure in figures for panel in figure.panels):
            for layer in panel.measured:
                yield name, layer.value, panel.xlabel if isinstance(layer, Bars) else panel.ylabel


def metric_called(heading):
    """The metric whose name a heading is, if it is one."""
    name = heading.rpartition(": ")[2].replace(" ", "_").replace("@", "_at_")
    return name if re.fullmatch(r"(pass|covered)_at_\d+", name) or name in {*TRAINING_ROWS, *EVALUATION_ROWS} else None


def test_a_heading_that_is_the_name_of_a_metric_is_above_that_metric():
    shown = list(headings())
    assert len(shown) > 100
    wrong = [
        f"{study}: {heading!r} is the name of another metric than {value}"
        for study, value, heading in shown
        if metric_called(heading) not in (None, value.removeprefix("held_out_"))
    ]
    assert not wrong, "; ".join(wrong)
    assert sum(metric_called(heading) is not None for *_, heading in shown) > 5
