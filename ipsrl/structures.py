"""The arrays that flow from sampling to loss.

Everything that belongs to a group is `[prompt, group]` = `[P, G]` or `[prompt, group, token]` = `[P, G, T]`, from the
sampler to the loss, never flattened. Only the prompt axis is ever sharded, so that the statistics of a group need no
communication.

    Prompts --sampler--> Trajectories --verify--> Verdict;   Trajectories + Verdict = Rollouts --objective--> loss
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


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
      truncated: `[P, G]` bool, True where the horizon ended the trajectory before it stopped by itself.
    """

    prompts: Prompts
    observations: Array
    tokens: Array
    token_mask: Array
    legal_actions: Array | None
    behaviour_log_probs: Array
    truncated: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the environment says of finished trajectories.

    Attributes:
      rewards: `[P, G]` float32.
      outcome_id: `[P, G]` int32; equal ids within a prompt mean the same outcome, -1 means no valid outcome.
      log_backward: `[P, G]` float32, log q(trajectory | outcome) of the environment's backward policy, or None where
        the environment has none. q sums to one over the trajectories that end in an outcome.
    """

    rewards: Array
    outcome_id: Array
    log_backward: Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollouts:
    """What an objective may know of a batch of groups. None of it carries a gradient.

    The fields after `truncated` are optional: an objective that needs one says so, and a run that cannot give it is
    refused before it starts.

    Attributes:
      prompt_index: `[P]` int32, which prompt of the environment each group answers.
      tokens, token_mask, behaviour_log_probs: `[P, G, T]`, as in `Trajectories`.
      rewards, outcome_id: `[P, G]`, as in `Verdict`.
      truncated: `[P, G]` bool, as in `Trajectories`.
      log_backward: `[P, G]`, as in `Verdict`.
      reference_log_probs: `[P, G, T]` float32, log-probabilities of the tokens under the frozen reference policy.
      prompt_log_probs: `[P, L]` float32, log-probability of each prompt token given those before it, under the
        behaviour policy.
      prompt_mask: `[P, L]` bool, True where `prompt_log_probs` has a meaning: not on padding or the first token.
      question_mask: `[P, L]`, as in `Prompts`.
    """

    prompt_index: Array
    tokens: Array
    token_mask: Array
    behaviour_log_probs: Array
    rewards: Array
    outcome_id: Array
    truncated: Array
    log_backward: Array | None = None
    reference_log_probs: Array | None = None
    prompt_log_probs: Array | None = None
    prompt_mask: Array | None = None
    question_mask: Array | None = None

    @classmethod
    def of(cls, trajectories: Trajectories, verdict: Verdict, **optional: Array) -> "Rollouts":
        """Joins what was sampled with what was said of it; `optional` are further fields."""
        return cls(
            prompt_index=trajectories.prompts.index,
            tokens=trajectories.tokens,
            token_mask=trajectories.token_mask,
            behaviour_log_probs=trajectories.behaviour_log_probs,
            rewards=verdict.rewards,
            outcome_id=verdict.outcome_id,
            truncated=trajectories.truncated,
            log_backward=verdict.log_backward,
            question_mask=trajectories.prompts.question_mask,
            **optional,
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PolicyScores:
    """What the policy being trained says of the sampled tokens: the only differentiable inputs of an objective.

    Attributes:
      log_probs: `[P, G, T]` float32, log-probability of each sampled token, at the sampling temperature.
      entropy: `[P, G, T]` float32, entropy in nats of the distribution each token was drawn from.
    """

    log_probs: Array
    entropy: Array


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
