"""The arrays that flow from sampling to loss.

Everything that belongs to a group is `[prompt, group]` = `[P, G]` or `[prompt, group, token]` = `[P, G, T]`, from the
sampler to the loss, never flattened. Only the prompt axis is ever sharded, so that the statistics of a group need no
communication.

    Prompts --sampler--> Trajectories --verify--> Verdict;   Trajectories + Verdict = Rollouts --objective--> loss
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

IfNeeded = Any
"""An array, or None where nothing asked for it. A part that names it in `needs` may rely on an array."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What the state and the learned parameters of an objective may be indexed by.

    Attributes:
      num_prompts: prompts are numbered below it.
      num_outcomes: so are the `outcome_id` of every prompt; None where outcomes are not numbered.
      num_states: so are `observations` and `next_states`; None where observations do not tell the state.
      vocabulary_size: so are tokens.
    """

    num_prompts: int
    num_outcomes: int | None = None
    num_states: int | None = None
    vocabulary_size: int | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prompts:
    """A batch of prompts.

    Attributes:
      index: `[P]` int32, which prompt of the environment each one is.
      tokens: `[P, L]` int32, padded on the left, so that the last column always holds a prompt's last token.
        L = 0 where the environment has nothing to say before the first action.
      mask: `[P, L]` bool, True on the real tokens.
      question_mask: `[P, L]` bool, True on the tokens of the question itself, without the template around it; None
        where the environment does not tell them apart.
    """

    index: Array
    tokens: Array
    mask: Array
    question_mask: Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trajectories:
    """What the sampler returns, and all that a policy needs to score the same actions again.

    Attributes:
      prompts: the prompts that the groups answer.
      observations: `[P, G, T]` int32, what the policy saw before each action: a state's index, or the token before.
      tokens: `[P, G, T]` int32, the actions; 0 after the end.
      token_mask: `[P, G, T]` bool, True on every action taken, the stop token included.
      legal_actions: `[P, G, T, V]` bool, or None where every action is always legal.
      behaviour_log_probs: `[P, G, T]` float32, log-probability of each action under the untruncated sampling
        distribution (legal actions only, at the sampling temperature); 0 after the end.
      behaviour_entropy: `[P, G, T]` float32, entropy in nats of that distribution; 0 after the end.
      truncated: `[P, G]` bool, True where the horizon ended the trajectory before it stopped by itself.
      top_tokens: `[P, G, T, K]` int32, the K likeliest actions of that distribution, likeliest first; None where
        nobody asked for them.
      top_log_probs: `[P, G, T, K]` float32, their log-probabilities (-inf where fewer than K are legal).
      off_policy: `[P, G]` bool, True for answers that the behaviour policy did not sample from this prompt: a
        refinement, an expert's, a stored one. Their `behaviour_log_probs` are its log-probabilities all the same. None
        where it sampled every answer.
    """

    prompts: Prompts
    observations: Array
    tokens: Array
    token_mask: Array
    legal_actions: Array | None
    behaviour_log_probs: Array
    behaviour_entropy: Array
    truncated: Array
    top_tokens: Array | None = None
    top_log_probs: Array | None = None
    off_policy: Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Outcomes:
    """What the environment says of finished trajectories.

    Attributes:
      rewards: `[P, G]` float32.
      outcome_id: `[P, G]` int32; equal ids within a prompt mean the same outcome, -1 means no valid outcome.
      log_backward: `[P, G]` float32, log q(trajectory | outcome) of the environment's backward policy, or None where
        the environment has none. q sums to one over the trajectories that end in an outcome.
      step_log_backward: `[P, G, T]` float32, the same for each action: log q(state before | state after); their sum is
        `log_backward`.
      next_states: `[P, G, T]` int32, number of the state that each action led to; states in which an action follows
        are numbered as in `Trajectories.observations`.
      planning_mask: `[P, G, T]` bool, True on actions that choose between ways to go on, rather than carry one out.
    """

    rewards: Array
    outcome_id: Array
    log_backward: Array | None = None
    step_log_backward: Array | None = None
    next_states: Array | None = None
    planning_mask: Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollouts:
    """What an objective may know of a batch of groups. None of it carries a gradient.

    The fields after `truncated` are optional: an objective that needs one says so, and a run that cannot give it is
    refused before it starts.

    Attributes:
      prompt_index: `[P]` int32, which prompt of the environment each group answers.
      observations, tokens, token_mask, behaviour_log_probs, behaviour_entropy: `[P, G, T]`, as in `Trajectories`.
      rewards, outcome_id: `[P, G]`, as in `Outcomes`.
      truncated: `[P, G]` bool, as in `Trajectories`.
      top_tokens, top_log_probs: `[P, G, T, K]`, as in `Trajectories`.
      log_backward: `[P, G]`, as in `Outcomes`.
      step_log_backward, next_states, planning_mask: `[P, G, T]`, as in `Outcomes`.
      off_policy: `[P, G]` bool, as in `Trajectories`.
      reference_log_probs: `[P, G, T]` float32, log-probabilities of the tokens under the frozen reference policy.
      prompt_log_probs: `[P, L]` float32, log-probability of each prompt token given those before it, under the
        behaviour policy.
      prompt_mask: `[P, L]` bool, True where `prompt_log_probs` has a meaning: not on padding or the first token.
      question_mask: `[P, L]`, as in `Prompts`.
      keys: `[P]` PRNG keys, one for each group, for objectives that sample at random.
    """

    prompt_index: Array
    observations: Array
    tokens: Array
    token_mask: Array
    behaviour_log_probs: Array
    behaviour_entropy: Array
    rewards: Array
    outcome_id: Array
    truncated: Array
    top_tokens: IfNeeded = None
    top_log_probs: IfNeeded = None
    log_backward: IfNeeded = None
    step_log_backward: IfNeeded = None
    next_states: IfNeeded = None
    planning_mask: IfNeeded = None
    off_policy: IfNeeded = None
    reference_log_probs: IfNeeded = None
    prompt_log_probs: IfNeeded = None
    prompt_mask: IfNeeded = None
    question_mask: IfNeeded = None
    keys: IfNeeded = None

    @classmethod
    def of(cls, trajectories: Trajectories, outcomes: Outcomes, **optional: Array) -> "Rollouts":
        """Joins what was sampled with what was said of it; `optional` are further fields."""
        known = {field.name for field in dataclasses.fields(cls)}
        said = {
            field.name: getattr(source, field.name)
            for source in (trajectories, outcomes)
            for field in dataclasses.fields(source)
            if field.name in known
        }
        prompts: dict[str, Any] = {
            "prompt_index": trajectories.prompts.index,
            "question_mask": trajectories.prompts.question_mask,
        }
        return cls(**(prompts | said | optional))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights:
    """What an objective makes of a batch of rollouts, before it looks at the policy being trained. No gradient.

    Attributes:
      advantages: `[P, G, T]` float32, the weight of every sampled token.
      coefficients: for each penalty of the objective its coefficient, `[P, G, T]` or 1 in the place of G or T.
    """

    advantages: Array
    coefficients: tuple[Array, ...]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PolicyScores:
    """What the policy being trained says of the sampled tokens: the only differentiable inputs of an objective.

    Attributes:
      log_probs: `[P, G, T]` float32, log-probability of each sampled token, at the sampling temperature.
      entropy: `[P, G, T]` float32, entropy in nats of the distribution each token was sampled from.
      top_log_probs: `[P, G, T, K]` float32, log-probabilities of `Trajectories.top_tokens`; None where there are none.
    """

    log_probs: Array
    entropy: Array
    top_log_probs: IfNeeded = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ObjectiveOutput:
    """A loss that has not been divided yet.

    Only the train step divides, after it has summed over devices and micro-batches, so that splitting a batch changes
    nothing.

    Attributes:
      loss_sum: `[]` float32, the sum whose gradient is followed (downhill).
      count: `[]` float32, what `loss_sum` is to be divided by: sequences, or tokens.
      metrics: name -> `(sum, count)` pairs, divided the same way.
    """

    loss_sum: Array
    count: Array
    metrics: dict[str, tuple[Array, Array]]


def masked_sum(values: Array, mask: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Sum of `values` where `mask` holds; what lies outside the mask may be anything, even NaN."""
    return jnp.where(mask, values, 0.0).sum(axis)
