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
    return Trajectories(
        prompts=shown,
        observations=tokens,
        tokens=tokens,
        token_mask=mask,
        behaviour_log_probs=zeros,
        behaviour_entropy=zeros,
        truncated=~mask.any(-1),
    )


def demonstrated(task, rows):
    """Trajectories of the answers of demonstrations, of each prompt in turn, whose outcomes they say and call right."""
    assert [row["prompt"] for row in rows] == list(range(task.num_prompts))
    trajectories = trajectories_of(task, range(task.num_prompts), [row["answers"] for row in rows])
    assert [row["outcomes"] for row in rows] == task.verify(trajectories).outcome_id.tolist()
    assert {reward for row in rows for reward in row["rewards"]} == {1.0}
    return trajectories


def tokens_of(task, symbols):
    """The tokens of symbols of a task's compact answers."""
    return [task.vocabulary.index(symbol) for symbol in symbols]
