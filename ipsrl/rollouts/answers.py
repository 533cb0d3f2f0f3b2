"""Answers to every prompt of a text task, for evaluation, under the two protocols of `ipsrl.measures.answers`."""

import jax
import numpy as np
from jax import Array

from ipsrl.distributed import hosts
from ipsrl.environments.questions import HypothesisEnvironment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.judging import judge_on_hosts
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Verdict


def independent_answers(
    environment: HypothesisEnvironment,
    policy: Policy,
    parameters: Parameters,
    key: Array,
    answers_per_prompt: int,
    temperature: float = 1.0,
) -> Verdict:
    """I.i.d. answers to every prompt of the task: a verdict `[num_prompts, answers_per_prompt]`."""
    prompts = environment.prompts(np.arange(environment.num_prompts))
    sampled = sample_groups(environment, policy, parameters, prompts, key, answers_per_prompt, temperature)
    return judge_on_hosts(environment, sampled)


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
