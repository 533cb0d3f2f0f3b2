import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.policies.mlp import FEWEST_ROWS, MLP, _distinct
from ipsrl.rollouts.sampler import sample_groups

GRID = Hypergrid(dimensions=2, side=3)


class EveryRow(MLP):
    """Computes the logits of every row, whatever it shows."""

    def _logits(self, parameters, observations, mask):
        return self._network(parameters, observations)


def mlp(hidden=(5, 4)):
    return MLP(GRID.features, GRID.num_features, GRID.vocabulary_size, hidden)


def test_logits_are_the_layers_written_out():
    policy = mlp()
    parameters = jax.device_get(jax.jit(policy.init)(jax.random.key(1)))
    x = np.asarray(GRID.features(jnp.arange(9)))
    for name in ("layer_0", "layer_1"):
        x = np.maximum(x @ parameters[name]["kernel"] + parameters[name]["bias"], 0)
    expected = x @ parameters["layer_2"]["kernel"] + parameters["layer_2"]["bias"]
    logits, _ = policy.step(parameters, (), jnp.arange(9)[None], jnp.asarray(0))
    np.testing.assert_allclose(logits[0], expected, rtol=1e-5, atol=1e-6)


def test_distinct_rows_alone_give_the_same_walks_losses_and_gradients():
    grid, group = Hypergrid(dimensions=3, side=6), 2 * FEWEST_ROWS
    shape = (grid.features, grid.num_features, grid.vocabulary_size, (8, 8))
    fast, plain = MLP(*shape), EveryRow(*shape)
    parameters = jax.jit(fast.init)(jax.random.key(0))
    parameters["layer_2"]["bias"] = parameters["layer_2"]["bias"].at[-1].set(-1.0)
    prompts = grid.prompts(jnp.zeros(3, jnp.int32))
    walks, expected = (
        sample_groups(grid, policy, parameters, prompts, jax.random.key(1), group) for policy in (fast, plain)
    )
    np.testing.assert_array_equal(walks.tokens, expected.tokens)
    np.testing.assert_array_equal(walks.token_mask, expected.token_mask)
    np.testing.assert_allclose(walks.behaviour_log_probs, expected.behaviour_log_probs, atol=1e-5)
    assert not walks.token_mask.all()
    weights = jax.random.normal(jax.random.key(2), walks.tokens.shape)

    def loss(parameters, policy):
        scores = policy.score(parameters, walks, 0.7)
        return (weights * scores.log_probs).sum() + scores.entropy.mean(), scores

    gradient = jax.jit(jax.grad(loss, has_aux=True), static_argnums=1)
    gradients, scores = zip(*(gradient(parameters, policy) for policy in (fast, plain)), strict=True)
    np.testing.assert_allclose(scores[0].log_probs, scores[1].log_probs, atol=1e-5)
    np.testing.assert_allclose(scores[0].entropy, scores[1].entropy, atol=1e-5)
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradients[1]))
    for found, exact in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-5 * largest)


def test_distinct_rows_of_runs_that_are_mapped_are_those_of_each():
    # Widths of no other test: the structure of the network is built inside a trace.
    policy, keys = mlp(hidden=(2,)), jax.random.split(jax.random.key(3), 3)
    parameters = jax.jit(jax.vmap(policy.init))(keys)
    assert len(np.unique(parameters["layer_0"]["kernel"], axis=0)) == 3
    # So that the runs need different numbers of blocks.
    shown = jnp.stack([jnp.zeros((2, 10 * FEWEST_ROWS), jnp.int32), *jax.random.randint(keys[0], (2, 2, 640), 0, 9)])

    def loss(parameters, shown):
        return (policy.step(parameters, (), shown, 0)[0] ** 2).sum()

    value_and_gradient = jax.value_and_grad(loss)
    mapped = jax.jit(jax.vmap(value_and_gradient))(parameters, shown)
    alone = jax.jit(value_and_gradient)
    for run in range(3):
        one = alone(jax.tree.map(lambda leaf, run=run: leaf[run], parameters), shown[run])
        for found, exact in zip(jax.tree.leaves(mapped), jax.tree.leaves(one), strict=True):
            np.testing.assert_allclose(found[run], exact, rtol=1e-4, atol=1e-4)


def test_the_work_is_that_of_the_distinct_rows():
    """Counted where the network is called: once for each block."""
    calls = []

    def features(cell):
        jax.debug.callback(lambda: calls.append(cell.shape))
        return GRID.features(cell)

    policy = dataclasses.replace(mlp(), features=features)
    parameters = policy.init(jax.random.key(0))
    step = jax.jit(lambda shown: policy.step(parameters, (), shown, 0)[0])
    for shown, blocks in ((jnp.arange(640) % 9, 1), (jnp.arange(640), 10)):
        calls.clear()
        jax.block_until_ready(step(shown[None]))
        jax.effects_barrier()
        assert calls == [(1, FEWEST_ROWS)] * blocks


DISTINCT = jax.jit(_distinct)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 40) | st.sampled_from([2**30, 2**30 + 16]), st.booleans()), min_size=9, max_size=9
    )
)
def test_distinct_values_are_found_whatever_they_are(pairs):
    values, mask = (np.array(column) for column in zip(*pairs, strict=True))
    distinct, places, count = DISTINCT(jnp.asarray(values, jnp.int32), jnp.asarray(mask))
    np.testing.assert_array_equal(np.asarray(distinct)[places][mask], values[mask])
    assert (np.asarray(places)[mask] < count).all()
    wanted = set(values[mask])
    assert set(np.asarray(distinct)[:count]) == wanted
    # Only values that share a place, 16 apart or more, can be there twice.
    if len({value % 32 for value in wanted}) == len(wanted):
        assert count == len(wanted)
