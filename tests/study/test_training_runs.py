import dataclasses
import shutil
import types

import pytest

from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.json_files import write_json
from ipsrl.records.run_folder import is_complete
from ipsrl.study import Output, Points, training_runs
from ipsrl.study.training_runs import TrainingFlags, TrainingGrid, evaluations
from ipsrl.training.settings import TrainSettings

OUTPUT = Output("here", resume=False)


@pytest.mark.parametrize(
    ("cores", "changes", "devices"),
    [
        (2, {"prompts_per_step": 40, "micro_batches": 5}, 2),
        (12, {"prompts_per_step": 40, "micro_batches": 5}, 4),
        (8, {"prompts_per_step": 24, "mini_batches": 2, "micro_batches": 4}, 1),
        (8, {"mesh": "data:2,model:4"}, None),
    ],
)
def test_a_device_for_each_core_as_far_as_they_divide_the_prompts(cores, changes, devices, monkeypatch):
    monkeypatch.setattr(training_runs, "cores", lambda: cores)
    assert TrainingFlags(**changes).host_devices == devices


def curves(train, objectives=("grpo", "ips_grpo"), start=""):
    # Nothing of the grid is asked for but its objectives and seeds.
    grid = types.SimpleNamespace(runs=[(text, seed) for text in objectives for seed in (0, 1)])
    return TrainingGrid.curves(grid, {"task": "a"}, start, train)


def test_points_are_evaluations():
    records = [
        {"step": 0, "evaluation/share": 0.5},
        {"step": 1, "reward": 0.1},
        {"step": 2, "reward": 0.2, "evaluation/share": 0.1},
    ]
    points = evaluations(records, {"probs": [1]})
    assert (points.steps, points.values, points.arrays) == ([0, 2], {"share": [0.5, 0.1]}, {"probs": [1]})


def test_a_run_is_trained_once_when_its_curve_is_asked_for():
    trained = []

    def train(output, objective, seed):
        assert output is OUTPUT
        trained.append((objective, seed))
        return Points([0, 2], {"share": [0.5, 0.1 * seed]})

    prior, *found = curves(train, start="prior")
    assert prior.labels == {"task": "a", "objective": "prior"}
    assert found[2].labels == {"task": "a", "objective": "ips_grpo", "seed": 0}
    assert not trained
    before = prior.train(OUTPUT)
    assert (list(before.steps), before.values) == ([0], {"share": [0.5]})
    assert trained == [("grpo", 0)]
    assert found[1].train(OUTPUT).values == {"share": [0.5, 0.1]}
    assert found[0].train(OUTPUT).values == {"share": [0.5, 0.0]}
    assert trained == [("grpo", 0), ("grpo", 1)]


def test_a_finished_run_without_its_checkpoints_is_not_complete_until_it_is_trained_again(tmp_path, caplog):
    def killed(step, parameters):
        raise KeyboardInterrupt

    grid = TrainingGrid(
        Bandit((1.0, 0.0)),
        Tabular(1, 2),
        ("grpo",),
        (0,),
        TrainSettings(steps=2, prompts_per_step=1, group_size=4),
        make_mesh("replica:-1"),
        lambda step, parameters: Evaluation({"share": 0.5}),
    )
    output, run = Output(tmp_path, resume=True), tmp_path / "grpo" / "seed_0"
    trained = grid.train(output, "grpo", 0)
    write_json(tmp_path / "summary.json", {"complete": True})
    assert grid.train(output, "grpo", 0) == trained
    assert is_complete(run)
    assert is_complete(tmp_path)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(KeyboardInterrupt):
        dataclasses.replace(grid, evaluate=killed).train(output, "grpo", 0)
    assert "was complete, but has no checkpoints any more" in caplog.text
    assert not is_complete(run)
    assert not is_complete(tmp_path)
    assert grid.train(output, "grpo", 0) == trained
    assert is_complete(run)
