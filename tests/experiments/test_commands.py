"""The published commands: one sweep of all studies at smoke size, and what each of them must leave."""

import contextlib
import csv
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from ipsrl.figures import style
from ipsrl.records.json_files import read_json
from ipsrl.study import catalog
from ipsrl.study.curves import Output
from ipsrl.study.pages.claim_pages import result_path
from ipsrl.study.study import HEADINGS, OPTIONAL_HEADINGS, run
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import make_run, settings_of
from tests.hangs import HANGS

pytestmark = pytest.mark.core

ROOT = catalog.root()
STUDIES = catalog.names()
WITHOUT_HEADLINE = {
    "warm_start": "makes a checkpoint, and claims nothing of the field",
    "math_answers": "was never run: it takes an accelerator and a pretrained model",
}
"""Studies that have no page of claims, and why: at most two."""
UNDRAWN = {
    "hypergrid_4": "four dimensions",
    "transfer": "orders of objectives on levels of which few run at smoke size",
}
"""Figures that a smoke run lacks, and what they would show."""
FIGURES = {name: (study.name, variant) for name, (study, variant) in catalog.drawn().items()}


def command(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=3000, **options
    )


@pytest.fixture(scope="module")
def everything(smokes):
    """The folder of a sweep of all figures at smoke size, by the published command."""
    out = smokes.path
    finished = command("scripts/reproduce_figures.py", "--preset=smoke", f"--out={out}")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert (out / "figures.md").read_text() in finished.stdout
    assert "not finished" not in finished.stdout
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_smoke_command_writes_everything_and_prints_the_same_again(name, everything, monkeypatch):
    experiment, variant = FIGURES[name]
    wanted = make_run(experiment, "smoke", **variant.flags.get("smoke", {}))
    folder, study = SweepFolder.at(everything), catalog.find(experiment)
    path = folder.run_path(wanted)
    summary = json.loads((path / "summary.json").read_text())
    assert summary["complete"]
    assert summary["claims"] == dict.fromkeys(study.claims)
    assert list(path.rglob("metrics.jsonl"))
    assert (path / f"{study.name}.png").exists() is (name not in UNDRAWN)
    if name not in UNDRAWN:
        drawn = imread(everything / "figures" / f"{name}.png")[..., :3]
        assert 0.02 < np.mean(np.any(drawn < 0.95, axis=-1)) < 0.9
        assert (everything / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        with (everything / "figures" / f"{name}.csv").open(newline="") as file:
            texts = [text for row in csv.DictReader(file) for text in row.values()]
        numbers = [float(text) for text in texts if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text or "")]
        assert len(numbers) >= 4

    printed = io.StringIO()
    # The figure was read above, and the same figure has the same bytes.
    monkeypatch.setattr(style, "save", lambda figure, path, *rest: Path(f"{path}.png"))
    with contextlib.redirect_stdout(printed):
        run(study, settings_of(wanted), "smoke", Output(path, resume=True))
    assert printed.getvalue() in folder.log_path(wanted).read_text()


def test_no_study_computes_when_it_is_imported():
    """A sweep forks processes that have imported all studies, and JAX's threads do not survive a fork."""
    code = "from ipsrl.study import catalog; catalog.every(); from jax._src import xla_bridge"
    code += "; assert not xla_bridge.backends_are_initialized()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("experiment", STUDIES)
def test_a_study_has_a_header_claims_and_presets(experiment):
    study = catalog.find(experiment)
    assert (study.headline is None) is (experiment in WITHOUT_HEADLINE)
    assert list(study.header) == [heading for heading in HEADINGS if study.headline or heading not in OPTIONAL_HEADINGS]
    if study.headline and result_path(study).exists():
        assert set(study.headline.decided_by) <= read_json(result_path(study))["claims"].keys()
    assert {"smoke", "demo"} <= study.presets.keys()
    assert study.claims
    # An interval or a tolerance belongs to its number, and what stands behind a sign, as in pass@1, is a name.
    expected = re.sub(r"\[[^\]]*\]|\+- [\d.]+", "", study.header["Expected"])
    assert len(re.findall(r"(?<![\w@=.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?!\w)", expected)) <= 5


def test_all_studies_are_listed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["experiments"])
    runpy.run_module("experiments", run_name="__main__")
    listed = capsys.readouterr().out
    for experiment in STUDIES:
        assert f"\n  python -m experiments.{experiment}" in listed


@pytest.mark.slow
def test_help_shows_the_notebook_page_and_every_flag():
    shown = command("-m", "experiments.hypospace", "--help").stdout
    required = [heading for heading in HEADINGS if heading not in OPTIONAL_HEADINGS]
    for word in (*required, "--preset", "--out", "--[no]resume", "--extensions", "--objectives", "--seeds"):
        assert word in shown


@pytest.mark.slow
@pytest.mark.usefixtures("_ctrl_c_works")
def test_ctrl_c_ends_in_one_sentence(tmp_path):
    arguments = [sys.executable, "-m", "experiments.path_multiplicity", "--preset=smoke", f"--out={tmp_path / 'out'}"]
    with subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "finished grpo\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert errors.endswith("interrupted: the same command with --resume continues\n")


@pytest.mark.parametrize(
    ("command", "during"),
    [
        (["-m", "experiments.two_outcomes"], "numpy"),
        (["-m", "experiments.two_outcomes"], "jax._src"),
        (["scripts/sweep.py", "--out=none", "--list"], "numpy"),
        (["scripts/report.py", "scripts"], "jax._src"),
        (["scripts/make_checkpoint.py", "--out=none"], "jax._src"),
    ],
    ids=str,
)
def test_ctrl_c_during_the_imports_is_one_word(command, during, tmp_path):
    # Python imports this before the command, which then stops where it imports the other: in many short naps, since a
    # signal that comes just before a system call waits for its end. Without a signal it goes on, and the test fails.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\n\n"
        "class Stops:\n    def find_spec(self, name, path, target=None):\n"
        f"        if name == {during!r}:\n            print('begun', file=sys.stderr)\n"
        "            for _ in range(30_000):\n                time.sleep(0.01)\n\n"
        "sys.meta_path.insert(0, Stops())\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=HANGS)[1] == "interrupted\n"
    assert process.returncode == 130


def test_an_extension_is_known_to_every_command(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ipsrl.objectives import make\n"
        "import experiments.two_outcomes as my_study\n\n"
        "def mine(floor: float = 0.1):\n    return make(f'ips_grpo(floor={floor})')\n\n"
        "OBJECTIVES = {'mine': mine}\nSTUDIES = {'my_study': my_study}\n"
    )
    listed = command(
        str(ROOT / "scripts" / "sweep.py"),
        "--extensions=mine",
        "--experiment=my_study",
        "--grid=seeds=0,1",
        "--list",
        f"--out={tmp_path / 'sweep'}",
        env={"PYTHONPATH": f"{tmp_path}:{Path(ROOT)}", "PATH": "/usr/bin:/bin"},
    )
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("--extensions=mine") == 2
