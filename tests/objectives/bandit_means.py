"""What objectives do to a bandit on average, from their weights over all groups."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from groups import all_groups, bandit_rollouts, token_advantages


def advantages_of(text, rollouts):
    """`[P, G]`, the weights of one-token answers, in float64."""
    return np.asarray(token_advantages(text, rollouts)[..., 0], np.float64)


def mean_push(text, law, rewards, group, reference=None):
    """`[K]`, the mean of sum_g A_g (onehot(o_g) - law) / G over all groups: the logits' update but for penalties."""
    law = np.asarray(law, np.float64)
    groups = all_groups(len(law), group)
    rollouts = bandit_rollouts(groups, rewards, jnp.log(jnp.float32(law)))
    if reference is not None:
        rollouts = dataclasses.replace(rollouts, reference_log_probs=jnp.log(jnp.float32(reference))[groups][..., None])
    return pushes(advantages_of(text, rollouts), groups, law, law[groups].prod(axis=-1))


def pushes(advantages, groups, law, chances):
    """`[K]`, the mean update, given the advantages and the chances of groups."""
    return np.einsum("n,ng,ngk->k", chances, advantages, np.eye(len(law))[groups] - law) / groups.shape[-1]


def logit_gradient(function, law, step=1e-5):
    """`[K]`, of a function of the law, by central differences of the logits."""
    logits = np.log(np.asarray(law, np.float64))

    def at(z):
        p = np.exp(z - z.max())
        return function(p / p.sum())

    return np.array([(at(logits + step * e) - at(logits - step * e)) / (2 * step) for e in np.eye(len(logits))])
