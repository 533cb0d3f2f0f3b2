"""A finished run whose files are damaged: reading, the report and --resume end in a sentence or in a right result."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given

from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.records import metric_log, results
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.report.page import write_report
from ipsrl.study.curves import Output
from ipsrl.study.training_runs import TrainingGrid
from ipsrl.training.settings import TrainSettings
from tests.hostile.damage import ODD_RECORDS, OTHER_JSON, copied, damages
from tests.hostile.ended import value_or_sentence
from tests.tiers import fuzzed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STEPS = 4
SETTINGS = TrainSettings(STEPS, 1, 4, learning_rate=0.1, evaluate_every=2, checkpoint_every=2)
RUN = Path("grpo/seed_0")


def share(step, parameters):
    return Evaluation({"share": float(jax.nn.softmax(parameters["logits"])[0, 0])})


def train(folder: Path) -> None:
    """Trains the run, or continues it."""
    final = {}
    grid = TrainingGrid(
        Bandit((1.0, 0.5, 0.0)),
        Tabular(1, 3),
        ("grpo",),
        (0,),
        SETTINGS,
        make_mesh("replica:-1"),
        share,
        arrays=lambda parameters: final.update(parameters) or {},
    )
    grid.train(Output(folder, resume=True), "grpo", 0)
    return np.asarray(final["logits"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with the run, its records and its parameters."""
    folder = tmp_path_factory.mktemp("runs")
    parameters = train(folder)
    return folder, metric_log.read(folder / RUN / "metrics.jsonl"), parameters


def says_complete(folder: Path) -> bool:
    try:
        return json.loads((folder / RUN / "summary.json").read_text())["complete"] is True
    except (OSError, ValueError, LookupError, TypeError):
        return False


@pytest.fixture(scope="module")
def tables(finished, tmp_path_factory):
    """A folder with the tables of the run as Parquet."""
    folder = tmp_path_factory.mktemp("tables")
    results.load(finished[0], parquet=folder).close()
    return folder


@fuzzed(20, shrinks=False)
@given(damage=damages())
def test_reading_parquet(damage, tables, tmp_path):
    folder = tmp_path / "tables"
    copied(tables, folder, damage)
    for skip_damaged in (False, True):
        connection = value_or_sentence(results.load, folder, skip_damaged=skip_damaged)
        if connection is not None:
            results.select(connection, "select kind, objective, seed, step, summary from runs")
            results.select(connection, "select path, objective, seed, step from metrics")
            connection.close()


@fuzzed(20, shrinks=False)
@given(damage=damages((*OTHER_JSON, *ODD_RECORDS)))
def test_reading_and_reporting(damage, finished, tmp_path):
    folder = tmp_path / "runs"
    copied(finished[0], folder, damage)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for skip_damaged in (False, True):
        connection = value_or_sentence(results.load, folder, skip_damaged=skip_damaged)
        if connection is not None:
            results.select(connection, "select * from runs")
            connection.close()
    report = value_or_sentence(write_report, folder, folder.parent / "report.html")
    assert report is None or "</html>" in report.read_text()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@fuzzed(12, shrinks=False)
@given(damage=damages())
def test_resuming(damage, finished, tmp_path):
    original, records, parameters = finished
    folder = tmp_path / "runs"
    copied(original, folder)
    (folder / RUN / "summary.json").unlink()
    for each in damage:
        each.happen(folder)
    if (found := value_or_sentence(train, folder)) is not None:
        np.testing.assert_array_equal(found, parameters)
        continued = metric_log.read(folder / RUN / "metrics.jsonl")
        assert [record["step"] for record in continued] == [record["step"] for record in records]
        assert says_complete(folder)
    else:
        assert not says_complete(folder)
