import dataclasses
import json
import os
import subprocess
import sys
import threading

import pytest

from ipsrl.records.json_files import write_json
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun

RUN = SweepRun("two_outcomes", "smoke", {"seeds": "0:2"}, "two_outcomes-smoke-seeds=0-2-12345678")
OTHER = SweepRun("two_outcomes", "smoke", {}, "two_outcomes-smoke-87654321")
NEVER = threading.Event()


@pytest.fixture
def folder(tmp_path):
    folder = SweepFolder.at(tmp_path / "sweep")
    with folder.hold([OTHER]):
        yield folder


def test_the_states_of_a_run(folder):
    assert folder.state(RUN) == "waiting"
    with folder.claim(RUN, NEVER) as log:
        print("begun", file=log)
        assert folder.state(RUN) == "running"
    assert folder.state(RUN) == "broken"
    folder.record_failure(RUN, ["python"], 1, "error: no\n")
    assert folder.state(RUN) == "failed"
    with folder.claim(RUN, NEVER):
        assert folder.state(RUN) == "running"
    folder.run_path(RUN).mkdir(parents=True)
    write_json(folder.run_path(RUN) / "summary.json", {"complete": True})
    assert folder.state(RUN) == "finished"


@pytest.mark.parametrize("name", ["logs", "runs", ".lock", f"logs/{RUN.identity}.log", f"runs/{RUN.identity}"])
def test_a_sweep_writes_through_no_link(tmp_path, name):
    sweep = SweepFolder.at(tmp_path / "sweep")
    with sweep.hold([OTHER]):
        pass
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if name in ("logs", "runs"):
        (sweep.path / name).rmdir()
    (sweep.path / name).unlink(missing_ok=True)
    (sweep.path / name).symlink_to(elsewhere)
    with pytest.raises(ValueError, match=r"is a link, but must be a (file|folder)"), sweep.hold([RUN]):
        pass
    assert not list(elsewhere.iterdir())


def test_a_log_that_is_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder.log_path(RUN))
    with pytest.raises(ValueError, match="log is a pipe, but must be a file"):
        folder.state(RUN)


def listed(**changed):
    return json.dumps([{**dataclasses.asdict(RUN), **changed}])


@pytest.mark.parametrize(
    "content",
    [
        "[3]",
        "3",
        '[{"experiment"',
        *(listed(identity=name) for name in ("../../elsewhere", "a\0b", 3)),
        listed(flags=3),
    ],
)
def test_a_list_of_runs_that_is_damaged_is_not_replaced(tmp_path, content):
    path = tmp_path / "sweep.json"
    path.write_text(content)
    message = r"sweep.json is not (valid JSON|a list of runs) \("
    with pytest.raises(ValueError, match=message), SweepFolder.at(tmp_path).hold([RUN]):
        pass
    assert path.read_text() == content
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("content", ["3", "{}", "[]"])
def test_a_damaged_record_of_a_failure_is_named(folder, content):
    folder.failure_path(RUN).write_text(content)
    with pytest.raises(ValueError, match="is not the record of a failure: delete it, and try the run again by --retry"):
        folder.failure(RUN)


@pytest.mark.parametrize("summary", ['{"complete": tr', '{"complete": false}', "[]", "{}"])
def test_a_summary_that_does_not_say_so_finishes_nothing(folder, summary):
    folder.run_path(RUN).mkdir(parents=True)
    (folder.run_path(RUN) / "summary.json").write_text(summary)
    assert folder.state(RUN) == "waiting"


def test_a_run_is_held_as_long_as_a_process_writes_to_its_log(folder):
    program = "print(1, flush=True); input()"
    with folder.claim(RUN, NEVER) as log:
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=log, stderr=log)
    ending = threading.Event()
    assert folder.state(RUN) == "running"
    threading.Timer(0.3, ending.set).start()
    with folder.claim(RUN, ending) as log:
        assert log is None
    child.communicate(b"\n")
    assert folder.state(RUN) == "broken"


def test_runs_are_remembered_in_the_order_they_were_asked_for(tmp_path):
    folder = SweepFolder.at(tmp_path / "sweep")
    assert folder.runs() == []
    for runs in ([OTHER], [RUN, OTHER]):
        with folder.hold(runs):
            pass
    assert SweepFolder.at(tmp_path / "sweep").runs() == [OTHER, RUN]


def test_what_a_killed_sweep_had_begun_to_write_is_removed(tmp_path):
    unfinished = [tmp_path / ".sweep.json.7.tmp", tmp_path / "failures" / ".run.json.7.tmp"]
    with SweepFolder.at(tmp_path).hold([RUN]):
        for path in unfinished:
            path.touch()
    with SweepFolder.at(tmp_path).hold([RUN]):
        assert not any(path.exists() for path in unfinished)


def test_a_failure_keeps_the_last_lines(folder):
    assert folder.failure(RUN) is None
    folder.record_failure(RUN, ["python", "-m", "x"], -9, "\n".join(map(str, range(50))))
    failure = json.loads(folder.failure_path(RUN).read_text())
    assert failure == folder.failure(RUN)
    assert failure["command"] == ["python", "-m", "x"]
    assert failure["exit_status"] == -9
    assert failure["last_lines"] == [str(number) for number in range(30, 50)]


def test_what_is_not_the_folder_of_a_sweep_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match=r"holds 'thesis.tex' but no sweep.json"):
        SweepFolder.at(tmp_path)
    with pytest.raises(ValueError, match="is a file; it must be a folder"):
        SweepFolder.at(tmp_path / "thesis.tex")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
