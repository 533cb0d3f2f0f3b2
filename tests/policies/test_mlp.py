import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.policies.mlp import MLP

GRID = Hypergrid(dimensions=2, side=3)


def mlp(hidden=(5, 4)):
    return MLP(GRID.features, GRID.num_features, GRID.vocabulary_size, hidden)


def test_parameters_are_a_nested_dict_of_kernels_and_biases():
    parameters = mlp().init(jax.random.key(0))
    assert jax.tree.map(jnp.shape, parameters) == {
        "layer_0": {"kernel": (6, 5), "bias": (5,)},
        "layer_1": {"kernel": (5, 4), "bias": (4,)},
        "layer_2": {"kernel": (4, 3), "bias": (3,)},
    }
    assert {leaf.dtype for leaf in jax.tree.leaves(parameters)} == {jnp.dtype("float32")}


def test_logits_are_the_layers_written_out():
    policy = mlp()
    parameters = policy.init(jax.random.key(1))
    x = np.asarray(GRID.features(jnp.arange(9)))
    for name in ("layer_0", "layer_1"):
        x = np.maximum(x @ parameters[name]["kernel"] + parameters[name]["bias"], 0)
    expected = x @ parameters["layer_2"]["kernel"] + parameters["layer_2"]["bias"]
    logits, _ = policy.step(parameters, (), jnp.arange(9)[None], jnp.asarray(0))
    np.testing.assert_allclose(logits[0], expected, rtol=1e-5, atol=1e-6)


def test_is_static_under_jit_and_maps_over_seeds():
    policy = mlp(hidden=(2,))  # widths of no other test: the network's structure is built inside this trace
    keys = jax.random.split(jax.random.key(2), 3)
    parameters = jax.jit(jax.vmap(policy.init))(keys)
    step = jax.jit(lambda policy, p: policy.step(p, (), jnp.arange(9)[None], 0)[0], static_argnums=0)
    logits = jax.vmap(lambda p: step(policy, p))(parameters)
    assert logits.shape == (3, 1, 9, 3)
    one = jax.tree.map(lambda leaf: leaf[1], parameters)
    np.testing.assert_allclose(policy.step(one, (), jnp.arange(9)[None], 0)[0], logits[1], rtol=1e-5, atol=1e-6)
    assert not np.allclose(logits[0], logits[1])


def test_no_hidden_layer_is_linear():
    assert jax.tree.map(jnp.shape, mlp(hidden=()).init(jax.random.key(0))) == {
        "layer_0": {"kernel": (6, 3), "bias": (3,)}
    }


def test_bad_widths_are_refused():
    with pytest.raises(ValueError, match=r"vocabulary_size must be positive, not \(6, 0, 3\)\."):
        mlp(hidden=(0,))
