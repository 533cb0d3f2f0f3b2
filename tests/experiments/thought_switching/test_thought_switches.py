import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.thought_switching.early_switches import EarlySwitches
from experiments.thought_switching.thought_switches import NEAREST, PLACEBO, PRIOR, SWITCH, Searchers
from ipsrl.environments.tasks.graph_search import START_TOKEN, SWITCH_TOKEN, GraphSearch
from ipsrl.policies.transformer import Transformer
from ipsrl.training.settings import TrainSettings

TASK = GraphSearch(edge_probability=0.3, dead_first=0.1, problems=8)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=16, num_layers=1)


@dataclasses.dataclass(frozen=True)
class RightOn(GraphSearch):
    """All answers to the prompts with this remainder are right, and no others."""

    edge_probability: float = TASK.edge_probability
    problems: int = TASK.problems
    remainder: int = 0

    def verify(self, trajectories):
        right = trajectories.prompts.index[:, None] % 2 == self.remainder
        outcomes = super().verify(trajectories)
        return dataclasses.replace(outcomes, rewards=jnp.broadcast_to(right, outcomes.rewards.shape).astype(float))


@functools.cache
def searchers(early: float = 0.5) -> Searchers:
    training = TrainSettings(steps=1, prompts_per_step=4, group_size=4)
    return Searchers(TASK, POLICY, EarlySwitches(early), 4, training=training, answers=16)


@functools.cache
def prior():
    return searchers()(0)


def switches(demonstrations):
    answers = [answer for row in demonstrations for answer in row["answers"]]
    return np.mean([answer.count(SWITCH_TOKEN) for answer in answers])


def test_demonstrations_leave_right_paths_as_often_as_they_are_told():
    rows = searchers().rows
    assert len(rows) == 4 * TASK.num_prompts
    assert switches(rows) > switches(searchers(0.0).rows) + 0.2
    # Each table has demonstrations of its own.
    assert rows[0]["answers"] != rows[TASK.num_prompts]["answers"]


def test_training_starts_at_the_prior_and_leaves_it():
    assert jax.tree.all(jax.tree.map(np.array_equal, searchers().trained(PRIOR, 0), prior()))
    # The bonus learns where no answer of so weak a prior is right.
    assert not jax.tree.all(jax.tree.map(np.array_equal, searchers().trained("grpo(entropy=0.1)", 0), prior()))


def test_the_placebo_is_on_a_vertex_named_about_as_often_as_searches_switch():
    tokens = [token for row in searchers().rows for answer in row["answers"] for token in answer]
    counts = np.bincount(tokens, minlength=TASK.vocabulary_size)
    vertices = range(START_TOKEN, START_TOKEN + TASK.goal)
    nearest = sorted(vertices, key=lambda vertex: abs(counts[vertex] - counts[SWITCH_TOKEN]))[:NEAREST]
    assert [searchers().placebo_token(seed) for seed in range(2 * NEAREST)] == 2 * nearest
    assert START_TOKEN + TASK.goal not in nearest


def test_even_prompts_choose_and_odd_ones_report():
    def measured(remainder):
        return dataclasses.replace(searchers(), task=RightOn(remainder=remainder)).measured(
            prior(), 0, SWITCH_TOKEN, 0, 0
        )

    even, odd = measured(0), measured(1)
    assert (even["tuning"], even["accuracy"]) == (1.0, 0.0)
    assert (odd["tuning"], odd["accuracy"]) == (0.0, 1.0)


def test_a_strong_penalty_on_the_switch_leaves_no_switch():
    plain = searchers().measured(prior(), 0, SWITCH_TOKEN, 0.0, 0.0)
    weak = searchers().measured(prior(), 0, SWITCH_TOKEN, 50.0, 0.0)
    strong = searchers().measured(prior(), 0, SWITCH_TOKEN, 50.0, 100.0)
    assert plain == weak
    assert plain["switches"] > 0 == strong["switches"]


def test_a_curve_has_a_row_for_each_penalty_and_seed():
    curve = searchers().curve(PRIOR, (0, 1), (3.0,), (2.0, 100.0), "early")
    rows = list(curve.compute().records(curve.labels))
    cells = {(row["seed"], row["penalised"], row["alpha"], row["beta"]) for row in rows}
    assert cells == {(s, p, a, b) for s in (0, 1) for p in (SWITCH, PLACEBO) for a in (0.0, 3.0) for b in (2.0, 100.0)}
    # Without strength it is one evaluation.
    for seed in (0, 1):
        plain = [row["accuracy"] for row in rows if row["seed"] == seed and row["alpha"] == 0.0]
        assert plain == pytest.approx([plain[0]] * 4)
