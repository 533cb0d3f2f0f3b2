"""The one interface of all policies.

A policy is a frozen, hashable dataclass of hyper-parameters; its parameters are a separate pytree for plain `jax.jit`,
`jax.grad` and optax. Flax NNX is used only inside this folder.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.distributed.placement import PlacementRules
from ipsrl.structures import PolicyScores, Prompts, Trajectories

Parameters = Any
Cache = Any

# More actions than these are sampled in blocks of at most BLOCK.
FEW_ACTIONS, BLOCK = 4096, 256


class Policy(Hashable, Protocol):
    """Interface that the sampler and the training step require.

    Attributes:
      optional_fields: the optional fields of `Rollouts` that this policy provides (`prompt_log_probs` and
        `answer_features`, by methods with these names).
      placement_rules: placement of its parameters on a mesh; `REPLICATED` for parameters too small to be sharded.
    """

    @property
    def optional_fields(self) -> frozenset[str]: ...

    @property
    def placement_rules(self) -> PlacementRules: ...

    def init(self, key: Array) -> Parameters:
        """Fresh parameters (float32)."""

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> Cache:
        """Reads each prompt once, and returns the cache that `step` carries for `[P, group_size]` trajectories."""

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        """Logits `[P, G, V]` (float32, before masks and temperature) of the next action, given the observation.

        Args:
          observations: `[P, G]` int32, from `Environment.observe` before action number `position`.
          position: `[]` or `[P, G]` int32, number of tokens already written. A trajectory that waits for a tool stays
            where it is and is given the same observation again: that must change nothing in its cache.
        """

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        """Log-probabilities and entropies of all sampled tokens at once, differentiable in `parameters`."""


class ReadsTexts(Policy, Protocol):
    """A policy of texts, with what `optional_fields` names besides: transformers and state-space models."""

    def prompt_log_probs(self, parameters: Parameters, prompts: Prompts, temperature: float) -> tuple[Array, Array]:
        """Log-probability of each prompt token given those before it, under the full vocabulary at the temperature.

        Returns:
          `[P, L]` float32 log-probabilities, and their `[P, L]` bool mask: False and 0 on padding and the first token.
        """

    def answer_features(self, parameters: Parameters, trajectories: Trajectories) -> Array:
        """`[P, G, H]` float32, the mean over each answer's tokens of the normalised last layer after each."""


@runtime_checkable
class Layered(Protocol):
    """A policy whose parameters under "layers" are the same arrays in each layer, numbered from 0."""

    def init_layer(self, key: Array, number: int | Array) -> Parameters:
        """`init(key)["layers"][number]`; its number may be traced, so that one compiled program makes all layers."""


def union(trained: Parameters | None, frozen: Parameters | None) -> Parameters | None:
    """The merged nested dict of two trees without common leaves; the other tree itself if one is None."""
    if trained is None or frozen is None:
        return trained
    both = dict(frozen)
    for name, value in trained.items():
        both[name] = union(value, both[name]) if name in both else value
    return both


def distribution(logits: Array, legal_actions: Array | None, temperature: float) -> Array:
    """Log-probabilities `[..., V]` of the sampling distribution: legal actions only, at the temperature.

    The sampler and every `score` use this one function, so behaviour and scored log-probabilities agree.
    """
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32)) / temperature
    if legal_actions is not None:
        logits = jnp.where(legal_actions, logits, -jnp.inf)
    return jax.nn.log_softmax(logits)


def sample(key: Array, log_probs: Array) -> Array:
    """Actions `[...]`, int32, one from each distribution `[..., V]` given by log-probabilities.

    Many actions are sampled in two stages: a block of neighbouring actions, then an action of the block. A single stage
    makes a random number for every action, which takes longer than the logits of a small language model.
    """
    actions = log_probs.shape[-1]
    size = math.gcd(actions, BLOCK)
    if actions < FEW_ACTIONS or size == 1:
        return jax.random.categorical(key, log_probs)
    blocks = log_probs.reshape(*log_probs.shape[:-1], actions // size, size)
    for_block, for_action = jax.random.split(key)
    block = jax.random.categorical(for_block, jax.nn.logsumexp(blocks, axis=-1))
    own = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]
    return block * size + jax.random.categorical(for_action, own)


def entropy(log_probs: Array) -> Array:
    """Entropy `[...]` in nats of distributions `[..., V]` given by log-probabilities, which may be -inf."""
    finite = jnp.where(jnp.isfinite(log_probs), log_probs, 0.0)
    return -jnp.sum(jnp.exp(log_probs) * finite, axis=-1)


