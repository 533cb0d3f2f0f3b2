"""What objectives do to a bandit on average, from their weights over all groups."""

import numpy as np
from groups import token_advantages


def advantages_of(text, rollouts):
    """`[P, G]`, the weights of one-token answers, in float64."""
    return np.asarray(token_advantages(text, rollouts)[..., 0], np.float64)


def pushes(advantages, groups, probs, chances):
    """`[K]`, the mean update, given the advantages and the chances of groups."""
    return np.einsum("n,ng,ngk->k", chances, advantages, np.eye(len(probs))[groups] - probs) / groups.shape[-1]
