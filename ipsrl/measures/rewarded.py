"""Measures of exact probabilities of rewarded outcomes, by which objectives are compared.

`probs` are `[..., P, K]`, the probability of each outcome at each prompt, and `rewards` `[P, K]` are not negative. The
reward-proportional distribution of a prompt is r / sum(r). All measures are means over prompts.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.arguments import checked
from ipsrl.measures import distances, diversity


@checked
def measures(probs: Array, rewards: np.ndarray) -> dict[str, Array]:
    """Name -> `[...]`.

    reward: as a share of the best possible one.
    effective_outcomes, effective_best: exp(H) of `probs` restricted to outcomes of positive, and of the highest,
    reward.
    survival: probability of the outcomes with the lowest positive reward, relative to reward-proportional
    probabilities.
    tv_to_proportional, l1_to_proportional: distances to the reward-proportional distribution.
    tv_to_uniform_best: total variation to the uniform distribution over the outcomes of the highest reward.
    modes: outcomes of the highest reward with at least half of their reward-proportional probability.
    """
    if probs.ndim < 2 or rewards.shape != probs.shape[-2:]:
        raise ValueError(f"rewards has shape {rewards.shape}, but probs {probs.shape} must be [..., prompt, outcome]")
    pays = jnp.asarray(rewards)
    target = pays / pays.sum(axis=-1, keepdims=True)
    rewarded, best = pays > 0, pays == pays.max(axis=-1, keepdims=True)
    least = pays == jnp.where(rewarded, pays, jnp.inf).min(axis=-1, keepdims=True)
    found = {
        "reward": (probs * pays).sum(axis=-1) / pays.max(axis=-1).mean(),
        "effective_outcomes": _effective(probs, rewarded),
        "effective_best": _effective(probs, best),
        "survival": (probs * least).sum(axis=-1) / (target * least).sum(axis=-1),
        "tv_to_proportional": distances.total_variation(probs, target),
        "tv_to_uniform_best": distances.total_variation(probs, best / best.sum(axis=-1, keepdims=True)),
        "l1_to_proportional": distances.total_l1(probs, target),
        "modes": (best & (probs > target / 2)).sum(axis=-1, dtype=jnp.float32),
    }
    return {name: values.mean(axis=-1) for name, values in found.items()}


def _effective(probs: Array, counted: Array) -> Array:
    """exp(H) of distributions restricted to some outcomes; 0 if these have no probability."""
    kept = probs * counted
    total = kept.sum(axis=-1, keepdims=True)
    effective = diversity.effective_outcomes_of_distribution(kept / jnp.where(total == 0, 1.0, total))
    return jnp.where(total[..., 0] == 0, 0.0, effective)
