import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.rollouts import tools
from ipsrl.rollouts.sources import difficulty_filter, dynamic_sampling, refinements
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.training.settings import TrainSettings
from ipsrl.training.storage import stored_tree
from tests.training.in_the_loop import trained

pytestmark = pytest.mark.slow

TREE = Tree()
# Half of the prompts pay nothing.
BANDIT = Bandit(((0.0, 0.0, 0.0),) * 8 + ((1.0, 0.0, 0.5),) * 8)
SETTINGS = TrainSettings(
    steps=7, prompts_per_step=8, group_size=4, learning_rate=0.05, evaluate_every=3, checkpoint_every=2
)
FILTER = DifficultyFilter(width=16, last_width=8, warm_up=2, exploration=0.3)
ALL = {
    "wrappers": (DynamicSampling(4), OffPolicyAnswers(2, "reference"), FILTER),
    "refresh_reference_every": 3,
}


def run(path, objective="grpo(kl=0.5)", environment=BANDIT, seen=None, **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    policy = Tabular(environment.num_observations, environment.vocabulary_size)

    def evaluate(step, parameters):
        if seen is not None:
            seen[step] = np.array(parameters["logits"])
        return Evaluation({})

    return trained(path, environment, policy, objective, settings, 5, evaluate=evaluate)


def test_the_reference_moves_at_its_interval(tmp_path):
    """The divergence is 0 in the steps that begin with a new reference: the first, and those after steps 3 and 6."""
    seen = {}
    state = run(tmp_path / "moving", environment=TREE, seen=seen, refresh_reference_every=3)
    divergence = [record["reference_kl"] for record in metric_log.read(tmp_path / "moving" / "metrics.jsonl")[1:]]
    assert [abs(value) < 1e-6 for value in divergence] == [True, False, False, True, False, False, True]
    np.testing.assert_array_equal(state.reference["logits"], seen[6])
    assert np.abs(state.parameters["logits"] - seen[6]).max() > 1e-3

    fixed = run(tmp_path / "fixed", environment=TREE)
    divergence = [record["reference_kl"] for record in metric_log.read(tmp_path / "fixed" / "metrics.jsonl")[1:]]
    assert [abs(value) < 1e-6 for value in divergence] == [True] + [False] * 6
    assert np.abs(state.parameters["logits"] - fixed.parameters["logits"]).max() > 1e-4


def test_rules_that_are_off_cost_nothing(tmp_path, monkeypatch):
    """No state, no metric, no call, one round of sampling: the step sees the same arrays as if there were no rules."""
    calls = []

    def spy(module, name):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *arguments: calls.append(name) or function(*arguments))

    filters = {
        "choose_by_difficulty": difficulty_filter,
        "learn_difficulty": difficulty_filter,
        "fill": dynamic_sampling,
        "with_best_answer": refinements,
    }
    for name, module in (*filters.items(), ("sample_groups", tools)):
        spy(module, name)
    state = run(tmp_path / "off")
    assert calls == ["sample_groups"] * 7
    assert {name.partition("/")[0] for name in stored_tree.named_leaves(state)} == {
        "step",
        "seed",
        "given",
        "parameters",
        "optimizer_state",
    }
    names = set().union(*metric_log.read(tmp_path / "off" / "metrics.jsonl"))
    run(tmp_path / "on", **ALL)
    assert set(calls) == {*filters, "sample_groups"}
    more = set().union(*metric_log.read(tmp_path / "on" / "metrics.jsonl")) - names
    assert more == {
        "sampling_rounds",
        "kept_groups",
        "trajectories_sampled",
        "tokens_sampled",
        "prompts_scanned",
        "prompts_sampled",
        "prompt_survival",
        "sampled_reward",
        "zero_variance_groups",
        "difficulty_error",
        "off_policy_reward",
    }


@dataclasses.dataclass(frozen=True)
class NanInASpareGroup(Bandit):
    """All groups but the first are informative; then all, and the last, for which no slot is left, holds a NaN."""

    verifies_on_host: ClassVar[bool] = True
    verified: list = dataclasses.field(default_factory=list, compare=False)

    def verify(self, trajectories):
        outcomes = super().verify(trajectories)
        rewards = np.tile([0.0, 1.0, 0.0, 1.0], (8, 1)).astype(np.float32)
        if self.verified:
            rewards[-1, 0] = np.nan
        else:
            rewards[0] = 0.0
        self.verified.append(None)
        return dataclasses.replace(outcomes, rewards=rewards)


def test_what_is_thrown_away_must_be_finite_too(tmp_path):
    with pytest.raises(NonFiniteLossError, match=r"^step 1 has sampled_reward nan; last good checkpoint: none$"):
        run(tmp_path, "grpo", NanInASpareGroup(), wrappers=(DynamicSampling(4),))
