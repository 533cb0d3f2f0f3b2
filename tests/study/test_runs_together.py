"""What `run_vmapped` of a study of training runs leaves is what its separate runs leave."""

import dataclasses

import pytest

from experiments import hypergrid
from ipsrl.records.metric_log import read
from ipsrl.study import Output, Study
from ipsrl.study.study import run, run_vmapped

STUDY = Study.of(hypergrid)


def outputs(path, settings):
    return [Output(path / str(number), resume=False) for number in range(len(settings))]


def files(folder):
    """Of a run, those that hold no time and no checkpoint."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if (folder / path).is_file())
    return {
        path for path in paths if path.name not in (".lock", "environment.json") and "checkpoints" not in path.parts
    }


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
    ends = run_vmapped(STUDY, settings, ["smoke"] * 3, tracked)
    assert ends[:2] == [None, None]
    assert str(ends[2]).startswith("step 1 has parameter_norm inf")
    assert not (vmapped[2].path / "summary.json").exists()
    for each, one, other in zip(settings[:2], vmapped, alone, strict=False):
        run(STUDY, each, "smoke", other)
        events = {path.parents[1]: path.relative_to(one.path) for path in one.path.rglob("tensorboard/events.*")}
        assert events.keys() == {log.parent for log in one.path.rglob("metrics.jsonl")}
        assert files(one.path) - set(events.values()) == files(other.path)
        assert not list(one.path.rglob("checkpoints"))
        for log in other.path.rglob("metrics.jsonl"):
            ours, theirs = read(one.path / log.relative_to(other.path)), read(log)
            assert [record.keys() for record in ours] == [record.keys() for record in theirs]
            for first, second in zip(ours, theirs, strict=True):
                assert first == pytest.approx(second, rel=1e-3, abs=1e-5)
