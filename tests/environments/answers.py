"""Answers as the sampler would return them."""

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.structures import Trajectories


def trajectories_of(environment, prompts, answers, behind=77):
    """Trajectories of token lists `answers[P][G]`; behind the mask stand tokens that are to be ignored."""
    tokens = np.full((len(answers), len(answers[0]), environment.max_tokens), behind, np.int32)
    mask = np.zeros(tokens.shape, bool)
    for p, group in enumerate(answers):
        for g, answer in enumerate(group):
            tokens[p, g, : len(answer)] = answer
            mask[p, g, : len(answer)] = True
    zeros = np.zeros(tokens.shape, np.float32)
    shown = jax.device_get(environment.prompts(jnp.array(prompts)))
    return Trajectories(shown, tokens, tokens, mask, None, zeros, zeros, ~mask.any(-1))


def tokens_of(task, symbols):
    """The tokens of symbols of a task's compact answers."""
    return [task.vocabulary.index(symbol) for symbol in symbols]
