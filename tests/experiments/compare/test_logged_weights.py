import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.compare.logged_weights import logit_steps, sides, table, weights_of_log
from ipsrl.environments.group_log import GroupLog

# Three times a, once b, twice wrong; then a group in which all are right in the same way.
LOG = GroupLog(
    ("p", "q"),
    np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.float32),
    np.array([[5, 5, 5, 8, 2, -1], [7, 7, 7, 7, 7, 7]], np.int32),
)


def test_the_common_and_the_rare_outcome_are_those_of_the_right_answers():
    right, common, rare = sides(LOG.rewards, LOG.outcome_id)
    np.testing.assert_array_equal(right[0], [1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(common[0], [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(rare[0], [0, 0, 0, 1, 0, 0])


def test_grpo_pays_both_alike_so_the_common_outcome_gains():
    found = weights_of_log("grpo", LOG)
    # Four of six are right: 1/3 and -2/3, times 3 for a root mean square of 1 over both groups.
    unit = np.sqrt(2 * 6 / (4 / 9 + 8 / 9) / 9)
    assert found.weighed == 0.5
    assert found.wrong == pytest.approx(-2 * unit)
    assert [found.common, found.rare] == pytest.approx([unit, unit])
    assert found.right == pytest.approx(4 * unit / 10)
    # (n_b - n_a) A / G
    assert found.drift == pytest.approx((1 - 3) * unit / 6)


def test_nothing_is_contested_where_right_answers_are_alike():
    alike = GroupLog(("p",), LOG.rewards[1:], LOG.outcome_id[1:])
    found = weights_of_log("grpo", alike)
    assert (found.weighed, found.right) == (0, 0)
    assert np.isnan([found.wrong, found.common, found.rare, found.drift]).all()


def test_the_steps_of_logits_are_those_of_the_surrogate():
    """The reference is the derivative of the surrogate of a softmax policy at the shares of the group."""
    advantages = np.array([[0.3, 0.1, 0.2, 0.9, -0.4, 0.5]])
    ids = np.array([0, 0, 0, 1, 2, 3])
    step = jax.grad(lambda logits: (jax.nn.log_softmax(logits)[ids] * advantages[0]).mean())(
        jnp.log(jnp.bincount(ids) / 6)
    )
    np.testing.assert_allclose(logit_steps(advantages, LOG.outcome_id[:1])[0], step[ids], rtol=1e-6)


def test_the_table_names_verdicts_and_reasons():
    lines = table(LOG, ["grpo", "dapo", "degrpo"], {"grpo": "collapses"}).splitlines()
    assert lines[0] == (
        "the log: 2 groups of 6 answers to 2 prompts; mean reward 0.83, effective rewarded outcomes of a group 1.38, "
        "share of groups with equal rewards 0.50"
    )
    assert lines[1].split() == ["weighed", "wrong", "right", "common", "rare", "drift", "verdict"]
    assert lines[2].split()[0] == "grpo"
    assert lines[2].endswith("collapses")
    assert lines[3] == "left out: dapo: its weights read token_mask"
    assert lines[4].startswith("left out: degrpo: the objective needs reference_log_probs")