def mean_log_probs(log_probs: Array) -> Array:
    """Mean `[...]` of log-probabilities `[..., V]` over the possible actions, those above -inf; without gradient."""
    # Without a gradient nothing of the size of the logits is kept or computed for it in the backward pass.
    log_probs = jax.lax.stop_gradient(log_probs)
    possible = jnp.isfinite(log_probs)
    return jnp.where(possible, log_probs, 0.0).sum(axis=-1) / possible.sum(axis=-1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Actions:
    """Actions to be scored, each by the logits that precede it; the attributes are those of `Trajectories`."""

    tokens: Array
    token_mask: Array
    legal_actions: Array | None = None
    top_tokens: Array | None = None

    @classmethod
    def of(cls, trajectories: Trajectories) -> "Actions":
        """The actions of sampled trajectories."""
        return cls(**{field.name: getattr(trajectories, field.name) for field in dataclasses.fields(cls)})


def score_logits(logits: Array, actions: Actions, temperature: float) -> PolicyScores:
    """`PolicyScores` of actions from the logits `[P, G, T, V]` that precede them.

    Padding positions get log-probability and entropy 0 and no gradient.
    """
    mask = actions.token_mask
    # Padding may have no legal action: all -inf would give NaN gradients even behind a mask.
    legal = actions.legal_actions
    if legal is not None:
        legal = legal | ~mask[..., None]
    log_probs = distribution(logits, legal, temperature)
    # The gradient of an index would be scattered into an array of zeros as large as the logits.
    is_chosen = jax.lax.broadcasted_iota(jnp.int32, log_probs.shape, log_probs.ndim - 1) == actions.tokens[..., None]
    chosen = jnp.where(is_chosen, log_probs, 0.0).sum(axis=-1)
    top_log_probs = None
    if actions.top_tokens is not None:
        top_log_probs = jnp.take_along_axis(log_probs, actions.top_tokens, axis=-1)
        top_log_probs = jnp.where(mask[..., None], top_log_probs, 0.0)
    return PolicyScores(
        log_probs=jnp.where(mask, chosen, 0.0),
        entropy=jnp.where(mask, entropy(log_probs), 0.0),
        top_log_probs=top_log_probs,
        mean_log_probs=jnp.where(mask, mean_log_probs(log_probs), 0.0),
    )


def answer_mean(hidden: Array, written: Array) -> Array:
    """`[P, G, H]` float32, the mean of `hidden` `[P, G, T, H]` over the tokens `[P, G, T]` that are written; else 0."""
    total = jnp.where(written[..., None], hidden, 0.0).sum(axis=2, dtype=jnp.float32)
    return total / jnp.maximum(written.sum(axis=2), 1)[..., None]


def prompt_log_probs(prompts: Prompts, score: Callable[[Actions], PolicyScores]) -> tuple[Array, Array]:
    """`ReadsTexts.prompt_log_probs` by the scores of actions `[P, 1, L - 1]` after all but the last token."""
    mask = prompts.mask[:, 1:] & prompts.mask[:, :-1]
    following = score(Actions(prompts.tokens[:, None, 1:], mask[:, None])).log_probs[:, 0]
    first_column = ((0, 0), (prompts.tokens.shape[1] - mask.shape[1], 0))
    return jnp.pad(following, first_column), jnp.pad(mask, first_column)


def score_hidden(
    logits_of: Callable[[Array], Array], hidden: Array, actions: Actions, temperature: float, at_once: int
) -> PolicyScores:
    """`score_logits` of `logits_of(hidden)`, with at most `[P, G, at_once, V]` logits in memory.

    The logits of a language model are by far its largest array (a float32 row of 152,000 takes 0.6 MB). They are
    computed for some token columns at a time, and once more in the backward pass: a product with the unembedding.

    Args:
      logits_of: hidden states `[P, G, S, H]` -> logits `[P, G, S, V]`.
      hidden: `[P, G, T, H]`.
      at_once: token columns in one block; with T or more there is one block, whose logits are stored.
    """
    length = hidden.shape[2]
    if at_once >= length:
        return score_logits(logits_of(hidden), actions, temperature)
    blocks = -(-length // at_once)

    def split(leaf):
        padding = [(0, 0)] * leaf.ndim
        padding[2] = (0, blocks * at_once - length)
        shape = (*leaf.shape[:2], blocks, at_once, *leaf.shape[3:])
        return jnp.moveaxis(jnp.pad(leaf, padding).reshape(shape), 2, 0)

    def join(leaf):
        return jnp.moveaxis(leaf, 0, 2).reshape(*leaf.shape[1:3], -1, *leaf.shape[4:])[:, :, :length]

    @jax.checkpoint
    def score_block(block):
        hidden, actions = block
        return score_logits(logits_of(hidden), actions, temperature)

    return jax.tree.map(join, jax.lax.map(score_block, jax.tree.map(split, (hidden, actions))))
