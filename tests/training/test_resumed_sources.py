"""Whatever a source of groups or an objective carries, and whatever a reward has learned, is in the checkpoint."""

import dataclasses
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.records.evaluation import Evaluation
from ipsrl.rewards import MatchedOutcomes, NoisyVerifier
from ipsrl.rollouts.sources.best_answers import BestAnswers
from ipsrl.rollouts.sources.critics import Own, Shuffled
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.one_step_ahead import OneStepAhead
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers, SecondAttempt
from ipsrl.rollouts.sources.replay import ReplayedAnswers, ReplayedGroups
from ipsrl.rollouts.sources.replayed_modes import ReplayedModes
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.training.settings import TrainSettings
from ipsrl.training.storage import stored_tree
from tests.look_up import LookUp
from tests.training.compilations import compilations_of
from tests.training.in_the_loop import trained
from tests.training.programs_in_flight import LIMIT, most_in_flight

pytestmark = [pytest.mark.slow, pytest.mark.eight_devices]

BANDIT = Bandit(((0.0, 0.0, 1.0),) * 8 + ((1.0, 0.0, 1.0),) * 8)
ON_BANDIT = Tabular(BANDIT.num_observations, BANDIT.vocabulary_size)
TEXT, TREE = HypospaceCausal(2), Tree()
ON_TREE = Tabular(TREE.num_observations, TREE.vocabulary_size)


@dataclasses.dataclass(frozen=True)
class LookUpWithKey(LookUp):
    """The state keeps its key, and the answers are verified on the host, so that they can be sampled ahead."""

    verifies_on_host = True

    def reset(self, key, prompt_index, member):
        return super().reset(key, prompt_index, member) | {"key": key}

    def verify(self, trajectories):
        return jax.device_get(super().verify(trajectories))


def transformer(task):
    return Transformer(task.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=2)


@dataclasses.dataclass(frozen=True)
class Case:
    task: Any = BANDIT
    policy: Any = ON_BANDIT
    objective: str = "grpo"
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    stored: tuple[int, ...] = ()
    reward: Any = None


CASES = {
    "filters": Case(
        objective="grpo(kl=0.5)",
        settings={
            "wrappers": (
                DynamicSampling(4),
                OffPolicyAnswers(2, "reference"),
                DifficultyFilter(width=16, last_width=8, warm_up=2, exploration=0.3, lowest=0.3),
            ),
            "refresh_reference_every": 3,
        },
    ),
    "learned parameters": Case(TREE, ON_TREE, "trajectory_balance"),
    "controllers": Case(TREE, ON_TREE, "aer(tau=0.9, eta=0.1, alpha=(0.0, 0.5))"),
    "replay": Case(settings={"wrappers": (ReplayedGroups(), ReplayedAnswers(4))}),
    "best answers": Case(
        objective="reinvent(sigma=2.0)",
        settings={"wrappers": (BestAnswers(2, 2), DiversityFilter(3, 4))},
    ),
    "modes": Case(objective="mode_replay", settings={"wrappers": (ReplayedModes(2),)}),
    "greedy answers": Case(objective="remax", settings={"wrappers": (GreedyAnswers(),)}),
    "noisy verifier": Case(reward=NoisyVerifier(0.1, 0.3)),
    "learned reward": Case(reward=MatchedOutcomes(jnp.full((16, 3), 1 / 3), jnp.zeros((16, 3)))),
    "ahead": Case(LookUpWithKey(), transformer(LookUp()), settings={"wrappers": (OneStepAhead(),)}),
    "second attempts": Case(
        TEXT,
        transformer(TEXT),
        "critique_grpo",
        {"wrappers": (OffPolicyAnswers(2, refine=SecondAttempt(Shuffled(Own()))),)},
    ),
    "stored": Case(TEXT, transformer(TEXT), stored=(0, 1, 2, 0)),
}


def run(path, case, mesh="data:8", stop=None):
    """Trains, or continues what is there; presses control-C when step `stop` is evaluated."""
    settings = TrainSettings(6, 8, 4, learning_rate=0.03, evaluate_every=1, checkpoint_every=2, **case.settings)
    source = None
    if case.stored:
        answers = [case.task.render(hypothesis) for hypothesis in case.stored]
        rows = [{"prompt": row % case.task.num_prompts, "answers": answers} for row in range(24)]
        source = StoredGroups.of(case.task, case.policy, 8, rows)

    def evaluate(step, parameters):
        del parameters
        if step == stop:
            raise KeyboardInterrupt
        return Evaluation({})

    given = {"evaluate": evaluate, "source": source, "reward": case.reward}
    state = trained(path, case.task, case.policy, case.objective, settings, 3, mesh, resume=True, **given)
    return stored_tree.named_leaves(jax.device_get(state)), (path / "metrics.jsonl").read_bytes()


def interrupted(path, case):
    with pytest.raises(KeyboardInterrupt):
        run(path, case, stop=3)


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_ends_as_one_that_was_not(name, tmp_path):
    """It ends at the same bits, or on another mesh up to rounding; and no device falls far behind."""
    with compilations_of("update") as programs:
        whole, records = run(tmp_path / "whole", CASES[name])
    assert len(programs) <= 1
    with compilations_of("update") as programs:
        assert most_in_flight(lambda: interrupted(tmp_path / "broken", CASES[name])) < LIMIT
        shutil.copytree(tmp_path / "broken", tmp_path / "moved")
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "broken", CASES[name], stop=5)
        again, records_again = run(tmp_path / "broken", CASES[name])
    # Neither the number of rounds nor what was restored makes another program.
    assert not programs
    assert records_again == records
    assert again.keys() == whole.keys()
    for leaf in whole:
        assert plain(again[leaf]).tobytes() == plain(whole[leaf]).tobytes(), leaf

    elsewhere, _ = run(tmp_path / "moved", CASES[name], mesh="data:4,replica:2")
    for leaf in whole:
        if leaf.startswith("parameters"):
            np.testing.assert_allclose(plain(elsewhere[leaf]), plain(whole[leaf]), rtol=0, atol=1e-6, err_msg=leaf)


@pytest.mark.parametrize(
    ("name", "change"),
    [("noisy verifier", {"reward": NoisyVerifier(0.2, 0.3)}), ("stored", {"stored": (0, 1, 1, 0)})],
)
def test_a_run_is_not_continued_with_another_reward_or_other_groups(name, change, tmp_path):
    interrupted(tmp_path, CASES[name])
    with pytest.raises(ValueError, match="this run was begun with another reward, or with other stored groups: give"):
        run(tmp_path, dataclasses.replace(CASES[name], **change))


def plain(leaf):
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
