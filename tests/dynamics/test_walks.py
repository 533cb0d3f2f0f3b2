"""Fields, flows and verdicts on walks of two moves, where outcomes share tokens and one of them has two paths."""

import jax
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.cases import IN_TREE, MULTIPLICITY, STARTS_OF_WALKS, WALKS, as_walks
from ipsrl.dynamics.field import Field, follow, train
from ipsrl.dynamics.softmax import flows
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.dynamics.verdict import verdict
from ipsrl.environments.graphs.tree import Tree
from tests.tiers import slow_after

REWARDS = (1.0, 0.3, 0.6)
FIELD = Field(objectives.make("reinforce"), REWARDS, group_size=3, environment=WALKS)
STARTS = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]])


@pytest.mark.slow
@pytest.mark.parametrize("tree", [WALKS, Tree()], ids=["two moves", "paths that meet"])
def test_logits_of_walks_have_their_outcomes(tree):
    logits = np.zeros((tree.num_observations, tree.vocabulary_size))
    walks = every_trajectory(tree, logits)
    outcomes = np.asarray(tree.verify(walks).outcome_id[0])
    probs = np.random.default_rng(0).dirichlet(np.ones(len(outcomes)), 5)
    field = Field(objectives.make("reinforce"), (1.0,) * tree.num_outcomes, 2, environment=tree)
    found = field.logits_of(probs, "probs")
    expected = [np.bincount(outcomes, weights=of_one, minlength=tree.num_outcomes) for of_one in probs]
    np.testing.assert_allclose(np.exp(field.log_probs(found)), expected, rtol=1e-12)
    if tree is WALKS:
        with jax.enable_x64(True):
            log_probs = jax.jit(jax.vmap(lambda table: every_trajectory(tree, table).behaviour_log_probs[0]))
            of_walks = np.exp(log_probs(found.reshape(-1, *field.table_shape)).sum(axis=-1))
        np.testing.assert_allclose(of_walks, probs, rtol=1e-12)


def test_each_outcome_of_the_cases_has_its_walks():
    outcomes = WALKS.verify(every_trajectory(WALKS, np.zeros((3, 2)))).outcome_id[0]
    assert tuple(np.bincount(outcomes)[IN_TREE]) == MULTIPLICITY
    leaders = [int(np.argmax(start)) for start in STARTS_OF_WALKS]
    assert leaders == [0, 1, 2] * 2


@pytest.mark.slow
def test_the_flow_of_expected_return_climbs_the_mean_reward():
    """The mean update is the gradient of the mean reward."""

    @jax.jit
    @jax.grad
    def gradient(table):
        return WALKS.terminal_distribution(jax.nn.log_softmax(table)) @ np.array(REWARDS)

    def slope(logits):
        with jax.enable_x64(True):
            return np.asarray(gradient(logits.reshape(3, 2))).ravel()

    logits = FIELD.logits_of(STARTS, "starts")
    np.testing.assert_allclose(FIELD(logits), [slope(row) for row in logits], rtol=1e-6)
    flow = follow(FIELD, STARTS, time=30.0)
    assert flow.finished
    for number, row in enumerate(logits):
        later = flows.integrate(slope, row, flow.times[2::40])
        np.testing.assert_allclose(flow.distributions[2::40, number], np.exp(FIELD.log_probs(later)), atol=1e-5)
    # Means over the last quarter of the steps.
    ends, _ = train(FIELD, STARTS, step_size=1e-3, steps=8)
    np.testing.assert_allclose(ends, np.exp(FIELD.log_probs(logits + 7.5e-3 * FIELD(logits))), atol=1e-6)


def test_a_flow_takes_large_steps_where_one_token_has_come_to_rest_and_another_moves_on():
    """The first move is shared evenly, its logits are 0; the wrong outcome is lost as 1 / t to the end."""
    field = Field(objectives.make("ips_reinforce(probability=exact)"), (1.0, 0.0, 1.0), 2, environment=WALKS)
    flow = follow(field, as_walks(STARTS_OF_WALKS[:1]))
    assert flow.finished
    assert 0 < flow.distributions[-1, 0, 1] < 1e-4
    assert len(flow.times) < 300


@pytest.mark.parametrize(
    ("text", "word", "full_tie", "fit"),
    slow_after(
        1,
        [
            ("trajectory_balance", "reward-proportional", "0.33 : 0.33 : 0.33", "p ~ r^(1/1.00)"),
            (
                "ips_reinforce(probability=exact(backward=none))",
                "reward-proportional",
                "0.25 : 0.25 : 0.50",
                "p ~ n r^(1/1.00)",
            ),
            ("reinforce", "collapses", "stays where it is", "the rarer of two correct outcomes is lost as t^-0."),
        ],
    ),
)
def test_words_say_whether_outcomes_or_their_walks_share(text, word, full_tie, fit):
    found = verdict(objectives.make(text), group_size=3, walks=True)
    assert found.word == word, found.evidence
    assert found.cases["full tie"].text == full_tie
    assert found.evidence.startswith(fit)
    assert all(case.ends.shape == (len(STARTS_OF_WALKS), 3) for case in found.cases.values())
