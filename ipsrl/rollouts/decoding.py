"""Decoding rules of the sampler: by which distribution the next token is sampled, given the policy's logits.

The behaviour log-probabilities and entropies of a trajectory are those of that distribution q. A rule that leaves out
or penalises tokens is for evaluation: a token that it leaves out has no probability to divide by, so objectives that
read behaviour probabilities are refused before the first step (`Trainer.check`). Those that do not are accepted, but a
policy gradient is then biased, because it scores samples of q by the policy p:

    E_q[R grad log p] - grad E_q[R] = E_q[R (grad log p - grad log q)]

which for top-k and one token is E_q[R] grad log p(kept): a push towards what is kept whatever the reward, worst without
a baseline (`reinforce`). A squared residual, as of `vargrad`, is 0 at the same policy whatever is sampled.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking import specifications
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, at_least, below_one, non_negative, positive, share
from ipsrl.policies.policy import distribution

Kind = TypeVar("Kind")


@dataclasses.dataclass(frozen=True)
class TokenPenalty(Checked):
    """The thought switching penalty, TIP (arXiv 2501.18585): lowers the logits of `tokens` early in each thought.

        z_v - strength  for v in tokens while t < start + window,   z_v otherwise

    t is the position of the next token in the answer, and `start` that of the first token of the current thought: 0,
    and then that of the last of `starts` which the policy sampled (our reading: a thought begins with the token that
    switches to it). Tokens that the environment dictates are counted, but begin no thought.

    With a strength or a window of 0 samples are those without a penalty. Where only `tokens` are legal, nothing
    changes. Both numbers are traced: rules that differ in nothing else share one compiled sampler.

    In texts it is called `tip`.

    Attributes:
      tokens: at least one; more than once is the same as once.
      strength: alpha of the paper, in units of logits before the temperature.
      window: beta of the paper, in tokens; None for a penalty everywhere.
      starts: the tokens that open a thought; None for `tokens`. With others the penalty is the placebo of one on
        `starts`: other tokens in the same windows. Empty: an answer is one thought.

    Raises:
      ValueError: there are no tokens, or a number is out of its range.
    """

    tokens: tuple[int, ...] = at_least(0)
    strength: float = non_negative(3.0)
    window: float | None = at_least(0, 600.0)
    starts: tuple[int, ...] | None = at_least(0, None)

    NAMED: ClassVar[dict[str, Callable[..., "TokenPenalty"]]] = {}

    def __post_init__(self):
        super().__post_init__()
        if not self.tokens:
            raise ValueError("tokens is empty, a penalty must be on one token at least")
        # Numbers of other types would each be traced in a program of their own.
        object.__setattr__(self, "strength", float(self.strength))
        object.__setattr__(self, "window", None if self.window is None else float(self.window))

    @property
    def numbers(self) -> tuple[float, float]:
        """Strength and window, of which the latter may be infinite."""
        return self.strength, math.inf if self.window is None else self.window

    def check(self, vocabulary_size: int) -> None:
        """Raises ValueError if a token is outside the vocabulary."""
        for what, tokens in {"the penalty is on": self.tokens, "a thought starts with": self.starts or ()}.items():
            if max(tokens, default=0) >= vocabulary_size:
                raise ValueError(f"{what} token {max(tokens)}, but tokens are 0 to {vocabulary_size - 1}")

    def opens(self, tokens: Array) -> Array:
        """Whether these tokens `[...]` open a thought, bool."""
        return jnp.isin(tokens, np.asarray(self.tokens if self.starts is None else self.starts, np.int32))

    def __call__(self, logits: Array, legal_actions: Array | None, of_thought: Array) -> Array:
        """The logits `[P, G, V]` with the penalty.

        Args:
          legal_actions: `[P, G, V]` bool; None if all are legal.
          of_thought: `[]` or `[P, G]`, number of tokens of the current thought before the next one: t - start.
        """
        on = jnp.isin(jnp.arange(logits.shape[-1]), np.asarray(self.tokens))
        without = ~on if legal_actions is None else legal_actions & ~on
        strength, window = self.numbers
        # The same number off every legal logit would change nothing but their rounding.
        now = (of_thought < window) & without.any(axis=-1)
        return jnp.where(now[..., None] & on, logits - strength, logits)


@dataclasses.dataclass(frozen=True)
class Decoding(Checked):
    """The distribution by which the sampler chooses the next token: rules applied one after the other.

    The order is that of `transformers`: illegal tokens are masked and the penalty subtracted from the logits, which the
    temperature divides; then `top_k`, `top_p` and `min_p` each leave out some of the tokens that are left, and the rest
    is normalised. A token with the probability of the last one that is kept is kept, too, so that the order of tokens
    never counts. The likeliest legal token is always kept.

    Attributes:
      temperature: of the distribution.
      top_k: keeps the k likeliest tokens; all, if there are fewer. None for all.
      top_p: of these, the likeliest whose probabilities add up to p (arXiv 1904.09751), at least one.
      min_p: of these, those with at least p times the probability of the likeliest (arXiv 2407.01082).
      penalty: on some tokens, early in each thought; None for none.

    Raises:
      ValueError: a number is out of its range.
    """

    temperature: float = positive(1.0)
    top_k: int | None = positive(None)
    top_p: float = share(1.0)
    min_p: float = below_one(0.0)
    penalty: TokenPenalty | None = None

    @classmethod
    @checked
    def read(cls, text: str) -> Self | None:
        """The rules in a text such as "temperature=0.7, penalty=tip((12, 31), window=600)"; None in an empty one.

        Raises:
          ValueError: a rule is unknown, or as the constructor.
        """
        return specifications.build(f"decoding({text})", {"decoding": cls}, "rule") if text.strip() else None

    @property
    def ordinary(self) -> bool:
        """Whether there is no rule but the temperature; a penalty counts, also one without strength."""
        return not self._leaves_out and self.penalty is None

    @property
    def _leaves_out(self) -> bool:
        return self.top_k is not None or self.top_p < 1 or self.min_p > 0

    def check(self, vocabulary_size: int) -> None:
        """Raises ValueError if the penalty is on a token outside the vocabulary."""
        if self.penalty is not None:
            self.penalty.check(vocabulary_size)

    def __call__(self, logits: Array, legal_actions: Array | None = None, of_thought: Array | None = None) -> Array:
        """Log-probabilities `[P, G, V]` of the next token; -inf for those that are illegal or left out.

        Args:
          logits: `[P, G, V]`, of the policy.
          legal_actions: `[P, G, V]` bool, at least one of each V; None if all are legal.
          of_thought: as in `TokenPenalty`; needed only with a penalty.
        """
        if self.penalty is not None:
            assert of_thought is not None, "a penalty needs the length of the thought"
            logits = self.penalty(logits, legal_actions, of_thought)
        log_probs = distribution(logits, legal_actions, self.temperature)
        # Where nothing is left out the program is that without rules, to the last bit.
        return distribution(logits, self._kept(jnp.exp(log_probs)), self.temperature) if self._leaves_out else log_probs

    def _kept(self, probs: Array) -> Array:
        """`[..., V]` bool, the tokens that are kept of a distribution."""
        if self.top_k is not None and self.top_k < probs.shape[-1]:
            least = jax.lax.top_k(probs, self.top_k)[0][..., -1:]
            probs = jnp.where(probs >= least, probs, 0.0)
        if self.top_p < 1:
            descending = -jnp.sort(-probs)
            # Those before a token add up to less than p: with it, p is reached.
            needed = jnp.cumsum(descending, axis=-1) - descending < self.top_p * descending.sum(axis=-1, keepdims=True)
            least = jnp.min(jnp.where(needed, descending, jnp.inf), axis=-1, keepdims=True)
            probs = jnp.where(probs >= least, probs, 0.0)
        return (probs > 0) & (probs >= self.min_p * probs.max(axis=-1, keepdims=True))


TokenPenalty.NAMED["tip"] = TokenPenalty
ORDINARY = Decoding()
STATIC = ("temperature", "top_k", "top_p", "min_p")


def _made(kind: type[Kind], **fields: Any) -> Kind:
    """A dataclass that is not checked again: a number that is traced has no value to check."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


jax.tree_util.register_pytree_node(
    TokenPenalty,
    lambda penalty: (penalty.numbers, (penalty.tokens, penalty.starts)),
    lambda static, numbers: _made(
        TokenPenalty, tokens=static[0], strength=numbers[0], window=numbers[1], starts=static[1]
    ),
)
jax.tree_util.register_pytree_node(
    Decoding,
    lambda decoding: ((decoding.penalty,), tuple(getattr(decoding, name) for name in STATIC)),
    lambda static, traced: _made(Decoding, **dict(zip(STATIC, static, strict=True)), penalty=traced[0]),
)
