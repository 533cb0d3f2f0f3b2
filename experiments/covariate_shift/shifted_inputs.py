"""Regression whose test inputs are rare in training: finite classes, and fitted Q in a chain.

Errors are those of f - f*: regression by a class does not change if the targets and all functions are shifted alike, so
that f* is 0 in the finite classes. `COMMON` inputs come first, then the `RARE` ones, which are all that is tested. A
training input is a rare one with probability 1 / C, so that C is the largest ratio of test to training probability.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.stats import norm

from experiments.covariate_shift.disagreement import (
    disagreement_regression,
    least_squares,
    undefeated,
)
from ipsrl.study.curves import Points

COMMON = 32
RARE = 8
"""Numbers of inputs."""
EPS = 0.1
"""Misspecification."""
NOISE = 0.1
"""Standard deviation of targets."""
MOST = 1000.0
"""The largest C for which the ladder is made."""
STEP = 0.8
"""The pair's error on rare inputs, in eps sqrt(C)."""
LADDER = 40
COSINES = 200
"""Numbers of functions."""


def at_inputs(common: np.ndarray | float, rare: np.ndarray | float) -> np.ndarray:
    """`[..., M]`, from values at all common inputs and at all rare ones, `[..., 1]` or one of each."""
    return np.concatenate(
        [np.repeat(common, COMMON, axis=-1), np.repeat(rare, RARE, axis=-1)], axis=-1
    )


def pair(ratio: float, random: np.random.Generator) -> np.ndarray:
    """`[2, M]`: eps everywhere, or 0 on common inputs and 0.8 eps sqrt(C) on rare ones: a class chosen for C."""
    return EPS * np.stack([at_inputs(1.0, 1.0), at_inputs(0.0, STEP * np.sqrt(ratio))])


def opposite(ratio: float, random: np.random.Generator) -> np.ndarray:
    """`[2, M]`, as `pair`, but a little better than eps on common inputs, to the other side of the target.

    The two differ by 1.9 eps there, so that a threshold of 2 eps does not compare them there, and a lower one does.
    """
    return EPS * np.stack([at_inputs(1.0, 1.0), at_inputs(-0.9, 0.4 * np.sqrt(ratio))])


def trade_off() -> tuple[np.ndarray, np.ndarray]:
    """`[F, 1]` each, a and d from 1 to sqrt(MOST), with a^2 = 1 - log(d) / log(sqrt(MOST)).

    The mean squared error a^2 (1 - 1/C) + d^2 / C is then least at d^2 = (C - 1) / log(MOST), linear in C.
    """
    rare = np.geomspace(1.0, np.sqrt(MOST), LADDER)[:, None]
    squares = 1 - 2 * np.log(rare) / np.log(MOST)
    return np.sqrt(np.maximum(0.0, squares)), rare


def ladder(ratio: float, random: np.random.Generator) -> np.ndarray:
    """`[F, M]`, one class for all C: eps a on common inputs and eps d on rare ones, with random signs.

    Pairs of a and d are those of `trade_off`.
    """
    signs = random.choice([-1.0, 1.0], COMMON + RARE)
    return EPS * signs * at_inputs(*trade_off())


def cosines(ratio: float, random: np.random.Generator) -> np.ndarray:
    """`[1 + F, M]`: +-eps with random signs, and random cosines of amplitudes from eps to eps sqrt(MOST).

    Common inputs are quantiles of N(0, 1), rare ones of N(10, 1). Cosines that come nearer than eps everywhere are
    stretched, so that eps is the misspecification.
    """

    def quantiles(number):
        return norm.ppf((np.arange(number) + 0.5) / number)

    def log_uniform(low, high):
        return np.exp(random.uniform(np.log(low), np.log(high), (COSINES, 1)))

    inputs = np.concatenate([quantiles(COMMON), 10 + quantiles(RARE)])
    amplitude = log_uniform(EPS, EPS * np.sqrt(MOST))
    frequency = log_uniform(0.01, 3.0)
    phase = random.uniform(0, 2 * np.pi, (COSINES, 1))
    waves = amplitude * np.cos(frequency * inputs + phase)
    waves *= np.maximum(1.0, EPS / np.abs(waves).max(axis=1, keepdims=True))
    near = EPS * random.choice([-1.0, 1.0], (1, COMMON + RARE))
    return np.concatenate([near, waves])


CLASSES: Mapping[str, Callable[[float, np.random.Generator], np.ndarray]] = {
    each.__name__: each for each in (pair, opposite, ladder, cosines)
}


@dataclasses.dataclass(frozen=True)
class Regression:
    """A regression: disagreement-based with tau = `multiple` eps, or least squares, which is a multiple of 0.

    Attributes:
      width: of the smooth gate, in tau.
      any_of_several: whether one of the undefeated functions is taken at random, not that of least squared error.
    """

    multiple: float = 3.0
    width: float = 0.0
    any_of_several: bool = False

    def __call__(
        self,
        values: np.ndarray,
        counts: np.ndarray,
        sums: np.ndarray,
        random: np.random.Generator,
        eps: float = EPS,
    ) -> np.ndarray:
        """`[S]`, the index of the function that it takes from values `[F, M]` for data `[M, S]`."""
        if not self.multiple:
            return least_squares(values, counts, sums)
        threshold = self.multiple * eps
        width = self.width * threshold
        if not self.any_of_several:
            return disagreement_regression(values, counts, sums, threshold, width)
        found = undefeated(values, counts, sums, threshold, width)
        return np.argmax(np.where(found, random.uniform(size=found.shape), -1.0), axis=0)


