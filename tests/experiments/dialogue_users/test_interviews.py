import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.dialogue_users.interviews import EXACT_SCALE, Managers, described
from experiments.dialogue_users.interviews_in_context import learned_in_context
from ipsrl.environments.agents.interview import Interview
from ipsrl.structures import Trajectories

TASK = Interview(users=3, turns=8, bonuses="equalised")
MANAGERS = Managers(TASK, "grpo", 8, 20.0)
SEED = jnp.int32(3)


def largest(one, other):
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), one, other)))


def test_rows_of_the_table_share_what_is_always_of_a_block_and_of_what_came_last():
    policy, parameters = MANAGERS.policy, MANAGERS.prior(SEED)
    observations = jnp.arange(TASK.num_observations)[None, None]
    table = np.array(
        [parameters["always"] + parameters["block"][row // 16] + parameters["last"][row % 16] for row in range(48)]
    )
    logits, _ = policy.step(parameters, (), observations[0], jnp.int32(0))
    np.testing.assert_allclose(logits[0], table, atol=1e-6)
    tokens, mask = jnp.zeros((1, 1, 48), jnp.int32), jnp.ones((1, 1, 48), bool)
    walked = Trajectories(
        prompts=TASK.prompts(np.array([0])),
        observations=observations,
        tokens=tokens,
        token_mask=mask,
        behaviour_log_probs=tokens,
        behaviour_entropy=tokens,
        truncated=mask[..., 0],
    )
    scores = policy.score(parameters, walked, 1.0)
    np.testing.assert_allclose(scores.log_probs[0, 0], jax.nn.log_softmax(table)[:, 0], rtol=1e-5)


def test_a_gradient_is_that_of_a_step_of_the_trainer():
    alone = dataclasses.replace(MANAGERS, environment=dataclasses.replace(TASK, users=1, kinds=("resistant",)))
    prior, trainer = alone.prior(SEED), alone.trainer()
    state = trainer.begin(SEED, None, prior, None)
    after, _ = jax.jit(trainer.step)(dataclasses.replace(state, step=jnp.int32(5)))
    gradient = jax.jit(alone.gradient)(prior, SEED, jnp.int32(5), jnp.int32(0))
    assert largest(after.parameters, jax.tree.map(jnp.subtract, prior, gradient)) < 1e-6
    assert largest(gradient, jax.tree.map(jnp.zeros_like, gradient)) > 1e-3


@pytest.mark.slow
def test_first_order_maml_moves_by_gradients_after_adaptations_of_the_master():
    prior, gradient, adapted = MANAGERS.prior(SEED), jax.jit(MANAGERS.gradient), jax.jit(MANAGERS.adapted)
    moved = []
    for user in range(3):
        after = adapted(prior, SEED, jnp.int32(2 * user), jnp.int32(user))
        acts = jax.tree.map(lambda leaf: leaf[..., 4:], (prior, after))
        assert largest(*acts) == 0.0
        assert largest(prior, after) > 0.01
        moved.append(gradient(after, SEED, jnp.int32(2 * user + 1), jnp.int32(user)))
    expected = jax.tree.map(lambda one, *by: one - 5.0 * sum(by) / 3, prior, *moved)
    path = jax.jit(lambda seed: MANAGERS.meta_learned(2, 1, False, 5.0, seed))(SEED)
    assert largest(jax.tree.map(lambda leaf: leaf[0], path), prior) < 1e-6
    assert largest(jax.tree.map(lambda leaf: leaf[1], path), expected) < 1e-5
    placebo = jax.jit(lambda seed: MANAGERS.meta_learned(2, 1, True, 5.0, seed))(SEED)
    assert largest(placebo, path) > 1e-3


def test_exact_maml_climbs_the_return_after_an_adaptation():
    """Its update is the gradient by finite differences; without second derivatives it is another one."""
    prior, users, best = MANAGERS.prior(SEED), jnp.arange(3), jnp.asarray(MANAGERS.best_returns)
    master = jnp.arange(20) < 4

    @jax.jit
    def after(parameters):
        def of_user(user):
            def share(parameters):
                return EXACT_SCALE * MANAGERS.course(parameters, user)[1] / best[user]

            by = jax.tree.map(lambda leaf: jnp.where(master, leaf, 0.0), jax.grad(share)(parameters))
            return share(jax.tree.map(lambda one, by: one + MANAGERS.inner * by, parameters, by))

        return jax.vmap(of_user)(users).mean()

    keys = iter(jax.random.split(jax.random.key(0), 3))
    direction = jax.tree.map(lambda leaf: jax.random.normal(next(keys), leaf.shape), prior)
    ends = [after(jax.tree.map(lambda one, by, s=side: one + s * by, prior, direction)) for side in (0.02, -0.02)]
    slope = float(ends[0] - ends[1]) / 0.04
    step = jax.jit(lambda inner, second: MANAGERS.exactly_learned(1, 1, 1.0, SEED, inner, second))

    def along(inner, second):
        path = step(jnp.float32(inner), jnp.float32(second))
        return sum(jax.tree.leaves(jax.tree.map(lambda leaf, by: ((leaf[1] - leaf[0]) * by).sum(), path, direction)))

    whole, first_order, none = along(1, 1), along(1, 0), along(0, 0)
    np.testing.assert_allclose(whole, slope, rtol=0.02)
    assert abs(first_order - slope) > 0.05 * abs(slope)
    assert abs(none - slope) > 0.05 * abs(slope)


def test_measures_by_hand():
    same = jnp.tile(jnp.float32([0.5, 0.5, 0, 0]), (2, 3, 1))
    found = described(same, jnp.float32([10, 30]), np.float32([20, 40]))
    np.testing.assert_allclose(found["reward"], 0.625)
    np.testing.assert_allclose([found["commonest"], found["information"]], [0.5, 0.0], atol=1e-6)
    np.testing.assert_allclose(found["entropies"], np.full((2, 3), np.log(2)), rtol=1e-6)
    apart = jnp.eye(4)[jnp.array([[0, 0, 1], [2, 0, 1]])]
    found = described(apart, jnp.float32([10, 30]), np.float32([20, 40]))
    np.testing.assert_allclose([found["entropy"], found["information"]], [0.0, np.log(2) / 3], atol=1e-6)
    np.testing.assert_allclose(found["commonest"], 0.5)


@pytest.mark.slow
def test_a_transformer_is_measured_by_its_dialogues():
    found = learned_in_context(MANAGERS, (0, 1), 1, samples=64)
    assert {name: values.shape for name, values in found.items()} == {
        "reward": (2, 1),
        "commonest": (2, 1),
        "entropy": (2, 1),
        "information": (2, 1),
        "entropies": (2, 1, 3, 2),
    }
    assert (found["entropy"] > 0.5).all()
    assert (found["information"] < 0.1).all()
