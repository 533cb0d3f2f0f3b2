"""Many runs of the loop as one program are the runs of the loop, one after the other."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from first_token import FIRST_TOKEN, TRANSFORMER
from jax.sharding import AxisType

from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.run_log import NonFiniteLossError, RunLog
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.training.loop import TrainSettings, train, train_vmapped
from ipsrl.training.step import Batching

# More prompts than a step takes, so that it matters which ones are chosen.
BANDIT, POLICY = Bandit(((1.0, 0.5, 0.0), (0.0, 1.0, 1.0), (0.2, 0.0, 1.0), (1.0, 0.0, 0.0))), Tabular(4, 3)
SETTINGS = TrainSettings(
    steps=5, prompts_per_step=2, group_size=8, temperature=0.8, learning_rate=0.05, batching=Batching(epochs=2),
    evaluate_every=2,
)  # fmt: skip
SEEDS, RATES = (3, 11, 3), (0.05, 0.05, 0.2)


def at(rate, **changes):
    return dataclasses.replace(SETTINGS, learning_rate=rate, **changes)


def largest(step, parameters):
    return Evaluation({"largest": float(parameters["logits"].max()), "of_step": step})


def open_folder(path, number):
    return RunFolder.open(path / str(number), {"run": number}, resume=True)


def together(path, settings, objective="grpo", seeds=SEEDS, environment=BANDIT, policy=POLICY):
    folders = [open_folder(path, number) for number in range(len(seeds))]
    try:
        return train_vmapped(environment, policy, objectives.make(objective), settings, seeds, folders, largest)
    finally:
        for folder in folders:
            folder.close()


def alone(path, number, settings, objective="grpo"):
    mesh = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
    with open_folder(path, number) as folder:
        objective = objectives.make(objective)
        return train(BANDIT, POLICY, objective, settings, SEEDS[number], folder, mesh, evaluate=largest).parameters


def records(path, number):
    return metric_log.read(path / str(number) / "metrics.jsonl")


# The first has a reference policy, the second carries a running mean.
@pytest.mark.parametrize(
    "objective", ["ips_grpo(kl=0.1)", pytest.param("ips_reinforce(probability=exact)", marks=pytest.mark.slow)]
)
def test_metrics_and_parameters_are_those_of_separate_runs(objective, tmp_path):
    settings = [at(rate) for rate in RATES]
    ends = together(tmp_path / "together", settings, objective)
    for number, each in enumerate(settings):
        parameters = alone(tmp_path / "alone", number, each, objective)
        np.testing.assert_allclose(ends[number]["logits"], parameters["logits"], atol=1e-6)
        ours, theirs = (records(tmp_path / kind, number) for kind in ("together", "alone"))
        assert [record.keys() for record in ours] == [record.keys() for record in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
    # The third has the seed of the first: only its rate makes it another run.
    assert records(tmp_path / "together", 0)[1]["reward"] == records(tmp_path / "together", 2)[1]["reward"]
    assert np.abs(ends[0]["logits"] - ends[2]["logits"]).max() > 0.01


def test_a_run_that_was_alone_before_begins_anew_and_so_it_does_alone_again(tmp_path, monkeypatch):
    settings = at(0.05, checkpoint_every=2)
    whole = alone(tmp_path / "whole", 0, settings)
    stop_at(4, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        alone(tmp_path / "both", 0, settings)
    stop_at(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        together(tmp_path / "both", [settings], seeds=SEEDS[:1])
    monkeypatch.undo()
    np.testing.assert_array_equal(alone(tmp_path / "both", 0, settings)["logits"], whole["logits"])
    assert records(tmp_path / "both", 0) == records(tmp_path / "whole", 0)


def stop_at(step, monkeypatch):
    """Ctrl-C before the record of a step is written."""
    write = RunLog.write

    def interrupted(self, number, *arguments):
        if number == step:
            raise KeyboardInterrupt
        write(self, number, *arguments)

    monkeypatch.setattr(RunLog, "write", interrupted)


def test_a_run_that_leaves_the_real_numbers_ends_alone(tmp_path):
    settings = [at(rate, optimizer="sgd") for rate in (0.05, 1e38, 0.2)]
    ends = together(tmp_path, settings)
    assert isinstance(ends[1], NonFiniteLossError)
    assert str(ends[1]) == "step 1 has parameter_norm inf; last good checkpoint: none"
    assert records(tmp_path, 1) == [{"step": 0, "evaluation/largest": 0.0, "evaluation/of_step": 0}]
    for number in (0, 2):
        assert [record["step"] for record in records(tmp_path, number)] == list(range(6))
        assert all(math.isfinite(value) for record in records(tmp_path, number) for value in record.values())
    # Where all have ended, nothing is computed any more.
    ends = together(tmp_path / "all", [at(1e38, optimizer="sgd", steps=10**9)] * 3)
    assert all(isinstance(end, NonFiniteLossError) for end in ends)


def test_what_is_there_of_a_run_is_made_again(tmp_path):
    settings = [at(rate) for rate in RATES]
    first = together(tmp_path, settings)
    before = [records(tmp_path, number) for number in range(3)]
    with open_folder(tmp_path, 0) as folder:
        folder.write_summary({})
    folder.metrics_path.write_text(folder.metrics_path.read_text()[:-7])
    again = together(tmp_path, settings)
    assert [records(tmp_path, number) for number in range(3)] == before
    assert not folder.summary_path.exists()
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one["logits"], other["logits"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": [at(0.1), at(0.1), at(0.1, group_size=4)]}, "differ in learning_rate, but group_size is 8 and 4"),
        ({"environment": FIRST_TOKEN, "policy": TRANSFORMER}, "are made on the host, by a verifier or a batch filter"),
        ({"settings": [at(0.1, dynamic_sampling=DynamicSampling())] * 3}, "are made on the host"),
        ({"settings": [at(0.1, optimizer="adagrad")] * 3}, "known: adam, sgd"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_one_program_is_refused_before_anything_is_written(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        together(tmp_path, **{"settings": [at(rate) for rate in RATES]} | arguments)
    assert not list(tmp_path.rglob("metrics.jsonl"))
