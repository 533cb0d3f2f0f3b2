"""Random rollouts with every optional field, and scores of a slightly later policy, to test and time objectives without
an environment or a policy.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.structures import PolicyScores, Rollouts, Sizes

OUTCOMES, STATES, PROMPT_TOKENS, FEATURES = 3, 9, 6, 5


def synthetic_sizes(prompts: int, vocabulary: int = 7) -> Sizes:
    """The sizes of an environment that could give `synthetic_rollouts`."""
    return Sizes(prompts, OUTCOMES, STATES, vocabulary)


def synthetic_rollouts(
    seed: int,
    prompts: int,
    group: int,
    length: int,
    binary: bool = True,
    vocabulary: int = 7,
    top_tokens: int = 3,
) -> tuple[Rollouts, PolicyScores]:
    """Rollouts `[prompts, group, length]` of random lengths, outcomes and rewards, and the scores of a later policy.

    Args:
      seed: the same seed and sizes give the same numbers.
      prompts, group, length: P, G and T.
      binary: rewards are 0 or 1; else uniform between 0.1 and 2.
      vocabulary: V.
      top_tokens: K, number of most likely tokens that are kept.
    """
    # What came later is drawn apart, so that the other numbers of a seed stay as they are.
    rng, apart = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    shape = (prompts, group, length)
    lengths = rng.integers(1, length + 1, size=(prompts, group))
    mask = np.arange(length) < lengths[..., None]
    behaviour = np.where(mask, np.log(rng.uniform(0.05, 0.95, shape)), 0.0)
    rewards = rng.integers(0, 2, (prompts, group)) if binary else rng.uniform(0.1, 2.0, (prompts, group))
    outcomes = np.where(rng.random((prompts, group)) < 0.1, -1, rng.integers(0, OUTCOMES, (prompts, group)))
    likeliest = np.sort(rng.dirichlet(np.ones(vocabulary), shape), axis=-1)[..., : -top_tokens - 1 : -1]
    states = np.where(mask[..., None], rng.integers(0, STATES, (*shape, 2)), 0)
    step_log_backward = np.where(mask, np.log(rng.uniform(0.3, 1.0, shape)), 0.0)
    prompt_mask = np.arange(PROMPT_TOKENS) >= rng.integers(1, 4, size=(prompts, 1))

    def array(values, dtype=jnp.float32):
        return jnp.asarray(values, dtype)

    rollouts = Rollouts(
        prompt_index=jnp.arange(prompts),
        observations=array(states[..., 0], jnp.int32),
        tokens=array(np.where(mask, rng.integers(0, vocabulary, shape), 0), jnp.int32),
        token_mask=array(mask, bool),
        behaviour_log_probs=array(behaviour),
        behaviour_entropy=array(np.where(mask, rng.uniform(0.1, 1.9, shape), 0.0)),
        rewards=array(rewards),
        outcome_id=array(outcomes, jnp.int32),
        truncated=array(lengths == length, bool),
        top_tokens=array(np.argsort(rng.random((*shape, vocabulary)))[..., :top_tokens], jnp.int32),
        top_log_probs=array(np.log(likeliest)),
        log_backward=array(step_log_backward.sum(axis=-1)),
        step_log_backward=array(step_log_backward),
        next_states=array(states[..., 1], jnp.int32),
        planning_mask=array(mask & (rng.random(shape) < 0.5), bool),
        step_rewards=array(np.where(np.arange(length) == 0, rewards[..., None], 0.0)),
        off_policy=array(rng.random((prompts, group)) < 0.2, bool),
        reference_log_probs=array(np.where(mask, behaviour + rng.normal(0, 0.3, shape), 0.0)),
        proximal_log_probs=array(np.where(mask, behaviour + apart.normal(0, 0.3, shape), 0.0)),
        prompt_log_probs=array(np.log(rng.uniform(0.1, 0.9, (prompts, PROMPT_TOKENS)))),
        prompt_mask=array(prompt_mask, bool),
        question_mask=array(prompt_mask & (np.arange(PROMPT_TOKENS) < PROMPT_TOKENS - 1), bool),
        keys=jax.random.split(jax.random.key(seed), prompts),
        reward_parts=array(rewards[..., None] + apart.uniform(0.1, 1.0, (prompts, group, 1)) * [1.0, -1.0]),
        greedy_rewards=array(apart.uniform(0.1, 2.0, prompts)),
        answer_features=array(apart.normal(0, 0.3, (prompts, group, FEATURES))),
        proximal_mean_log_probs=array(np.where(mask, np.log(apart.uniform(0.01, 0.1, shape)), 0.0)),
    )
    scores = PolicyScores(
        log_probs=array(np.where(mask, behaviour + rng.normal(0, 0.3, shape), 0.0)),
        entropy=array(np.where(mask, rng.uniform(0.1, 2.0, shape), 0.0)),
        top_log_probs=array(np.log(likeliest) + rng.normal(0, 0.2, likeliest.shape)),
        mean_log_probs=array(np.where(mask, np.log(apart.uniform(0.01, 0.1, shape)), 0.0)),
    )
    return rollouts, scores
