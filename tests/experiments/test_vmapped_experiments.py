"""`run_vmapped` of an experiment leaves the same files as its separate runs."""

import dataclasses

import pytest

from experiments import hypergrid, two_outcomes
from ipsrl.records.json_files import read_json
from ipsrl.records.metric_log import read
from ipsrl.records.run_folder import RunFolder
from ipsrl.study.curves import Output
from ipsrl.study.study import Study, run, run_vmapped

STUDY, HYPERGRID = Study.of(two_outcomes), Study.of(hypergrid)
TWO = dataclasses.replace(
    STUDY.presets["smoke"],
    objectives=("ips_reinforce(probability=exact)",),
    steps=20,
    record_every=5,
    group_size=4,
    seeds=(0, 1),
)
FIGURE = {".png", ".pdf", ".csv"}
CAPTION = ".txt"


def outputs(path, settings):
    return [Output(path / str(number), resume=False) for number in range(len(settings))]


def together(settings, places, study=STUDY):
    return run_vmapped(study, settings, ["demo"] * len(settings), places)


def files(folder):
    """The files of a run, without those that hold times or checkpoints."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if (folder / path).is_file())
    return {
        path for path in paths if path.name not in (".lock", "environment.json") and "checkpoints" not in path.parts
    }


def without_figure(paths):
    """A run of its own draws one, runs of one program do not."""
    assert {path.suffix for path in paths} >= FIGURE
    return {path for path in paths if path.suffix not in FIGURE | {CAPTION}}


@pytest.mark.slow
def test_two_outcomes_leave_the_same_bytes_together_as_alone(tmp_path):
    settings = [
        dataclasses.replace(TWO, seeds=(0,)),
        dataclasses.replace(TWO, seeds=(7,), initial_log_ratio=0.5, rewards=(3.0, 0.5)),
        dataclasses.replace(TWO, seeds=(0, 3), learning_rate=0.1),
    ]
    at_once, alone = outputs(tmp_path / "together", settings), outputs(tmp_path / "alone", settings)
    assert together(settings, at_once) == [None] * 3
    for each, one, other in zip(settings, at_once, alone, strict=True):
        run(STUDY, each, "demo", other)
        assert files(one.path) == without_figure(files(other.path))
        for file in files(one.path):
            assert (one.path / file).read_bytes() == (other.path / file).read_bytes(), file
    assert len({(output.path / "metrics.jsonl").read_bytes() for output in at_once}) == 3


@pytest.mark.slow
def test_hypergrids_leave_the_same_files_and_numbers_together_as_alone(tmp_path):
    smoke = dataclasses.replace(hypergrid.PRESETS["smoke"], objectives=("grpo", "ips_grpo(probability=exact)"))
    settings = [
        dataclasses.replace(smoke, seeds=(0,)),
        dataclasses.replace(smoke, seeds=(1, 2), learning_rate=3e-3),
        # Adam goes as far as it is told in the first step.
        dataclasses.replace(smoke, seeds=(0,), learning_rate=1e38),
    ]
    vmapped, alone = outputs(tmp_path / "vmapped", settings), outputs(tmp_path / "alone", settings)
    tracked = [dataclasses.replace(output, trackers=("tensorboard",)) for output in vmapped]
    ends = run_vmapped(HYPERGRID, settings, ["smoke"] * 3, tracked)
    assert ends[:2] == [None, None]
    assert str(ends[2]).startswith("step 1 has parameter_norm inf")
    assert not (vmapped[2].path / "summary.json").exists()
    for each, one, other in zip(settings[:2], vmapped, alone, strict=False):
        run(HYPERGRID, each, "smoke", other)
        events = {path.parents[1]: path.relative_to(one.path) for path in one.path.rglob("tensorboard/events.*")}
        assert events.keys() == {log.parent for log in one.path.rglob("metrics.jsonl")}
        assert files(one.path) - set(events.values()) == without_figure(files(other.path))
        assert not list(one.path.rglob("checkpoints"))
        for log in other.path.rglob("metrics.jsonl"):
            ours, theirs = read(one.path / log.relative_to(other.path)), read(log)
            assert [record.keys() for record in ours] == [record.keys() for record in theirs]
            for first, second in zip(ours, theirs, strict=True):
                assert first == pytest.approx(second, rel=1e-3, abs=1e-5)


def test_where_no_folder_can_be_used_nothing_is_computed(tmp_path):
    places = outputs(tmp_path, [TWO])
    with RunFolder.open(places[0].path, {"another": "run"}):
        (error,) = together([TWO], places)
    assert "belongs to a run with another config" in str(error)


def test_a_run_without_a_closed_form_fails_alone(tmp_path):
    settings = [TWO, dataclasses.replace(TWO, learning_rate=1e38)]
    places = outputs(tmp_path, settings)
    ends = together(settings, places)
    assert ends[0] is None
    assert "cannot be integrated to time" in str(ends[1])
    assert read_json(places[0].path / "summary.json")["complete"]
    assert not (places[1].path / "summary.json").exists()
