"""Answers to every prompt of a text task, for evaluation, under the two protocols of `ipsrl.measures.answers`."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.distributed import hosts
from ipsrl.environments.environment import Environment
from ipsrl.environments.questions import HypothesisEnvironment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.decoding import ORDINARY, Decoding
from ipsrl.rollouts.tools import sampler_for
from ipsrl.rollouts.verification import verify_on_hosts
from ipsrl.structures import Outcomes, Trajectories

# Number of answers, and of prompts, that are kept as text for people to read.
SHOWN = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AllAnswers:
    """Answers to every prompt of a task, as NumPy arrays.

    Attributes:
      outcomes: of all answers, `[num_prompts, answers_per_prompt]`.
      tokens: `[num_prompts, S, T]` int32, the first S answers to each prompt, at most `SHOWN`.
      written: `[num_prompts, S, T]` bool, True on real tokens, the stop token included.
      dictated: `[num_prompts, S, T]` bool, True on those that the environment wrote.
    """

    outcomes: Outcomes
    tokens: np.ndarray
    written: np.ndarray
    dictated: np.ndarray


@dataclasses.dataclass(frozen=True)
class Completion:
    """One answer as text.

    Attributes:
      prompt_index: prompt of the task that it answers.
      prompt, completion: texts of the prompt and of the answer; one line for each turn if the environment spoke too.
      reward: of the answer.
      outcome: name of the outcome; None if the answer has none.
    """

    prompt_index: int
    prompt: str
    completion: str
    reward: float
    outcome: str | None


def completions(environment: HypothesisEnvironment, answers: AllAnswers, names: Sequence[str]) -> list[Completion]:
    """The first `SHOWN` answers to each of the first `SHOWN` prompts.

    Args:
      environment: of a `HypothesisEnvironment` only the texts are used.
      answers: to all of its prompts.
      names: of the outcomes, in the order of their ids; others are called by their id, as in "#17".
    """

    def name(outcome: int) -> str | None:
        if outcome < 0:
            return None
        return names[outcome] if outcome < len(names) else f"#{outcome}"

    outcomes, listed = answers.outcomes, []
    for prompt in range(min(SHOWN, len(answers.tokens))):
        question = environment.question_text(prompt)
        of_prompt = zip(answers.tokens[prompt], answers.written[prompt], answers.dictated[prompt], strict=True)
        texts = [transcript(environment, tokens[real], dictated[real]) for tokens, real, dictated in of_prompt]
        listed += [
            Completion(prompt, question, text, float(reward), name(int(outcome)))
            for text, reward, outcome in zip(texts, outcomes.rewards[prompt], outcomes.outcome_id[prompt], strict=False)
        ]
    return listed


def transcript(environment: HypothesisEnvironment, tokens: np.ndarray, dictated: np.ndarray) -> str:
    """An answer as text; where the environment spoke too, a line for each turn, which begins with the speaker.

    Args:
      tokens, dictated: `[n]`, the tokens of the answer, and which of them the environment wrote.
    """
    if not dictated.any():
        return environment.answer_texts([tokens])[0]
    turns = np.split(np.arange(len(tokens)), np.flatnonzero(np.diff(dictated)) + 1)
    texts = environment.answer_texts([tokens[turn] for turn in turns])
    speakers = ["environment" if dictated[turn[0]] else "policy" for turn in turns]
    return "\n".join(f"{speaker}: {text}" for speaker, text in zip(speakers, texts, strict=True))


def independent_answers(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    key: Array,
    answers_per_prompt: int,
    decoding: Decoding = ORDINARY,
    prompts_at_once: int | None = None,
) -> AllAnswers:
    """I.i.d. answers to every prompt of the task.

    Args:
      decoding: the distribution of each token; rules that differ only in the numbers of a penalty share one program.
      prompts_at_once: number of prompts answered in one batch, which limits its memory; None for all. The last batch
        repeats some of the first prompts, so that one compiled program serves all batches.
    """

    def ask(index: np.ndarray, key: Array) -> AllAnswers:
        prompts = environment.prompts(jnp.asarray(index))
        sample = sampler_for(environment)
        sampled = sample(environment, policy, parameters, prompts, key, answers_per_prompt, decoding)
        return AllAnswers(verify_on_hosts(environment, sampled), *_shown(sampled))

    return _in_blocks(ask, environment.num_prompts, prompts_at_once, key)


def answers_with_history(
    environment: HypothesisEnvironment,
    policy: Policy,
    parameters: Parameters,
    key: Array,
    answers_per_prompt: int,
    decoding: Decoding = ORDINARY,
    prompts_at_once: int | None = None,
) -> AllAnswers:
    """Answers one after the other, each to a prompt that lists the earlier ones that parsed.

    Every prompt is padded to the length of the longest possible last one, so that one compiled program serves all
    queries. `decoding` and `prompts_at_once` as in `independent_answers`.
    """
    longest = environment.history_width(answers_per_prompt - 1)

    def ask(index: np.ndarray, key: Array) -> AllAnswers:
        histories, shown = [[] for _ in index], []
        rewards = np.zeros((len(index), answers_per_prompt), np.float32)
        outcome_id = np.zeros((len(index), answers_per_prompt), np.int32)
        sample = sampler_for(environment)
        for query in range(answers_per_prompt):
            prompts = environment.prompts_with_history(index, histories, longest)
            step_key = jax.random.fold_in(key, query)
            sampled = sample(environment, policy, parameters, prompts, step_key, 1, decoding)
            outcomes = verify_on_hosts(environment, sampled)
            tokens, written, dictated = _shown(sampled)
            if query < SHOWN:
                shown.append((tokens, written, dictated))
            rewards[:, query], outcome_id[:, query] = outcomes.rewards[:, 0], outcomes.outcome_id[:, 0]
            for prompt in np.flatnonzero(outcomes.outcome_id[:, 0] >= 0):
                histories[prompt].append(tokens[prompt, 0][written[prompt, 0]].tolist())
        parts = (np.concatenate(part, axis=1) for part in zip(*shown, strict=True))
        found = Outcomes(jnp.asarray(rewards), jnp.asarray(outcome_id), right_above=outcomes.right_above)
        return AllAnswers(found, *parts)

    return _in_blocks(ask, environment.num_prompts, prompts_at_once, key)


def _shown(sampled: Trajectories) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, `written` and `dictated` of the first answers to each prompt, as in `AllAnswers`."""
    dictated = jnp.zeros_like(sampled.token_mask) if sampled.dictated is None else sampled.dictated
    return hosts.to_host([array[:, :SHOWN] for array in (sampled.tokens, sampled.written, dictated)])


def _in_blocks(
    ask: Callable[[np.ndarray, Array], AllAnswers], count: int, at_once: int | None, key: Array
) -> AllAnswers:
    """The answers to all of `count` prompts, by calls of `ask(index, key)` with `at_once` prompts each."""
    size = min(at_once or count, count)
    blocks = [
        ask(np.arange(first, first + size) % count, key if size == count else jax.random.fold_in(key, block))
        for block, first in enumerate(range(0, count, size))
    ]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *blocks)
