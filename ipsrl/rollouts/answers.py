"""Answers to every prompt of a text task, for evaluation, under the two protocols of `ipsrl.measures.answers`."""

import jax
import numpy as np
from jax import Array

from ipsrl.distributed import hosts
from ipsrl.environments.environment import Environment
from ipsrl.environments.questions import HypothesisEnvironment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.judging import judge_on_hosts
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Verdict


def independent_answers(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    key: Array,
    answers_per_prompt: int,
    temperature: float = 1.0,
    prompts_at_once: int | None = None,
) -> Verdict:
    """I.i.d. answers to every prompt of the task: a verdict `[num_prompts, answers_per_prompt]`.

    Args:
      prompts_at_once: how many prompts are answered by one call of the sampler, which limits its memory; None for all.
        The last call answers some of the first prompts again, so that one program serves all.
    """
    count = environment.num_prompts
    size = min(prompts_at_once or count, count)
    verdicts = []
    for block, first in enumerate(range(0, count, size)):
        prompts = environment.prompts(np.arange(first, first + size) % count)
        block_key = key if size == count else jax.random.fold_in(key, block)
        sampled = sample_groups(environment, policy, parameters, prompts, block_key, answers_per_prompt, temperature)
        verdicts.append(judge_on_hosts(environment, sampled))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *verdicts)


def answers_with_history(
    environment: HypothesisEnvironment,
    policy: Policy,
    parameters: Parameters,
    key: Array,
    answers_per_prompt: int,
    temperature: float = 1.0,
) -> Verdict:
    """Answers one after the other, each to a prompt that lists the earlier ones that parsed.

    The prompt of every query is padded to the length of the longest possible last one, so that one program serves all.
    Shapes as in `independent_answers`.
    """
    index = np.arange(environment.num_prompts)
    histories = [[] for _ in index]
    longest = environment.history_width(answers_per_prompt - 1)
    rewards = np.zeros((len(index), answers_per_prompt), np.float32)
    outcome_id = np.zeros((len(index), answers_per_prompt), np.int32)
    for query in range(answers_per_prompt):
        prompts = environment.prompts_with_history(index, histories, longest)
        step_key = jax.random.fold_in(key, query)
        sampled = sample_groups(environment, policy, parameters, prompts, step_key, 1, temperature)
        verdict = judge_on_hosts(environment, sampled)
        tokens, mask = hosts.to_host((sampled.tokens, sampled.token_mask))
        rewards[:, query], outcome_id[:, query] = verdict.rewards[:, 0], verdict.outcome_id[:, 0]
        for prompt in np.flatnonzero(verdict.outcome_id[:, 0] >= 0):
            histories[prompt].append(tokens[prompt, 0][mask[prompt, 0]].tolist())
    return Verdict(rewards=rewards, outcome_id=outcome_id)
