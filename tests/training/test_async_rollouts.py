import jax
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.rollouts import tools
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources import source
from ipsrl.rollouts.sources.one_step_ahead import OneStepAhead
from ipsrl.rollouts.verification import verify
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.sampled_groups import collect
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER
from tests.training.in_the_loop import records_of

pytestmark = [pytest.mark.slow, pytest.mark.eight_devices]

SEED, STEPS = 4, 4
SETTINGS = TrainSettings(STEPS, prompts_per_step=8, group_size=4, learning_rate=0.03, wrappers=(OneStepAhead(),))


def test_each_step_learns_from_groups_of_the_policy_before_the_last_update(monkeypatch):
    """The devices also begin to sample before the host begins to verify."""
    events = []

    def drawn(environment, policy, parameters, *others):
        trajectories = sample_groups(environment, policy, parameters, *others)
        events.append(("drawn", np.asarray(trajectories.tokens)))
        return trajectories

    def verified(environment, trajectories):
        events.append(("verified", np.asarray(trajectories.tokens)))
        return verify(environment, trajectories)

    monkeypatch.setattr(tools, "sample_groups", drawn)
    monkeypatch.setattr(source, "verify", verified)
    mesh = make_mesh("data:8")
    trainer = Trainer(FIRST_TOKEN, TRANSFORMER, objectives.make("grpo"), SETTINGS)
    policies, drifts = [], []
    with jax.set_mesh(mesh):
        state = trainer.init(SEED)
        for _ in range(STEPS):
            policies.append(jax.device_get(state.parameters))
            state, metrics = trainer.step(state)
            drifts.append(float(metrics["behaviour_kl"]))
    # It would compare two policies.
    assert "sampler_scorer_difference" not in metrics

    assert [name for name, _ in events] == ["drawn", *["drawn", "verified"] * STEPS]
    for step in range(STEPS):
        prompts = choose_prompts(FIRST_TOKEN, SEED, step, 8)
        expected, _ = collect(FIRST_TOKEN, TRANSFORMER, policies[max(0, step - 1)], prompts, SEED, step, 4, 1.0)
        np.testing.assert_array_equal([tokens for name, tokens in events if name == "verified"][step], expected.tokens)
    # The first update comes from the very policy that sampled; from then on there is an update between them.
    assert drifts[0] < 1e-8
    assert min(drifts[1:]) > 1e-7


def test_a_correction_is_an_importance_ratio_to_the_policy_of_the_step_before():
    """REINFORCE, which has none of its own."""
    objective = objectives.make("reinforce(correction=truncated(level=sequence))")
    records = records_of(Trainer(FIRST_TOKEN, TRANSFORMER, objective, SETTINGS), SEED)
    weights = [record["correction_weight"] for record in records]
    assert weights[0] == pytest.approx(1.0, abs=1e-5)
    assert np.abs(np.subtract(weights[1:], 1.0)).min() > 1e-4