def law(ratio: float, common: int = COMMON, rare: int = RARE) -> np.ndarray:
    """`[M]`, the distribution of training inputs."""
    of_each = [(1 - 1 / ratio) / common, 1 / ratio / rare]
    return np.repeat(of_each, [common, rare])


def sampled(
    random: np.random.Generator, probs: np.ndarray, samples: Sequence[int], noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Counts and sums of noise `[M, S]` of data sets of these sizes."""
    probs = probs / probs.sum()
    counts = np.array([random.multinomial(number, probs) for number in samples], float).T
    return counts, noise * np.sqrt(counts) * random.normal(size=counts.shape)


def regressed(
    kind: str,
    arm: Regression,
    ratios: Sequence[float],
    samples: Sequence[int],
    seeds: Sequence[int],
) -> Points:
    """error: of each seed, mean squared error on rare inputs in eps^2, for each C and number of samples.

    All arms see the same classes and data of a seed.
    """
    errors = np.empty((len(seeds), len(ratios), len(samples)))
    for row, seed in enumerate(seeds):
        for column, ratio in enumerate(ratios):
            random = np.random.default_rng([seed, round(ratio)])
            values = CLASSES[kind](ratio, random)
            counts, sums = sampled(random, law(ratio), samples, NOISE)
            taken = arm(values, counts, sums, random)
            errors[row, column] = (values[taken, COMMON:] ** 2).mean(axis=1) / EPS**2
    return points(
        seeds,
        np.repeat(ratios, len(samples)),
        np.tile(samples, len(ratios)),
        error=errors.reshape(len(seeds), -1),
    )


def points(
    seeds: Sequence[int], ratios: Sequence, samples: Sequence, **values: np.ndarray
) -> Points:
    """Values `[S, U]` at U pairs of C and number of samples."""
    return Points(range(len(ratios)), {"ratio": ratios, "samples": samples, **values}, seeds)


# Fitted Q in a chain.
LENGTH = 6
"""Number of places."""
RARE_PLACES = 3
"""Number of the last ones, from which training rarely goes forward."""
DISCOUNT = 0.95
LEAVE = 0.6
"""The reward for leaving."""
CHAIN_EPS = 0.02
"""Misspecification."""
CHAIN_NOISE = 0.02
"""Standard deviation of targets."""


def backup(values: np.ndarray) -> np.ndarray:
    """`[2 L]`, r + gamma max Q of the next place, from Q `[2 L]`: leaving each place, then going forward from it.

    Leaving ends with the reward `LEAVE`, going forward from the last place with 1.
    """
    best = values.reshape(2, LENGTH).max(axis=0)
    leave = np.full(LENGTH, LEAVE)
    return np.concatenate([leave, DISCOUNT * best[1:], [1.0]])


def optimal_values() -> np.ndarray:
    """`[L + 1, 2 L]`, Q of the best policy with 0 to L steps left; the last is the chain's own."""
    found = [np.zeros(2 * LENGTH)]
    for _ in range(LENGTH):
        found.append(backup(found[-1]))
    return np.array(found)


def chain_class() -> np.ndarray:
    """`[F, 2 L]`, each of `optimal_values` with each of the errors of `ladder`, which are negative on rare pairs."""
    common, rare = trade_off()
    signs = np.where(np.arange(2 * LENGTH - RARE_PLACES) % 2, 1.0, -1.0)
    errors = np.concatenate([common * signs, np.repeat(-rare, RARE_PLACES, 1)], axis=1)
    values = optimal_values()[:, None] + CHAIN_EPS * errors
    return values.reshape(-1, 2 * LENGTH)


def value_of_greedy(values: np.ndarray) -> float:
    """The value, from the first place, of the policy that is greedy for Q `[2 L]`; equal actions mean leaving."""
    leave, forward = values.reshape(2, LENGTH)
    stays = np.flatnonzero(leave >= forward)
    return DISCOUNT ** stays[0] * LEAVE if len(stays) else DISCOUNT ** (LENGTH - 1)


def fitted_q(
    arm: Regression, ratios: Sequence[float], samples: int, seeds: Sequence[int]
) -> Points:
    """L steps of fitted Q, each a regression on the same data, from Q = 0.

    The class is `CHAIN_EPS` from the optimal values of each number of steps, and (1 + gamma) times that from backups of
    its best functions, which is the eps of the arm's threshold. Values: error, mean squared error of Q on rare pairs in
    CHAIN_EPS^2; regret, of the greedy policy from the first place.
    """
    values = chain_class()
    eps = (1 + DISCOUNT) * CHAIN_EPS
    best = optimal_values()[-1]
    errors, regrets = np.empty((2, len(seeds), len(ratios)))
    for row, seed in enumerate(seeds):
        for column, ratio in enumerate(ratios):
            random = np.random.default_rng([seed, round(ratio)])
            probs = law(ratio, 2 * LENGTH - RARE_PLACES, RARE_PLACES)
            counts, noise = sampled(random, probs, [samples], CHAIN_NOISE)
            learned = np.zeros(2 * LENGTH)
            for _ in range(LENGTH):
                sums = counts * backup(learned)[:, None] + noise
                learned = values[arm(values, counts, sums, random, eps)[0]]
            errors[row, column] = ((learned - best)[-RARE_PLACES:] ** 2).mean() / CHAIN_EPS**2
            regrets[row, column] = value_of_greedy(best) - value_of_greedy(learned)
    return points(seeds, ratios, [samples] * len(ratios), error=errors, regret=regrets)
