"""The arrays that flow from the sampler to the loss.

All arrays of a group are `[prompt, group]` = `[P, G]` or `[prompt, group, token]` = `[P, G, T]`, from the sampler to
the loss, never flattened. Only the prompt axis is ever sharded, so the statistics of a group need no communication.

    Prompts --sampler--> Trajectories --verify--> Outcomes;   Trajectories + Outcomes = Rollouts --objective--> loss

`Answers` are what trajectories and rollouts share; rollouts are answers, their outcomes, and what an objective needs
beside.
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
Metrics = dict[str, tuple[Array | float, Array | float]]
"""Name -> (sum, count); a count of 0 marks a number that is not a mean."""
Scalars = dict[str, Array]
"""Name -> value of a metric, see `means`."""


def means(metrics: Metrics) -> Scalars:
    """Each sum divided by its count; the sum itself where the count is 0."""
    return {name: total / jnp.maximum(count, 1) for name, (total, count) in metrics.items()}


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


def array(axes: str) -> Any:
    """A field of a batch of groups, an array with these axes: P prompt, G group, T token, V token of the vocabulary."""
    return dataclasses.field(metadata={"axes": axes})


def optional(axes: str, without: str = "") -> Any:
    """A field that only some objectives need: an array with these axes, or None if nobody has computed it.

    Args:
      axes: as in `array`, and K most likely tokens, L tokens of a prompt, M rewards, H features.
      without: what "the objective needs ..." goes on to say where the field is missing: its name or meaning, and what
        to do. By default its name and those that there are.
    """
    return dataclasses.field(default=None, metadata={"axes": axes, "without": without})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """The sampled actions of groups, as objectives and policies read them. Base of `Trajectories` and `Rollouts`."""

    observations: Array = array("PGT")
    """int32, what the policy saw before each action: a state's index, or the token before."""
    tokens: Array = array("PGT")
    """int32, the actions; 0 after the end."""
    token_mask: Array = array("PGT")
    """bool, True on every action that the policy took, the stop token included. Tokens that the environment dictates
    are written and read, but count in no loss, entropy or length: the mask is not a prefix."""
    behaviour_log_probs: Array = array("PGT")
    """float32, log-probability of each action under the distribution that it was sampled from (legal actions only, at
    the sampling temperature, by the sampler's `Decoding`); 0 after the end."""
    behaviour_entropy: Array = array("PGT")
    """float32, entropy in nats of that distribution; 0 after the end."""
    truncated: Array = array("PG")
    """bool, True if the horizon ended the trajectory before it stopped by itself."""
    top_tokens: IfNeeded = optional("PGTK")
    """int32, the K most likely actions of that distribution, most likely first."""
    top_log_probs: IfNeeded = optional(
        "PGTK",
        without="the policy's most likely tokens, which answers that it did not sample do not have: sample off_policy "
        "answers from the policy itself, and replay none",
    )
    """float32, the log-probabilities of `top_tokens` (-inf if fewer than K actions are legal)."""
    off_policy: IfNeeded = optional(
        "PG",
        without="off-policy answers in its groups: give TrainSettings(wrappers=(OffPolicyAnswers(8),)), the flag "
        '--filters="off_policy(answers=8)", or a source that is wrapped in OffPolicyAnswers; what mode_replay replays '
        "comes from ReplayedModes(16), --filters=replayed_modes",
    )
    """bool, True for answers that the behaviour policy did not sample from this prompt: refinements and replayed
    answers. Their `behaviour_log_probs` are still its log-probabilities. None if it sampled every answer."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Trajectories(Answers):
    """Result of the sampler: answers, with all that a policy needs to score the same actions again."""

    prompts: Prompts
    """The prompts of the groups."""
    legal_actions: Array | None = optional("PGTV")
    """bool; None if every action is always legal."""
    dictated: Array | None = optional("PGT")
    """bool, True on the tokens that the environment wrote; None if it never does."""
    final_state: Any = None
    """The environment's state after the last token, leaves `[P, G, ...]`; None if nobody sampled it."""

    @property
    def written(self) -> Array:
        """`[P, G, T]` bool, True on all tokens of the answers, whoever wrote them."""
        return self.token_mask if self.dictated is None else self.token_mask | self.dictated


