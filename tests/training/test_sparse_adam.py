import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ipsrl import objectives
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.sparse_adam import sparse_adam
from ipsrl.training.step import WHOLE_BATCH, TrainState, compiled_update
from tests.sampled_groups import collect

SHAPES = {"log_partition": (5,), "log_flows": (2, 3)}


@functools.partial(jax.jit, static_argnums=0)
def walk(optimizer, gradients):
    """The parameters after each step, from 0, and the last state; leaves of `gradients` are `[steps, ...]`."""

    def step(carry, gradient):
        parameters, state = carry
        updates, state = optimizer.update(gradient, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return (parameters, state), parameters

    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:]), gradients)
    (_, state), path = jax.lax.scan(step, (start, optimizer.init(start)), gradients)
    return path, state


def gradients_of(steps, seed=0):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=(steps, *shape)).astype(np.float32) for name, shape in SHAPES.items()}


def test_an_element_moves_as_adam_does_in_its_own_steps():
    """One is seen in steps 2, 3, 4 and 9: it is where Adam alone would be after these four, and so are its moments."""
    seen = np.isin(np.arange(40), [2, 3, 4, 9])
    gradients = gradients_of(40)
    gradients["log_flows"][:, 1, 2] *= seen
    path, ((flows, _), _) = walk(sparse_adam(0.1), gradients)
    alone, (own, _) = walk(optax.adam(0.1), gradients["log_flows"][seen, 1, 2])
    rare = np.asarray(path["log_flows"])[:, 1, 2]
    np.testing.assert_allclose(rare[seen], alone, atol=1e-6)
    assert not rare[:2].any()
    assert (rare[4:9] == rare[4]).all()
    assert (rare[9:] == rare[9]).all()
    for moment in ("count", "mu", "nu"):
        np.testing.assert_allclose(getattr(flows, moment)[5], getattr(own, moment), rtol=1e-5)
    # What is seen in every step moves as Adam moves it.
    dense, _ = walk(optax.adam(0.1), gradients)
    np.testing.assert_allclose(path["log_partition"], dense["log_partition"], atol=1e-6)
    np.testing.assert_allclose(path["log_flows"][:, 0], dense["log_flows"][:, 0], atol=1e-6)


def test_runs_of_an_ensemble_do_not_share_steps():
    gradients = jax.tree.map(lambda *runs: np.stack(runs), *(gradients_of(6, seed) for seed in (1, 2)))
    gradients["log_partition"][1, 3:, 0] = 0.0
    together, _ = jax.vmap(lambda run: walk(sparse_adam(0.1), run))(gradients)
    for run in (0, 1):
        apart, _ = walk(sparse_adam(0.1), jax.tree.map(lambda leaf, run=run: leaf[run], gradients))
        for name in SHAPES:
            np.testing.assert_allclose(together[name][run], apart[name], atol=1e-6)


def test_nothing_to_learn_is_nothing_to_keep():
    optimizer = sparse_adam(0.1)
    assert optimizer.init({}) == []
    assert optimizer.update({}, []) == ({}, [])


def test_prompts_outside_the_batch_keep_their_log_partition():
    """The first of three prompts is in the first batch only, the last in none."""
    tree = Tree()
    policy, optimizer = Tabular(tree.num_observations, tree.vocabulary_size), make_optimizer("sgd", 0.0)
    objective = objectives.make("trajectory_balance")
    state = TrainState.create(policy.init(jax.random.key(0)), objective, optimizer, tree)
    sizes = dataclasses.replace(tree.sizes, num_prompts=3)
    parameters = objective.init_parameters(sizes)
    state = dataclasses.replace(
        state, objective_parameters=parameters, objective_optimizer_state=sparse_adam(0.1).init(parameters)
    )
    after = []
    for prompts in ([0, 1], [1, 1], [1, 1]):
        same = tree.prompts(jnp.zeros(2, int))
        trajectories, outcomes = collect(tree, policy, state.parameters, same, 0, state.step, 4, 1.0)
        trajectories = dataclasses.replace(
            trajectories, prompts=dataclasses.replace(trajectories.prompts, index=jnp.array(prompts))
        )
        state, _ = compiled_update(
            state,
            trajectories,
            outcomes,
            jax.random.key(0),
            policy=policy,
            objective=objective,
            optimizer=optimizer,
            batching=WHOLE_BATCH,
            temperature=1.0,
        )
        after.append(np.asarray(state.objective_parameters["log_partition"]))
    np.testing.assert_allclose(np.abs(after[0]), [0.1, 0.1, 0.0], atol=1e-6)
    assert after[0][0] == after[1][0] == after[2][0]
    assert (np.abs(np.diff([each[1] for each in after])) > 1e-3).all()
    assert after[2][2] == 0.0
