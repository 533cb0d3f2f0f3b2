import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import ipsrl
from ipsrl.records import run_folder
from ipsrl.records.run_folder import RunFolder, RunFolderError
from tests.hangs import wait_until

CONFIG = {"objective": "ips_grpo(floor=0.2)", "seed": 3, "environment": {"name": "hypergrid", "sides": (8, 8)}}


def contents(path):
    return {file: file.read_bytes() for file in path.rglob("[!.]*") if file.is_file()}


def test_a_new_folder_describes_the_run(tmp_path):
    folder = RunFolder.open(tmp_path / "a" / "b", CONFIG)
    folder.close()
    assert json.loads((folder.path / "config.json").read_text()) == json.loads(json.dumps(CONFIG))
    (start,) = json.loads((folder.path / "environment.json").read_text())
    assert start["backend"] == "cpu"
    assert len(start["devices"]) == jax.device_count()
    assert {"python", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "ipsrl", "git_commit"} <= start.keys()
    assert start["command"] == shlex.join(sys.orig_argv)


def test_uncommitted_changes_lie_beside_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "_uncommitted", lambda: "+ a line\n")
    RunFolder.open(tmp_path, CONFIG).close()
    assert (tmp_path / "uncommitted.diff").read_text() == "+ a line\n"
    monkeypatch.setattr(run_folder, "_uncommitted", lambda: "")
    RunFolder.open(tmp_path, CONFIG).close()
    assert not (tmp_path / "uncommitted.diff").exists()


def test_uncommitted_changes_are_those_that_git_sees(tmp_path, monkeypatch):
    root = tmp_path / "checkout"
    (root / "ipsrl").mkdir(parents=True)
    code = root / "ipsrl" / "__init__.py"
    code.write_text("a = 1\n")
    monkeypatch.setattr(ipsrl, "__file__", str(code))
    uncommitted = run_folder._uncommitted.__wrapped__
    assert uncommitted() == ""
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    assert uncommitted() == ""
    code.write_text("a = 2\n")
    (root / "my_study.py").write_text("b = 3\n")
    assert "-a = 1\n+a = 2\n" in uncommitted()
    assert "+++ b/my_study.py\n" in uncommitted()
    monkeypatch.setattr(run_folder, "LONGEST_DIFF", 10)
    assert uncommitted() == ""


def test_a_git_that_hangs_is_asked_once_and_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "git").write_text("#!/bin/sh\necho asked >> $0.log\nexec sleep 3600\n")
    (tmp_path / "git").chmod(0o755)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(ipsrl, "__file__", str(tmp_path / "ipsrl" / "__init__.py"))
    monkeypatch.setattr(run_folder, "GIT_SECONDS", 1.0)
    monkeypatch.setattr(run_folder, "HANGING_GIT", [])
    assert run_folder._git_commit() is None
    assert run_folder._uncommitted.__wrapped__() == ""
    assert (tmp_path / "git.log").read_text() == "asked\n"
    assert capsys.readouterr().err == "git describe does not end: the records will not say which code has run\n"


def test_variables_that_change_how_jax_computes_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_THREEFRY_PARTITIONABLE", "0")
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setattr(run_folder, "_this_process", run_folder._this_process.__wrapped__)
    RunFolder.open(tmp_path, CONFIG).close()
    (start,) = json.loads((tmp_path / "environment.json").read_text())
    assert start["variables"]["JAX_THREEFRY_PARTITIONABLE"] == "0"
    assert "MY_TOKEN" not in start["variables"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_without_metrics_is_started_again(tmp_path, resume):
    RunFolder.open(tmp_path, CONFIG).close()
    RunFolder.open(tmp_path, CONFIG, resume=resume).close()
    assert len(json.loads((tmp_path / "environment.json").read_text())) == 2


@pytest.mark.parametrize("left", ["metrics.jsonl", "checkpoints/10"])
def test_a_run_that_has_begun_is_only_continued_on_request(tmp_path, left):
    RunFolder.open(tmp_path, CONFIG).close()
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_text("{}\n")
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match="already holds this run; pass --resume to continue it or choose another"):
        RunFolder.open(tmp_path, CONFIG)
    assert contents(tmp_path) == before
    RunFolder.open(tmp_path, CONFIG, resume=True).close()
    assert len(json.loads((tmp_path / "environment.json").read_text())) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "seed is 3 there and 4 here;"),
        ({"seed": 3.0}, "seed is 3 there and 3.0 here;"),
        ({"environment": {"name": "hypergrid", "sides": (8, 9)}}, r"environment.sides is \[8, 8\] there and \[8, 9\]"),
        ({"temperature": 1.0}, "temperature is absent there and 1.0 here;"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, "c is absent there and 3 here and 1 more;"),
    ],
)
def test_another_run_keeps_its_folder(tmp_path, change, message):
    RunFolder.open(tmp_path, CONFIG).close()
    before = contents(tmp_path)
    for resume in (False, True):
        with pytest.raises(RunFolderError, match=message):
            RunFolder.open(tmp_path, CONFIG | change, resume=resume)
    assert contents(tmp_path) == before


