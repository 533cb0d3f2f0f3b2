"""Adam for tables of which each step uses only a few rows."""

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

    def init(parameters: optax.Params) -> list[optax.OptState]:
        return [jax.vmap(adam.init)(leaf.ravel()) for leaf in jax.tree.leaves(parameters)]

    def of_element(gradient: Array, state: optax.OptState) -> tuple[Array, optax.OptState]:
        still = jnp.zeros_like(gradient), state
        return jax.tree.map(lambda old, new: jnp.where(gradient == 0, old, new), still, adam.update(gradient, state))

    def update(
        gradients: optax.Updates, states: list[optax.OptState], parameters: optax.Params | None = None
    ) -> tuple[optax.Updates, list[optax.OptState]]:
        leaves, structure = jax.tree.flatten(gradients)
        moved = [jax.vmap(of_element)(leaf.ravel(), state) for leaf, state in zip(leaves, states, strict=True)]
        updates = [update.reshape(leaf.shape) for leaf, (update, _) in zip(leaves, moved, strict=True)]
        return structure.unflatten(updates), [state for _, state in moved]

    return optax.GradientTransformation(init, update)
