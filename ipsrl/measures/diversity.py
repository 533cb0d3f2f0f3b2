"""Number of outcomes that a policy still produces, from sampled outcome ids or from exact distributions.

Everything here is jittable and reduces the last axis; leading axes are batch axes.

Sampled ids `[..., G]` need no table of outcomes: a G x G matrix of equalities gives the counts. Samples with the id -1
have no outcome and are left out; set ids that should not count (inadmissible answers) to -1 first. If no sample is
left, all these measures are 0. G samples show at most G outcomes, and the plug-in entropy is biased downwards: compare
such numbers only at equal G.
"""

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import entr

from ipsrl.checking.arguments import checked


@checked
def distinct_outcomes(outcome_id: Array) -> Array:
    """Number of different outcomes among the samples `[..., G]`, int32 `[...]`."""
    return jnp.sum(_is_new(outcome_id), axis=-1)


@checked
def effective_outcomes(outcome_id: Array) -> Array:
    """exp(H) of the observed frequencies of the samples `[..., G]`, float32 `[...]`, H Shannon's entropy in nats.

    The number of equally frequent outcomes with the same entropy; in [1, distinct outcomes].
    """
    counts, total = _counts(outcome_id)
    # sum over outcomes of f log(1/f), f = count / total, written as a mean over samples.
    log_inverse_share = jnp.where(counts > 0, jnp.log(total / jnp.maximum(counts, 1)), 0.0)
    entropy = jnp.sum(log_inverse_share, axis=-1) / total[..., 0]
    return jnp.where(jnp.any(counts > 0, axis=-1), jnp.exp(entropy), 0.0)


@checked
def largest_outcome_share(outcome_id: Array) -> Array:
    """Share of the most frequent outcome among the samples `[..., G]`, float32 `[...]`."""
    counts, total = _counts(outcome_id)
    return jnp.max(counts, axis=-1) / total[..., 0]


@checked
def collision_diversity(outcome_id: Array) -> Array:
    """1 - sum_c f_c^2 of the observed frequencies of the samples `[..., G]`, float32 `[...]`.

    The probability that two draws from the observed frequencies are different outcomes, in [0, 1 - 1 / outcomes]. Of
    correct answers alone it is PCMD (ModeBench, arXiv 2610.11064); of G samples of a policy it is lower than the
    policy's own, in the mean by the factor 1 - 1 / G. `different_pairs` is not.
    """
    counts, total = _counts(outcome_id)
    # sum over outcomes of f^2, written as a mean over samples of f.
    collisions = jnp.sum(counts, axis=-1) / total[..., 0] ** 2
    return jnp.where(jnp.any(counts > 0, axis=-1), 1.0 - collisions, 0.0)


@checked
def different_pairs(outcome_id: Array) -> Array:
    """1 - sum_c n_c (n_c - 1) / (n (n - 1)), n_c the counts of the n samples with an outcome among `[..., G]`.

    The share of pairs of these samples that are different outcomes, float32 `[...]`, in [0, 1]: for independent samples
    an unbiased estimate of the policy's own 1 - sum_c p_c^2. NaN where n < 2. Of correct answers alone it is PCMD as
    ModeBench estimates it (arXiv 2610.11064, code: github.com/liv-daliberti/modeBench).
    """
    counts, _ = _counts(outcome_id)
    total = jnp.sum(counts > 0, axis=-1)
    alike = jnp.sum(jnp.maximum(counts - 1, 0), axis=-1) / jnp.maximum(total * (total - 1), 1)
    return jnp.where(total > 1, 1.0 - alike, jnp.nan)


@checked
def ranked_shares(outcome_id: Array) -> Array:
    """Shares of the outcomes among the samples `[..., G]`, largest first, float32 `[..., G]`; 0 after the last outcome.

    The first of them is `largest_outcome_share`.
    """
    counts, total = _counts(outcome_id)
    return jnp.sort(jnp.where(_is_new(outcome_id), counts, 0) / total, axis=-1, descending=True)


@checked
def entropy_of_distribution(probs: Array) -> Array:
    """Shannon's entropy in nats of exact probabilities `[..., K]`: -sum p log p, with 0 log 0 = 0."""
    return jnp.sum(entr(jnp.asarray(probs)), axis=-1)


@checked
def effective_outcomes_of_distribution(probs: Array) -> Array:
    """exp(H) of exact probabilities `[..., K]`, in [1, K]."""
    return jnp.exp(entropy_of_distribution(probs))


def _ids(outcome_id: Array) -> Array:
    """Raises ValueError unless these are ids `[..., G]`."""
    outcome_id = jnp.asarray(outcome_id)
    if outcome_id.ndim == 0 or not jnp.issubdtype(outcome_id.dtype, jnp.integer):
        raise ValueError(
            f"outcome_id has the shape {outcome_id.shape} and the type {outcome_id.dtype}, it must be [..., group] and "
            "hold integers"
        )
    return outcome_id


def _equal(outcome_id: Array) -> Array:
    return outcome_id[..., :, None] == outcome_id[..., None, :]


def _is_new(outcome_id: Array) -> Array:
    """Whether each sample `[..., G]` is the first of its outcome; False if it has none."""
    outcome_id = _ids(outcome_id)
    seen_before = jnp.any(jnp.tril(_equal(outcome_id), k=-1), axis=-1)
    return (outcome_id >= 0) & ~seen_before


def _counts(outcome_id: Array) -> tuple[Array, Array]:
    """Count of each sample's own outcome `[..., G]`, 0 if it has none; and max(1, number of samples that have one)."""
    outcome_id = _ids(outcome_id)
    counts = jnp.where(outcome_id >= 0, jnp.sum(_equal(outcome_id), axis=-1), 0)
    return counts, jnp.maximum(1, jnp.sum(outcome_id >= 0, axis=-1, keepdims=True))