def test_what_is_not_the_folder_of_a_run_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunFolderError, match=r"holds 'thesis.tex' but no config.json"):
        RunFolder.open(tmp_path, CONFIG)
    with pytest.raises(RunFolderError, match="is a file; it must be a folder"):
        RunFolder.open(tmp_path / "thesis.tex", CONFIG)
    with pytest.raises(RunFolderError, match=r"thesis.tex is a file, so .*thesis.tex/a/b cannot be in it; it must be"):
        RunFolder.open(tmp_path / "thesis.tex" / "a" / "b", CONFIG)
    with pytest.raises(RunFolderError, match=r"--out '.*\\udcff' is not in UTF-8; choose another$"):
        RunFolder.open(tmp_path / "\udcff", CONFIG)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", '{"seed": ', "is not valid JSON .* cannot be identified"),
        ("environment.json", '{"time": 1}', "holds .*list of starts; move it"),
        ("environment.json", "[", "is not valid JSON .*; move it"),
    ],
)
def test_what_is_damaged_is_refused_and_not_replaced(tmp_path, name, content, message):
    RunFolder.open(tmp_path, CONFIG).close()
    (tmp_path / name).write_text(content)
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match=f"{name} {message}"):
        RunFolder.open(tmp_path, CONFIG, resume=True)
    assert contents(tmp_path) == before


PLACED = {
    "a folder": Path.mkdir,
    "a file": Path.touch,
    "a pipe": os.mkfifo,
    "a link": lambda path: path.symlink_to(path.parents[1] / "elsewhere"),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "a link") for name in (".lock", "metrics.jsonl", "labels.json", "uncommitted.diff", "arrays")),
        *((name, "a pipe") for name in (".lock", "environment.json", "metrics.jsonl")),
        ("summary.json", "a folder"),
        ("checkpoints", "a file"),
    ],
)
@pytest.mark.parametrize("elsewhere", ["is there", "is not there"])
def test_what_stands_in_the_place_of_files_and_folders_is_refused(tmp_path, name, kind, elsewhere):
    RunFolder.open(tmp_path / "run", CONFIG).close()
    if elsewhere == "is there":
        (tmp_path / "elsewhere").touch()
    (tmp_path / "run" / name).unlink(missing_ok=True)
    PLACED[kind](tmp_path / "run" / name)
    with pytest.raises(RunFolderError, match=rf"{name} is {kind}, but must be a (file|folder); move it away or choose"):
        RunFolder.open(tmp_path / "run", CONFIG, resume=True)
    assert (tmp_path / "elsewhere").exists() == (elsewhere == "is there")


def test_unfinished_files_are_removed_and_hidden_folders_are_kept(tmp_path):
    RunFolder.open(tmp_path, CONFIG).close()
    unfinished = [tmp_path / ".summary.json.7.tmp", tmp_path / "arrays" / ".outcomes.npz.7.tmp"]
    kept = [tmp_path / ".x.tmp", tmp_path / "arrays" / ".x.tmp"]
    for folder in kept:
        folder.mkdir(parents=True)
    for file in unfinished:
        file.touch()
    RunFolder.open(tmp_path, CONFIG, resume=True).close()
    assert not any(map(Path.exists, unfinished))
    assert all(map(Path.is_dir, kept))


def test_the_run_of_a_study_lies_in_its_folder(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "study" / "grpo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match=r"grpo is behind a link out of"):
        RunFolder.open(tmp_path / "study" / "grpo", CONFIG, study=tmp_path / "study")
    assert not list((tmp_path / "elsewhere").iterdir())
    # The folder of all may be a link: a larger disk.
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    RunFolder.open(tmp_path / "link" / "grpo", CONFIG, study=tmp_path / "link").close()


@pytest.mark.parametrize("value", [np.array([0.5, np.nan]), {"a": (1, -np.inf)}])
def test_a_config_that_is_not_finite_is_refused(tmp_path, value):
    with pytest.raises(ValueError, match=r"(nan|inf) is not a number that JSON can hold: give a finite one, or None"):
        RunFolder.open(tmp_path / "run", {"alpha": value})
    assert not (tmp_path / "run").exists()


def test_the_summary_says_that_the_run_is_complete(tmp_path):
    with RunFolder.open(tmp_path, CONFIG) as folder:
        folder.write_summary({"recovery": np.float32(0.5), "interval": np.array([0.25, np.nan])})
    written = {"complete": True, "recovery": 0.5, "interval": [0.25, None]}
    assert json.loads((folder.path / "summary.json").read_text()) == written


def test_one_process_at_a_time_and_none_after_it_was_killed(tmp_path):
    program = (
        "import sys; from ipsrl.records.run_folder import *; f = RunFolder.open(sys.argv[1], {}); print(1); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "1\n"
        for resume in (False, True):
            with pytest.raises(RunFolderError, match="another process is writing to"):
                RunFolder.open(tmp_path, {}, resume=resume)
    finally:
        child.kill()
        child.communicate()

    def is_free():
        try:
            RunFolder.open(tmp_path, {}).close()
        except RunFolderError:
            return False
        return True

    wait_until(is_free)
