"""Adam for tables of which each step uses only a few rows."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array


def sparse_adam(learning_rate: float) -> optax.GradientTransformation:
    """Adam whose moments and step count belong to each element and change only in steps that use the element.

    An element whose gradient is exactly 0 does not move and keeps its moments and count. Adam itself would keep moving
    the log Z of a prompt seen once, by its decaying moments. In steps where its gradient is not 0 an element moves as
    in Adam; if that is every step, this is Adam.
    """
    adam = optax.adam(learning_rate)

    # The names of arguments are those of optax.
    def init(params: optax.Params) -> optax.OptState:
        return [jax.vmap(adam.init)(leaf.ravel()) for leaf in jax.tree.leaves(params)]

    def of_element(gradient: Array, state: optax.OptState) -> tuple[Array, optax.OptState]:
        still = jnp.zeros_like(gradient), state
        return jax.tree.map(lambda old, new: jnp.where(gradient == 0, old, new), still, adam.update(gradient, state))

    def update(
        updates: optax.Updates, state: Any, params: optax.Params | None = None
    ) -> tuple[optax.Updates, optax.OptState]:
        leaves, structure = jax.tree.flatten(updates)
        moved = [jax.vmap(of_element)(leaf.ravel(), of_leaf) for leaf, of_leaf in zip(leaves, state, strict=True)]
        changes = [change.reshape(leaf.shape) for leaf, (change, _) in zip(leaves, moved, strict=True)]
        return structure.unflatten(changes), [of_leaf for _, of_leaf in moved]

    return optax.GradientTransformation(init, update)
