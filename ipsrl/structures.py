"""The arrays that flow from the sampler to the loss.

All arrays of a group are `[prompt, group]` = `[P, G]` or `[prompt, group, token]` = `[P, G, T]`, from the sampler to
the loss, never flattened. Only the prompt axis is ever sharded, so the statistics of a group need no communication.

    Prompts --sampler--> Trajectories --verify--> Outcomes;   Trajectories + Outcomes = Rollouts --objective--> loss
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from ipsrl.checking.arguments import checked

IfNeeded = Any
"""An array, or None if it was not requested. Parts that list the field in `needs` always get an array."""


def is_right(rewards: Any, right_above: float) -> Any:
    """Whether answers with these rewards are right, a bool for each; whatever tells right from wrong asks here."""
    return rewards > right_above


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the tables in the state and the learned parameters of an objective.

    Attributes:
      num_prompts: number of prompts.
      num_outcomes: number of `outcome_id`s of every prompt; None if outcomes are not numbered.
      num_states: number of `observations` and `next_states`; None if observations do not determine the state.
      vocabulary_size: number of tokens.
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
      index: `[P]` int32, index of each prompt in the environment.
      tokens: `[P, L]` int32, padded on the left, so the last column always holds a prompt's last token. L = 0 if the
        environment shows nothing before the first action.
      mask: `[P, L]` bool, True on real tokens.
      question_mask: `[P, L]` bool, True on the tokens of the question itself, without the template around it; None if
        the environment does not distinguish them.
    """

    index: Array
    tokens: Array
    mask: Array
    question_mask: Array | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trajectories:
    """Result of the sampler, with all that a policy needs to score the same actions again.

    Attributes:
      prompts: prompts of the groups.
      observations: `[P, G, T]` int32, what the policy saw before each action: a state's index, or the token before.
      tokens: `[P, G, T]` int32, the actions; 0 after the end.
      token_mask: `[P, G, T]` bool, True on every action that the policy took, the stop token included. Tokens that the
        environment dictates are written and read, but count in no loss, entropy or length: the mask is not a prefix.
      legal_actions: `[P, G, T, V]` bool, or None if every action is always legal.
      behaviour_log_probs: `[P, G, T]` float32, log-probability of each action under the distribution that it was
        sampled from (legal actions only, at the sampling temperature, by the sampler's `Decoding`); 0 after the end.
      behaviour_entropy: `[P, G, T]` float32, entropy in nats of that distribution; 0 after the end.
      truncated: `[P, G]` bool, True if the horizon ended the trajectory before it stopped by itself.
      top_tokens: `[P, G, T, K]` int32, the K most likely actions of that distribution, most likely first; None if not
        requested.
      top_log_probs: `[P, G, T, K]` float32, their log-probabilities (-inf if fewer than K are legal).
      off_policy: `[P, G]` bool, True for answers that the behaviour policy did not sample from this prompt:
        refinements and replayed answers. Their `behaviour_log_probs` are still its log-probabilities. None if it
        sampled every answer.
      dictated: `[P, G, T]` bool, True on the tokens that the environment wrote; None if it never does.
      final_state: the environment's state after the last token, leaves `[P, G, ...]`; None if nobody sampled it.
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
    dictated: Array | None = None
    final_state: Any = None

    @property
    def written(self) -> Array:
        """`[P, G, T]` bool, True on all tokens of the answers, whoever wrote them."""
        return self.token_mask if self.dictated is None else self.token_mask | self.dictated


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Outcomes:
    """The environment's results for finished trajectories.

    Attributes:
      rewards: `[P, G]` float32.
      outcome_id: `[P, G]` int32; equal ids within a prompt are the same outcome, -1 is no valid outcome.
      log_backward: `[P, G]` float32, log q(trajectory | outcome) of the environment's backward policy, or None if it
        has none. q sums to one over the trajectories that end in an outcome.
      step_log_backward: `[P, G, T]` float32, the same for each action: log q(state before | state after); the sum is
        `log_backward`.
      next_states: `[P, G, T]` int32, number of the state after each action; non-terminal states are numbered as in
        `Trajectories.observations`.
      planning_mask: `[P, G, T]` bool, True on actions that choose how to continue, False on those that carry it out.
      step_rewards: `[P, G, T]` float32, what each action earns (a tool's success is earned by the call); their sum over
        an answer is `rewards`.
      reward_parts: `[P, G, M]` float32, M rewards of each answer, by several criteria or verifiers, from which the
        environment makes `rewards`, such as their mean.
      greedy_rewards: `[P]` float32, of one greedy answer to each prompt, which `GreedyAnswers` adds.
      right_above: an answer is right if its reward is above this number, 0 or more: by default if it earns anything.
        Whoever gives the rewards says it, the environment or a `Reward`. Static under jit.
    """

    rewards: Array
    outcome_id: Array
    log_backward: Array | None = None
    step_log_backward: Array | None = None
    next_states: Array | None = None
    planning_mask: Array | None = None
    step_rewards: Array | None = None
    reward_parts: Array | None = None
    greedy_rewards: Array | None = None
    right_above: float = dataclasses.field(default=0.0, metadata={"static": True})

    @property
    def right(self) -> Array:
        """`[P, G]` bool, True for right answers."""
        return is_right(self.rewards, self.right_above)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollouts:
    """The data of a batch of groups that an objective may use. None of it carries a gradient.

    The fields after `truncated` are optional: an objective lists those it needs, and a run that cannot provide them is
    refused before it starts.

    Attributes:
      prompt_index: `[P]` int32, index of each group's prompt in the environment.
      those with the names of fields of `Trajectories` and `Outcomes`: as there.
      reference_log_probs: `[P, G, T]` float32, log-probabilities of the tokens under the reference policy.
      proximal_log_probs: `[P, G, T]` float32, log-probabilities of the tokens in the trainer before the first optimiser
        step on the batch; those of the program that sampled are `behaviour_log_probs`.
      proximal_mean_log_probs: `[P, G, T]` float32, as `PolicyScores.mean_log_probs`, at the same time.
      prompt_log_probs: `[P, L]` float32, log-probability of each prompt token given those before it, under the
        behaviour policy.
      prompt_mask: `[P, L]` bool, True where `prompt_log_probs` is valid: not on padding or the first token.
      question_mask: as in `Prompts`.
      answer_features: `[P, G, H]` float32, the last layer of the reference policy after each token of an answer, the
        mean over its tokens.
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
    step_rewards: IfNeeded = None
    reward_parts: IfNeeded = None
    greedy_rewards: IfNeeded = None
    off_policy: IfNeeded = None
    reference_log_probs: IfNeeded = None
    proximal_log_probs: IfNeeded = None
    proximal_mean_log_probs: IfNeeded = None
    prompt_log_probs: IfNeeded = None
    prompt_mask: IfNeeded = None
    question_mask: IfNeeded = None
    answer_features: IfNeeded = None
    keys: IfNeeded = None
    right_above: float = dataclasses.field(default=0.0, metadata={"static": True})

    @classmethod
    @checked
    def of(cls, trajectories: Trajectories, outcomes: Outcomes, **optional: Any) -> "Rollouts":
        """Joins trajectories and outcomes; `optional` are further fields."""
        known = {field.name for field in dataclasses.fields(cls)}
        fields = {
            field.name: getattr(source, field.name)
            for source in (trajectories, outcomes)
            for field in dataclasses.fields(source)
            if field.name in known
        }
        prompts: dict[str, Any] = {
            "prompt_index": trajectories.prompts.index,
            "question_mask": trajectories.prompts.question_mask,
        }
        return cls(**(prompts | fields | optional))

    @classmethod
    def of_actions(cls, actions: Array, rewards: Array, **optional: Any) -> "Rollouts":
        """Answers `[P, G]` of one action each, which is the outcome as well; `optional` are further fields, or others.

        By default the behaviour policy was sure of its actions: log-probabilities and entropies are 0.
        """
        shape = (*actions.shape, 1)
        fields: dict[str, Any] = {
            "prompt_index": jnp.arange(len(actions), dtype=jnp.int32),
            "observations": jnp.zeros(shape, jnp.int32),
            "tokens": actions[..., None],
            "token_mask": jnp.ones(shape, bool),
            "behaviour_log_probs": jnp.zeros(shape),
            "behaviour_entropy": jnp.zeros(shape),
            "rewards": rewards,
            "outcome_id": actions,
            "truncated": jnp.zeros(actions.shape, bool),
        }
        return cls(**fields | optional)

    @property
    def right(self) -> Array:
        """`[P, G]` bool, True for right answers, by the rewards that were given, not by shaped ones."""
        return is_right(self.rewards, self.right_above)

    @property
    def answered(self) -> Array:
        """`[P, G]` bool, True for answers with tokens of the policy. Sources fill free places with empty answers."""
        return self.token_mask.any(axis=-1)

    @property
    def same_prompt(self) -> Array:
        """`[P, P]` bool, True where two groups answer the same prompt: a table over prompts takes all its groups."""
        return self.prompt_index[:, None] == self.prompt_index


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights:
    """An objective's weights for a batch of rollouts, independent of the policy being trained. No gradient.

    Attributes:
      advantages: `[P, G, T]` float32, the weight of every sampled token.
      coefficients: for each penalty of the objective its coefficient, `[P, G, T]`, with size 1 allowed for G or T.
    """

    advantages: Array
    coefficients: tuple[Array, ...]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PolicyScores:
    """Scores of the sampled tokens by the policy being trained: the only differentiable inputs of an objective.

    Attributes:
      log_probs: `[P, G, T]` float32, log-probability of each sampled token, at the sampling temperature.
      entropy: `[P, G, T]` float32, entropy in nats of the distribution of each token.
      top_log_probs: `[P, G, T, K]` float32, log-probabilities of `Trajectories.top_tokens`; None if there are none.
      prompt_log_probs: `[P, L]` float32, of the prompts' tokens, where `Rollouts.prompt_mask` is True.
      mean_log_probs: `[P, G, T]` float32, the mean log-probability of all tokens that could have stood there, each
        counted once, without gradient; None if nobody computed it.
    """

    log_probs: Array
    entropy: Array
    top_log_probs: IfNeeded = None
    prompt_log_probs: IfNeeded = None
    mean_log_probs: IfNeeded = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ObjectiveOutput:
    """A loss before division.

    Only the train step divides, after summing over devices and micro-batches, so splitting a batch changes nothing.

    Attributes:
      loss_sum: `[]` float32, the sum that is minimised.
      count: `[]` float32, divisor of `loss_sum`: sequences or tokens.
      metrics: name -> `(sum, count)` pairs, divided the same way.
    """

    loss_sum: Array
    count: Array
    metrics: dict[str, tuple[Array, Array]]


def control_token(mask: Array) -> Array:
    """`[P, 1, T]` bool, True at the token that names the mode of each answer of a group, such as "think".

    It is the first that the policy chose in any answer of the group; in the others the environment may have dictated
    it, as a forced mode. In a group without a free choice the first token that the policy chose at all is taken.
    """
    chosen = mask.any(axis=-2, keepdims=True)
    return chosen & (chosen.cumsum(axis=-1) == 1)


def select(chosen: Array, one: Array, other: Array) -> Array:
    """`one` where `chosen`, whose axes are the first of the arrays, and `other` elsewhere."""
    return jnp.where(chosen.reshape(chosen.shape + (1,) * (other.ndim - chosen.ndim)), one, other)


def as_tuples(numbers: ArrayLike) -> Any:
    """An array as tuples in tuples of floats, which can be hashed."""
    table = np.asarray(numbers, np.float64)
    return tuple(map(as_tuples, table) if table.ndim > 1 else table.tolist())


def masked_sum(values: Array, mask: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Sum of `values` where `mask` is True; values outside the mask may be anything, even NaN."""
    return jnp.where(mask, values, 0.0).sum(axis)


def masked_mean(values: Array, mask: Array, axis: int | None = None) -> Array:
    """Mean of `values`, broadcast to `mask`, where it is True, see `masked_sum`; 0 where it is False everywhere."""
    return masked_sum(values, mask, axis) / jnp.maximum(mask.sum(axis), 1)