WITHOUT_BACKWARD = (
    "log_backward, of a backward policy, which has no probability for the tokens that an environment dictates: take an "
    "environment with one, such as hypergrid or tree, or an objective without"
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Outcomes:
    """The environment's results for finished trajectories."""

    rewards: Array = array("PG")
    """float32."""
    outcome_id: Array = array("PG")
    """int32; equal ids within a prompt are the same outcome, -1 is no valid outcome."""
    log_backward: IfNeeded = optional("PG", WITHOUT_BACKWARD)
    """float32, log q(trajectory | outcome) of the environment's backward policy, if it has one. q sums to one over the
    trajectories that end in an outcome."""
    step_log_backward: IfNeeded = optional("PGT", WITHOUT_BACKWARD)
    """float32, the same for each action: log q(state before | state after); the sum is `log_backward`."""
    next_states: IfNeeded = optional("PGT", WITHOUT_BACKWARD)
    """int32, number of the state after each action; non-terminal states are numbered as in `observations`."""
    planning_mask: IfNeeded = optional("PGT")
    """bool, True on actions that choose how to continue, False on those that carry it out."""
    step_rewards: IfNeeded = optional("PGT")
    """float32, what each action earns (a tool's success is earned by the call); their sum over an answer is
    `rewards`."""
    reward_parts: IfNeeded = optional(
        "PGM",
        without="reward_parts, several rewards of each answer: take an environment that gives them, as vector_bandit, "
        "and no reward in their place",
    )
    """float32, M rewards of each answer, by several criteria or verifiers, from which the environment makes `rewards`,
    such as their mean."""
    greedy_rewards: IfNeeded = optional(
        "P",
        without="the rewards of greedy answers: give TrainSettings(wrappers=(GreedyAnswers(),)), the flag "
        '--filters="greedy_answers", or a source that is wrapped in GreedyAnswers',
    )
    """float32, of one greedy answer to each prompt, which `GreedyAnswers` adds."""
    right_above: float = dataclasses.field(default=0.0, metadata={"static": True})
    """An answer is right if its reward is above this number, 0 or more: by default if it earns anything. Whoever gives
    the rewards says it, the environment or a `Reward`. Static under jit."""

    @property
    def right(self) -> Array:
        """`[P, G]` bool, True for right answers, by the rewards that were given, not by shaped ones."""
        return is_right(self.rewards, self.right_above)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollouts(Answers, Outcomes):
    """The data of a batch of groups that an objective may use. None of it carries a gradient.

    An objective lists the optional fields that it needs, and a run that cannot provide them is refused before it
    starts. Each field is declared once: with its axes, its meaning, and what a refusal says where it is missing.
    """

    prompt_index: Array = array("P")
    """int32, index of each group's prompt in the environment."""
    reference_log_probs: IfNeeded = optional("PGT")
    """float32, log-probabilities of the tokens under the reference policy."""
    proximal_log_probs: IfNeeded = optional("PGT")
    """float32, log-probabilities of the tokens in the trainer before the first optimiser step on the batch; those of
    the program that sampled are `behaviour_log_probs`."""
    proximal_mean_log_probs: IfNeeded = optional("PGT")
    """float32, as `PolicyScores.mean_log_probs`, at the same time."""
    prompt_log_probs: IfNeeded = optional(
        "PL",
        without="prompt_log_probs, how likely the policy finds the prompt's tokens: take a transformer or a "
        "state-space model and a task with prompts, or right answers in their place, as progrpo(reference=correct)",
    )
    """float32, log-probability of each prompt token given those before it, under the behaviour policy."""
    prompt_mask: IfNeeded = optional("PL")
    """bool, True where `prompt_log_probs` is valid: not on padding or the first token."""
    question_mask: IfNeeded = optional("PL")
    """bool, as in `Prompts`."""
    answer_features: IfNeeded = optional(
        "PGH",
        without="answer_features, the hidden states of a transformer or a state-space model: take one of these "
        "policies, or outcomes in their place, as rep_exp(features=outcome)",
    )
    """float32, the last layer of the reference policy after each token of an answer, the mean over its tokens."""
    keys: IfNeeded = optional("P")
    """PRNG keys, one for each group, for objectives that sample at random."""

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
    def answered(self) -> Array:
        """`[P, G]` bool, True for answers with tokens of the policy. Sources fill free places with empty answers."""
        return self.token_mask.any(axis=-1)

    @property
    def same_prompt(self) -> Array:
        """`[P, P]` bool, True where two groups answer the same prompt: a table over prompts takes all its groups."""
        return self.prompt_index[:, None] == self.prompt_index


ROLLOUT_AXES = {
    field.name: field.metadata["axes"] for field in dataclasses.fields(Rollouts) if "axes" in field.metadata
}
"""Name -> axes, of all arrays of `Rollouts`."""
OPTIONAL_FIELDS = {
    field.name: field.metadata["without"] for field in dataclasses.fields(Rollouts) if "without" in field.metadata
}
"""Name of an optional field of `Rollouts` -> what a refusal says where it is missing, see `optional`."""


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
    metrics: Metrics


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
