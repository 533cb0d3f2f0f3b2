"""How many molecules a search has found, how soon, and how different they are. Pure NumPy: fingerprints are arrays.

A fingerprint is a row of B bits, such as the 2048 of Morgan's with radius 2. The Tanimoto similarity of two is the
number of bits that both have, divided by the number that one of them has; their distance is 1 minus it.
"""

import numpy as np
from scipy.stats import wasserstein_distance

from ipsrl.arguments import checked

# Rows that are compared at once with all others: of 10,000 fingerprints, in arrays of 40 MB.
BLOCK = 1000


@checked
def passing(rewards: np.ndarray, threshold: float) -> int:
    """The yield: number of different molecules with a reward of at least `threshold`; 0 for none.

    As in arXiv 2601.21669 and 2510.20817, which stop after 10,000 evaluations.

    Args:
      rewards: `[N]`, of different molecules, in the order of evaluation.
    """
    return int(np.sum(_line(rewards, "rewards") >= threshold))


@checked
def evaluations_until(rewards: np.ndarray, threshold: float, number: int = 100) -> float:
    """Number of evaluations after which `number` molecules with a reward of at least `threshold` have been found.

    With 100 it is OB100, the oracle burden (arXiv 2510.20817); less is better.

    Args:
      rewards: `[N]`, of different molecules, in the order of evaluation.

    Returns:
      At least `number`; NaN if so many are never found.

    Raises:
      ValueError: `number` is below 1.
    """
    if number < 1:
        raise ValueError(f"number is {number}, it must be at least 1")
    found = np.flatnonzero(_line(rewards, "rewards") >= threshold)
    if len(found) < number:
        return float("nan")
    return float(found[number - 1] + 1)


@checked
def internal_diversity(fingerprints: np.ndarray) -> float:
    """IntDiv1 of MOSES (arXiv 1811.12823): 1 - (1 / N^2) sum_{x, y} similarity(x, y), in [0, 1 - 1/N].

    Two without any bit have the similarity 1, as there. The sum is over all N^2 ordered pairs, those of a molecule with
    itself among them, as in the paper's formula and its code; without these it would be N / (N - 1) times as large. 0
    for one molecule, NaN for none. Memory grows as N.

    Args:
      fingerprints: `[N, B]` bool.

    Raises:
      ValueError: they are no fingerprints.
    """
    bits = _bits(fingerprints)
    if not len(bits):
        return float("nan")
    total = 0.0
    for start in range(0, len(bits), BLOCK):
        both, either = _overlaps(bits[start : start + BLOCK], bits[start:])
        similarities = np.where(either > 0, both / np.maximum(either, 1), np.float32(1))
        own = similarities[:, :BLOCK].sum(dtype=np.float64)
        later = similarities[:, BLOCK:].sum(dtype=np.float64)
        # Pairs with later blocks count in both orders.
        total += own + 2 * later
    return 1 - total / len(bits) ** 2


@checked
def circles(fingerprints: np.ndarray, distance: float = 0.75) -> int:
    """#Circles (arXiv 2112.12542): number of molecules that are pairwise farther apart than `distance`; 0 for none.

    The measure is the size of the largest such set, which is hard to find. This is the paper's sequential
    approximation, and that of its code, a lower bound: in the order given, a molecule counts if it is farther than
    `distance` from all that count before it. The order matters: compare such numbers only of orders that mean the same,
    as that of discovery.

    Args:
      fingerprints: `[N, B]` bool.
      distance: of Tanimoto, in [0, 1); 0.75 is the default of the paper's code.

    Raises:
      ValueError: they are no fingerprints, or `distance` is out of its range.
    """
    if not 0 <= distance < 1:
        raise ValueError(f"distance is {distance}, it must be at least 0, and below 1")
    bits = _bits(fingerprints)
    centers = np.zeros(len(bits), bool)
    for start in range(0, len(bits), BLOCK):
        block = bits[start : start + BLOCK]
        counts = ~_near(block, bits[centers], distance).any(axis=1)
        near = _near(block, block, distance)
        for row in range(len(block)):
            # Those before it in its own block that count.
            before = near[row, :row] & counts[:row]
            counts[row] &= not before.any()
        centers[start : start + BLOCK] = counts
    return int(centers.sum())


@checked
def histogram_distance(one: np.ndarray, other: np.ndarray) -> float:
    """1-Wasserstein distance of two samples of a property, in its unit: the integral of |F_one(x) - F_other(x)| dx.

    F is the share of a sample up to x. MOSES (arXiv 1811.12823) compares weights, logP, SA and QED in this way. NaN if
    a sample is empty.

    Args:
      one: `[N]`.
      other: `[M]`.
    """
    one, other = _line(one, "one"), _line(other, "other")
    if not len(one) or not len(other):
        return float("nan")
    return float(wasserstein_distance(one, other))


def _bits(fingerprints: np.ndarray) -> np.ndarray:
    """Fingerprints as float32 `[N, B]`, whose products are exact; raises ValueError if they are none."""
    fingerprints = np.asarray(fingerprints)
    if fingerprints.ndim != 2 or fingerprints.dtype != bool:
        raise ValueError(
            f"fingerprints has the shape {fingerprints.shape} and the type {fingerprints.dtype}, it must be "
            "[molecule, bit] and hold True and False"
        )
    return fingerprints.astype(np.float32)


def _overlaps(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of bits that both have, and that one of them has, float32 `[N, M]`, of `_bits`."""
    both = one @ other.T
    sizes, of_other = one.sum(axis=1), other.sum(axis=1)
    return both, sizes[:, None] + of_other - both


def _near(one: np.ndarray, other: np.ndarray, distance: float) -> np.ndarray:
    """Whether pairs are at most `distance` apart, bool `[N, M]`.

    The quotient is in float64, so that a distance of 13 / 20 is 0.65 as Python reads it.
    """
    both, either = _overlaps(one, other)
    distances = np.divide(either - both, np.maximum(either, 1), dtype=np.float64)
    return distances <= distance


def _line(values: np.ndarray, name: str) -> np.ndarray:
    """Raises ValueError unless these are numbers `[N]`."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} has the shape {values.shape}, it must have one axis")
    return values
