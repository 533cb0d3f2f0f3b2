"""The groups of the next step are sampled while the host verifies those of this one."""

import dataclasses

import jax
import numpy as np
import pytest
from first_token import FIRST_TOKEN, TRANSFORMER
from sampled_groups import collect

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.policies.tabular import Tabular
from ipsrl.records.metric_log import read
from ipsrl.records.run_folder import RunFolder
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources import source
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.verification import verify
from ipsrl.training.loop import check_run, train
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.eight_devices]

SEED, STEPS = 4, 4
SETTINGS = TrainSettings(
    steps=STEPS, prompts_per_step=8, group_size=4, learning_rate=0.03, checkpoint_every=2, async_rollouts=True
)
GRPO = objectives.make("grpo")


def trained(path, settings=SETTINGS, resume=False):
    with RunFolder.open(path, config={}, resume=resume) as folder:
        return train(FIRST_TOKEN, TRANSFORMER, GRPO, settings, SEED, folder, make_mesh("data:8"))


def test_each_step_learns_from_groups_of_the_policy_before_the_last_update(monkeypatch):
    """And the devices are told to sample before the host begins to verify."""
    events = []

    def drawn(environment, policy, parameters, *others):
        trajectories = sample_groups(environment, policy, parameters, *others)
        events.append(("drawn", np.asarray(trajectories.tokens)))
        return trajectories

    def verified(environment, trajectories):
        events.append(("verified", np.asarray(trajectories.tokens)))
        return verify(environment, trajectories)

    monkeypatch.setattr(source, "sample_groups", drawn)
    monkeypatch.setattr(source, "verify", verified)
    mesh = make_mesh("data:8")
    trainer = Trainer(FIRST_TOKEN, TRANSFORMER, GRPO, SETTINGS)
    policies, drifts = [], []
    with jax.set_mesh(mesh):
        state = trainer.init(SEED)
        for _ in range(STEPS):
            policies.append(jax.device_get(state.parameters))
            state, metrics = trainer.step(state)
            drifts.append(float(metrics["behaviour_kl"]))

    assert [name for name, _ in events] == ["drawn", *["drawn", "verified"] * STEPS]
    for step in range(STEPS):
        prompts = choose_prompts(FIRST_TOKEN, SEED, step, 8)
        expected, _ = collect(FIRST_TOKEN, TRANSFORMER, policies[max(0, step - 1)], prompts, SEED, step, 4, 1.0)
        np.testing.assert_array_equal([tokens for name, tokens in events if name == "verified"][step], expected.tokens)
    # The first update comes from the very policy that sampled; from then on there is an update between them.
    assert drifts[0] < 1e-8
    assert min(drifts[1:]) > 1e-7


def test_a_run_that_goes_on_learns_from_the_groups_that_had_been_drawn(tmp_path):
    whole = trained(tmp_path / "whole")
    trained(tmp_path / "cut", dataclasses.replace(SETTINGS, steps=2))
    after = trained(tmp_path / "cut", resume=True)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(after), jax.device_get(whole))
    assert read(tmp_path / "cut" / "metrics.jsonl") == read(tmp_path / "whole" / "metrics.jsonl")


@pytest.mark.parametrize(
    ("environment", "policy", "objective", "changes", "message"),
    [
        (Hypergrid(2, side=4), Tabular(16, 3), "grpo", {}, "this environment is verified on the device"),
        (FIRST_TOKEN, TRANSFORMER, "reinforce", {}, "OneStepAhead gives groups of other policies .* importance ratio"),
        (FIRST_TOKEN, TRANSFORMER, "grpo", {"dynamic_sampling": DynamicSampling()}, "OneStepAhead inside it gives"),
        (FIRST_TOKEN, TRANSFORMER, "grpo", {"difficulty_filter": DifficultyFilter()}, "OneStepAhead inside it gives"),
    ],
)
def test_what_cannot_be_sampled_ahead_is_refused(environment, policy, objective, changes, message):
    settings = dataclasses.replace(SETTINGS, **changes)
    with pytest.raises(ValueError, match=message):
        check_run(environment, policy, objectives.make(objective), settings, make_mesh("data:8"))
