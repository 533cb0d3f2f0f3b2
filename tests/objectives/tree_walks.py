"""Every walk of a tree, as rollouts of one group: sums over it are exact expectations."""

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.structures import Rollouts, Trajectories


def walks(tree, state=0):
    """Every walk from a state to its end, as pairs of state and move."""
    if tree.finished(state):
        yield ()
        return
    for move in np.flatnonzero(tree.legal(state)).tolist():
        for rest in walks(tree, int(tree.step(state, move))):
            yield ((state, move), *rest)


def random_table(tree, seed=0):
    """`[S, V]`, log-probabilities of a random policy."""
    legal = tree.legal(np.arange(tree.num_observations))
    logits = np.random.default_rng(seed).normal(size=legal.shape)
    return jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf))


def every_walk(tree, table=None):
    """Rollouts of one group that holds every walk of the tree once, under a policy `[S, V]` of log-probabilities."""
    table = random_table(tree) if table is None else table
    steps = list(walks(tree))
    mask = np.array([[len(walk) > step for step in range(tree.max_tokens)] for walk in steps])[None]
    padded = np.array([[*walk, *[(0, 0)] * (tree.max_tokens - len(walk))] for walk in steps])[None]
    states, moves = jnp.asarray(padded[..., 0]), jnp.asarray(padded[..., 1])
    trajectories = Trajectories(
        prompts=tree.prompts(jnp.zeros(1, jnp.int32)),
        observations=states,
        tokens=moves,
        token_mask=jnp.asarray(mask),
        legal_actions=None,
        behaviour_log_probs=jnp.where(mask, table[states, moves], 0.0),
        behaviour_entropy=jnp.zeros(mask.shape),
        truncated=jnp.zeros(mask.shape[:2], bool),
    )
    return Rollouts.of(trajectories, tree.verify(trajectories))
