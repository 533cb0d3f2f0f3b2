"""Answers to every prompt of a text task, for evaluation, under the two protocols of `ipsrl.measures.answers`."""

from collections.abc import Callable

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
      prompts_at_once: how many prompts are answered in one batch, which limits its memory; None for all.
        The last batch has some of the first prompts again, so that one program serves all.
    """

    def ask(index: np.ndarray, key: Array) -> Verdict:
        prompts = environment.prompts(index)
        sampled = sample_groups(environment, policy, parameters, prompts, key, answers_per_prompt, temperature)
        return judge_on_hosts(environment, sampled)

    return _in_blocks(ask, environment.num_prompts, prompts_at_once, key)


def answers_with_history(
    environment: HypothesisEnvironment,
    policy: Policy,
    parameters: Parameters,
    key: Array,
    answers_per_prompt: int,
    temperature: float = 1.0,
    prompts_at_once: int | None = None,
) -> Verdict:
    """Answers one after the other, each to a prompt that lists the earlier ones that parsed.

    The prompt of every query is padded to the length of the longest possible last one, so that one program serves all.
    Shapes and `prompts_at_once` as in `independent_answers`.
    """
    longest = environment.history_width(answers_per_prompt - 1)

    def ask(index: np.ndarray, key: Array) -> Verdict:
        histories = [[] for _ in index]
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

    return _in_blocks(ask, environment.num_prompts, prompts_at_once, key)


def _in_blocks(ask: Callable[[np.ndarray, Array], Verdict], count: int, at_once: int | None, key: Array) -> Verdict:
    """The verdict on all of `count` prompts by calls of `ask` (index, key), each with as many of them."""
    size = min(at_once or count, count)
    verdicts = [
        ask(np.arange(first, first + size) % count, key if size == count else jax.random.fold_in(key, block))
        for block, first in enumerate(range(0, count, size))
    ]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *verdicts)
