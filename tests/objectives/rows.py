"""Declarations that every row of the catalog makes about itself; the generated tests read them.

The rows of a module `ipsrl/objectives/catalog/X.py` are declared in `rows_X.py` beside this file, as a dict `ROWS` from
the text of an objective (its name, or its name with arguments) to a `Row`; `declared.py` joins them. In their formulas
n are counts, p is the distribution, r the rewards. A row of the catalog that is missing there fails.

The update of a softmax bandit's logits by a group, on-policy, is phat_i A_i - p_i sum_k phat_k A_k for almost every
objective, so its `advantages` says only what its advantages A of the outcomes are, in NumPy's float64, independently of
the code it judges.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

ONE_OUTCOME = ("one outcome", "one outcome but for rounding")
SILENCE = {
    "never": (),
    "no reward": ("no reward",),
    "only one outcome": ONE_OUTCOME,
    "one outcome": ("no reward", *ONE_OUTCOME),
    "equal rewards": ("no reward", *ONE_OUTCOME, "equal rewards", "equal but for rounding"),
}
"""Which groups get nothing: none; all rewards zero; equal rewards and one outcome; either of the two; equal rewards.

Rewards that differ by rounding alone are equal.
"""

Distribution = np.ndarray


@dataclasses.dataclass(frozen=True)
class Row:
    """The properties that the mathematics of an objective gives it.

    Attributes:
      shift: adding a constant to the rewards leaves the advantages as they are.
      degree: rewards * c, c > 0, multiply the advantages by c ** degree; None where they follow no power law.
      silent: the groups whose advantages are all exactly zero, see `SILENCE`.
      advantages: (counts `[K]` of a group's outcomes, distribution `[K]`, rewards `[K]`) -> advantages `[K]` (anything
        where the count is 0); or a sentence that says why no formula can be given here, and where the row is tested
        instead.
      more: (distribution, rewards) -> `[K]`, what the update of the logits has besides, such as the gradient of an
        entropy.
      reads_width: T, the longest possible answer, is among its hyper-parameters, so that wider arrays change it.
      reads_dictated: dictated tokens mean something to it: they count in a discount.
      random: it samples at random, so that the order of a group, and padding, change what it draws.
      tokens: (log importance ratio, advantages, mask, all `[P, G, T]`) -> `[P, G, T]`, the values of tokens whose sum
        is minus the loss off-policy; see `token_values.py`. Every row of the catalog declares them.
      lengths: (rewards `[P, G]`, mask `[P, G, T]`) -> advantages `[P, G]` or `[P, G, T]`, where these depend on the
        lengths of the answers; or a sentence that says what else they look at there, and where that is tested.
    """

    shift: bool
    degree: int | None
    silent: str
    advantages: Callable[[np.ndarray, Distribution, np.ndarray], np.ndarray] | str
    more: Callable[[Distribution, np.ndarray], np.ndarray] | None = None
    reads_width: bool = False
    reads_dictated: bool = False
    random: bool = False
    tokens: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray | tuple[np.ndarray, np.ndarray]] | None = None
    lengths: Callable[[np.ndarray, np.ndarray], np.ndarray] | str | None = None


# Small parts of formulas.


def centred(counts, values):
    return values - (counts * values).sum() / counts.sum()


def standardised(counts, values, unbiased=False):
    centre = centred(counts, values)
    std = math.sqrt((counts * centre**2).sum() / (counts.sum() - unbiased))
    return over_std(centre, std, values)


def over_std(centre, std, values):
    """0 where the values differ by rounding alone."""
    return centre / std if std > 1e-12 * np.abs(values).max() else 0 * centre


# Frequent rows.


def like_grpo(advantages=lambda n, p, r: standardised(n, r), **more):
    """Neither a shift of the rewards nor their scale changes it."""
    return Row(True, 0, "equal rewards", advantages, **more)


def like_dr_grpo(advantages=lambda n, p, r: centred(n, r), **more):
    """A shift of the rewards does not change it, and it grows with their scale."""
    return Row(True, 1, "equal rewards", advantages, **more)


def never_silent(advantages, **more):
    """A shift of the rewards does not change it, and it tells apart answers of equal rewards."""
    return Row(True, None, "never", advantages, **more)
