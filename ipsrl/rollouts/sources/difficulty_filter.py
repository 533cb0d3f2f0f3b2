"""Difficulty filter: skips prompts that the policy always or never solves, before anything is sampled."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.checking.fields import below_one, between, non_negative, positive, probability
from ipsrl.distributed.mesh import replicated
from ipsrl.environments.environment import Environment
from ipsrl.rewards import Reward
from ipsrl.rollouts.prompts import shuffled_prompts
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State, Wrapper, with_sampling_metrics
from ipsrl.structures import Metrics, Outcomes, Prompts, Trajectories, masked_mean

# Of the scorer's layers: its matrices have as many columns, and Adam three numbers for each of theirs.
WIDEST = 2**14


@dataclasses.dataclass(frozen=True)
class DifficultyFilter(Wrapper):
    """Trains on prompts whose predicted mean reward is neither low nor high (DEPO, arXiv 2602.06375).

    A scorer learns online to predict the mean reward of a prompt's group, from the sampled groups:

        L = BCE(s, mean reward) + distillation BCE(d, t) + ranking mean over pairs of max(0, margin - (s_i - s_j)),
        t = clip(exp(mean over answers of their mean token log-probability), 1e-4, 1 - 1e-4),
        pairs (i, j) with mean reward_i > mean reward_j + gap,    s, d the logits of its two heads

    Prompts of a step's shuffled stream are scored, and those with lowest <= sigmoid(s) <= highest are kept until the
    batch is full. A skipped prompt gives no feedback, so an early wrong prediction would be final; therefore a share
    `exploration` of the rejected prompts is kept anyway.

    Our reading: the scorer reads a prompt's bag of tokens instead of text through a pretrained encoder, so no smaller
    learning rate for an encoder is needed; prompts without tokens have one learned row each. Target rewards are clipped
    to [0, 1]; the paper has correctness. If `scan` batches of the stream do not fill the batch, the free slots take
    rejected prompts in stream order; no prompt is repeated while others are left. `exploration` and `scan` are ours,
    `weight_decay` is not stated in the paper; all other defaults are those of the authors' code.

    Attributes:
      lowest, highest: the window of the predicted mean reward.
      warm_up: W, number of first steps in which every prompt is kept.
      exploration: probability of keeping a rejected prompt.
      scan: maximum number of batches of prompts scored to fill one batch.
      width, last_width: units of the scorer's trunk, and of the layer below its heads.
      dropout: share of units dropped while the scorer learns.
      distillation, ranking: weights of these terms.
      gap, margin: kappa and m of the ranking term.
      learning_rate, weight_decay, max_gradient_norm: of the scorer's AdamW.

    Metrics: `prompts_scanned`; `prompt_survival`, the share of these that passed; `difficulty_error`, the mean
    |predicted - mean reward| before the scorer learns.

    Raises:
      ValueError: a number is out of its range.
    """

    lowest: float = 0.15
    highest: float = 0.85
    warm_up: int = non_negative(100, called="warm_up of the difficulty filter")
    exploration: float = probability(0.05)
    scan: int = positive(16, called="scan of the difficulty filter")
    width: int = between(1, WIDEST, 1024, called="width of the difficulty filter")
    last_width: int = between(1, WIDEST, 512, called="last_width of the difficulty filter")
    dropout: float = below_one(0.1)
    distillation: float = non_negative(0.5, called="distillation of the difficulty filter")
    ranking: float = non_negative(3.0, called="ranking of the difficulty filter")
    gap: float = non_negative(0.05, called="gap of the difficulty filter")
    margin: float = non_negative(0.5, called="margin of the difficulty filter")
    learning_rate: float = positive(2e-4, called="learning_rate of the difficulty filter")
    weight_decay: float = non_negative(0.01, called="weight_decay of the difficulty filter")
    max_gradient_norm: float = positive(1.0, called="max_gradient_norm of the difficulty filter")

    asks = "prompts"
    chooses_prompts = True

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.lowest <= self.highest <= 1.0:
            raise ValueError(
                f"the window of the difficulty filter is {self.lowest} to {self.highest}: its ends must lie in 0 to 1, "
                "the lowest first"
            )

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        own = DifficultyState.create(self, self.sampled.environment, stream(seed, 0, "difficulty"))
        return replicated(own), self.inner.init(actors, seed, reward)

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        own, inner = state
        environment, size = self.sampled.environment, self.sampled.prompts_per_step
        prompts, scanned, passed = choose_by_difficulty(
            self, environment, own, request.seed, request.step, request.start, size
        )
        inner, groups, metrics = self.inner(inner, actors, dataclasses.replace(request, prompts=prompts))
        own, error = learn_difficulty(self, environment, own, *groups, request.key("difficulty"))
        metrics = with_sampling_metrics(groups, metrics) | {
            "difficulty_error": (error, 1),
            "prompts_scanned": (scanned, 0),
            "prompt_survival": (passed, scanned),
        }
        return (own, inner), groups, metrics

    @property
    def widths(self) -> tuple[int, int]:
        """Widths of the scorer's layers."""
        return self.width, self.last_width

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """The scorer's optimiser."""
        return optax.chain(
            optax.clip_by_global_norm(self.max_gradient_norm),
            optax.adamw(self.learning_rate, weight_decay=self.weight_decay),
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DifficultyState:
    """State of the scorer: its parameters, and the state of its AdamW."""

    parameters: Any
    optimizer_state: Any

    @classmethod
    def create(cls, filter_settings: DifficultyFilter, environment: Environment, key: Array) -> "DifficultyState":
        """The state before the first step."""
        # The scorer is a Flax module: runs without a difficulty filter do not import Flax.
        from ipsrl.rollouts.sources.difficulty_scorer import init_scorer

        parameters = init_scorer(_rows(environment), filter_settings.widths, key)
        return cls(parameters, filter_settings.optimizer.init(parameters))


@functools.partial(jax.jit, static_argnames=("filter_settings", "environment", "prompts_per_step"))
def choose_by_difficulty(
    filter_settings: DifficultyFilter,
    environment: Environment,
    state: DifficultyState,
    seed: Array,
    step: Array,
    start: Array,
    prompts_per_step: int,
) -> tuple[Prompts, Array, Array]:
    """The first prompts of a step's stream that pass the filter, read from position `start`.

    Returns:
      P prompts, those that passed first; the number of prompts scanned to find them; the number that passed.
    """
    from ipsrl.rollouts.sources.difficulty_scorer import score_prompts

    stream_of_prompts = shuffled_prompts(environment, seed, step)
    key = stream(seed, step, "exploration")

    places = jnp.arange(prompts_per_step)

    def put(kept, index, where, before):
        # Keeps the first P; `before` counts the prompts put earlier.
        return kept.at[jnp.where(where, before, prompts_per_step)].set(index, mode="drop")

    def scan_batch(carry):
        batch, chosen, rejected, passed, scanned = carry
        place = start + batch * prompts_per_step
        index = stream_of_prompts[(place + places) % environment.num_prompts]
        scores, _ = score_prompts(
            _rows(environment), filter_settings.widths, state.parameters, environment.prompts(index)
        )
        explored = jax.random.uniform(jax.random.fold_in(key, place), index.shape) < filter_settings.exploration
        passes = in_window(filter_settings, scores) | explored | (step < filter_settings.warm_up)
        before = passed + jnp.cumsum(passes) - passes
        needed = before < prompts_per_step
        chosen = put(chosen, index, passes & needed, before)
        rejected = put(rejected, index, ~passes, batch * prompts_per_step + places - before)
        return batch + 1, chosen, rejected, passed + (passes & needed).sum(), scanned + needed.sum()

    def unfilled(carry):
        batch, _, _, passed, _ = carry
        return (passed < prompts_per_step) & (batch < filter_settings.scan)

    none = jnp.full(prompts_per_step, -1)
    begin = (jnp.int32(0), none, none, jnp.int32(0), jnp.int32(0))
    _, chosen, rejected, passed, scanned = jax.lax.while_loop(unfilled, scan_batch, begin)
    # When the stream wraps around, a prompt rejected earlier may have passed later.
    is_chosen = (rejected[:, None] == chosen).any(axis=-1)
    others = rejected[jnp.argsort(is_chosen, stable=True)]
    chosen = jnp.where(places < passed, chosen, others[places - passed])
    return environment.prompts(chosen), scanned, passed


def in_window(filter_settings: DifficultyFilter, scores: Array) -> Array:
    """Whether the predicted mean rewards (sigmoid of the scores) lie in the window."""
    predicted = jax.nn.sigmoid(scores)
    return (filter_settings.lowest <= predicted) & (predicted <= filter_settings.highest)


@functools.partial(jax.jit, static_argnames=("filter_settings", "environment"))
def learn_difficulty(
    filter_settings: DifficultyFilter,
    environment: Environment,
    state: DifficultyState,
    trajectories: Trajectories,
    outcomes: Outcomes,
    key: Array,
) -> tuple[DifficultyState, Array]:
    """One step of the scorer on the groups of a round.

    Returns:
      the new state, and the mean |predicted - mean reward| before the step.
    """
    from ipsrl.rollouts.sources.difficulty_scorer import score_prompts

    rows = _rows(environment)
    rewards, likelihood = difficulty_targets(trajectories, outcomes)

    def loss(parameters):
        scores = score_prompts(
            rows, filter_settings.widths, parameters, trajectories.prompts, filter_settings.dropout, key
        )
        return scorer_loss(filter_settings, *scores, rewards, likelihood)

    predicted, _ = score_prompts(rows, filter_settings.widths, state.parameters, trajectories.prompts)
    error = jnp.abs(jax.nn.sigmoid(predicted) - rewards).mean()
    gradient = jax.grad(loss)(state.parameters)
    updates, optimizer_state = filter_settings.optimizer.update(gradient, state.optimizer_state, state.parameters)
    return DifficultyState(optax.apply_updates(state.parameters, updates), optimizer_state), error


def difficulty_targets(trajectories: Trajectories, outcomes: Outcomes) -> tuple[Array, Array]:
    """`[P]` mean of each group's rewards clipped to [0, 1], and t of `DifficultyFilter`."""
    mask = trajectories.token_mask
    answer_means = masked_mean(trajectories.behaviour_log_probs, mask, axis=-1)
    likelihood = jnp.clip(jnp.exp(answer_means.mean(axis=-1)), 1e-4, 1 - 1e-4)
    return jnp.clip(outcomes.rewards, 0.0, 1.0).mean(axis=-1), likelihood


def scorer_loss(
    filter_settings: DifficultyFilter, scores: Array, distillation_scores: Array, rewards: Array, likelihood: Array
) -> Array:
    """The scorer's loss from its logits and targets, all `[P]`; see `DifficultyFilter`."""
    accuracy = optax.sigmoid_binary_cross_entropy(scores, rewards).mean()
    distilled = optax.sigmoid_binary_cross_entropy(distillation_scores, likelihood).mean()
    return (
        accuracy
        + filter_settings.distillation * distilled
        + filter_settings.ranking * ranking_loss(filter_settings, scores, rewards)
    )


def ranking_loss(filter_settings: DifficultyFilter, scores: Array, rewards: Array) -> Array:
    """Mean over pairs with reward_i > reward_j + gap of max(0, margin - (score_i - score_j)); 0 without such pairs."""
    pairs = rewards[:, None] > rewards + filter_settings.gap
    hinge = jnp.maximum(0.0, filter_settings.margin - (scores[:, None] - scores))
    return masked_mean(hinge, pairs)


def _rows(environment: Environment) -> int:
    return environment.vocabulary_size if environment.prompt_length else environment.num_prompts
