import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import reliability
from ipsrl.training.storage import stored_tree
from ipsrl.training.storage.checkpoints import Checkpoints
from trials import cases, comparison, kills, long_run, processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a run that the comparison looks at."""
    path = tmp_path_factory.mktemp("run") / "run"
    save(path, np.arange(4.0, dtype=np.float32))
    (path / "metrics.jsonl").write_text('{"step": 1}\n')
    (path / "environment.json").write_text("[1]")
    return path


def save(path, weights):
    with Checkpoints(path / "checkpoints", every=1) as checkpoints:
        checkpoints.save(1, {"weights": weights, "step": np.ones(1, np.int32)})


def another_leaf(path):
    shutil.rmtree(path / "checkpoints")
    save(path, np.array([0.0, 1.0, 2.0, np.nextafter(np.float32(3.0), np.float32(4.0))], np.float32))


def damaged(path):
    data = max((path / "checkpoints" / "1" / "state").rglob("*"), key=lambda file: file.stat().st_size * file.is_file())
    data.write_bytes(data.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("disturb", "found"),
    [
        (lambda path: (path / "environment.json").write_text("[1, 2]"), []),
        (lambda path: (path / "metrics.jsonl").write_text('{"step": 2}\n'), ["metrics.jsonl differs"]),
        (lambda path: (path / "metrics.jsonl").unlink(), ["metrics.jsonl is missing"]),
        (lambda path: (path / ".summary.json.7.tmp").touch(), [".summary.json.7.tmp is new"]),
        (lambda path: (path / "checkpoints" / "1").rename(path / "checkpoints" / "2"), ["1 is missing", "2 is new"]),
        (another_leaf, ["checkpoints/1: weights differs"]),
        (damaged, ["checkpoints/1: "]),
    ],
    ids=["another start", "another record", "no records", "a file too much", "another step", "one bit", "damaged"],
)
def test_what_differs_is_found(folder, tmp_path, disturb, found):
    path = shutil.copytree(folder, tmp_path / "copy")
    assert comparison.differences(path, folder) == []
    disturb(path)
    differences = comparison.differences(path, folder)
    assert len(differences) == len(found)
    assert all(phrase in difference for phrase, difference in zip(found, differences, strict=True))


def test_an_equal_checkpoint_may_have_other_files(folder, tmp_path):
    path = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(path / "checkpoints")
    save(path, np.arange(4.0, dtype=np.float32))
    names = [{file.name for file in (where / "checkpoints").rglob("*")} for where in (path, folder)]
    assert names[0] != names[1]
    assert comparison.differences(path, folder) == []
    assert stored_tree.damage(path / "checkpoints" / "1") is None


def row(**values):
    when = {"seed": 0, "date": "2026-11-23", "seconds": 60, "number": 0, "problems": []}
    return when | {"commit": "abc", "versions": "jax 1", "command": "python x"} | values


def test_results_are_kept_and_become_tables(tmp_path):
    file, page = tmp_path / "found.json", tmp_path / "found.md"
    page.write_text(f"before\n{reliability.MARKS.begin}\nold\n{reliability.MARKS.end}\nafter\n")
    results = reliability.Results(file, row())

    def add(trial, case, number=0, problems=(), **found):
        results.add({"trial": trial, "case": case, "number": number, "problems": list(problems), **found})

    for number, problems in ((1, ["metrics.jsonl differs"]), (0, [])):
        add("kills", "single", number, problems, planned=10, kills=9, in_start_up=2, records=[3], runs=1)
    add("full_disk", "sweep on a full disk", room=2048, used=9216, status=1, in_words=True, tracebacks=0)
    add("long_run", "bandit", steps=20, memory=[1.0, 1.0], descriptors=[5, 5], growth=0.0)
    assert [row["number"] for row in json.loads(file.read_text())] == [0, 1, 0, 0]
    again = reliability.Results(file, row())
    assert again.has(trial="kills", case="single", number=1, planned=10)
    assert not again.has(trial="kills", case="single", number=1, planned=5)
    assert not reliability.Results(file, row(seed=1)).has(trial="kills", case="single", number=1, planned=10)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| one run (HypoSpace) | 18 | 4 | 2 | 1 |" in text
    assert "- single, run 1, seed 0: metrics.jsonl differs" in text
    assert "| 2 to 2 of 9 | 1 | 1 | 1 | 0 | 1 |" in text
    assert "| steps until | 10 | 20 |" in text


def test_the_page_has_the_marks():
    page = (processes.ROOT / "docs" / "reliability.md").read_text()
    assert page.count(reliability.MARKS.begin) == page.count(reliability.MARKS.end) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cases=one"], "unknown name 'one': choose among single"),
        (["--count=3"], "--count is a positive number, for one trial"),
        (["--only=kills", "--count=0"], "--count is a positive number, for one trial"),
    ],
)
def test_bad_arguments_are_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        reliability.main([*arguments, f"--work={tmp_path / 'work'}", f"--results={tmp_path / 'found.json'}"])
    assert not list(tmp_path.iterdir())


def test_the_command_starts_in_any_folder(tmp_path):
    command = [sys.executable, processes.ROOT / "scripts" / "reliability.py", "--only=refusals"]
    results = tmp_path / "nowhere" / "found.json"
    ended = subprocess.run([*command, f"--results={results}"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: --results={results}: there is no folder ")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_killed_run_is_continued_and_compared(tmp_path):
    def lines(out, work):
        return [processes.python("-m", long_run.__name__, out / "bandit" / "grpo" / "seed_0", 500)]

    case = cases.Case("bandit", "a bandit", lines, kills=2, kills_per_run=2)
    like = kills.undisturbed(case, tmp_path)
    found = kills.trial(case, 0, 2, 0, like, tmp_path)
    assert found["problems"] == []
    assert found["kills"] == len(found["records"]) > 0
