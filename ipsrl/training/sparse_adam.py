"""Adam for tables of which a step sees a few rows only."""

import jax
import jax.numpy as jnp
import optax
from jax import Array


def sparse_adam(learning_rate: float) -> optax.GradientTransformation:
    """Adam, with moments and a count of steps for each element, which only the steps that concern it change.

    An element whose gradient is exactly 0 stays where it is, and so do its moments and its count. Adam proper would
    move the log Z of a prompt that was met once for many steps more, by its fading moments. Each element moves as Adam
    does in the steps in which its gradient is not 0; where that is every step, this is Adam.
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
