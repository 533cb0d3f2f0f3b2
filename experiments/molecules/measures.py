"""How soon a search has found molecules, and how different they are.

A fingerprint is a row of B bits, such as the 2048 of Morgan's with radius 2. The Tanimoto similarity of two is the
number of bits that both have, divided by the number that one of them has; their distance is 1 minus it.
"""

import numpy as np

OVERLAP = 0.25
"""Similarity of molecules at the distance 0.75, the default of #Circles in the paper's code."""


def evaluations_until(rewards: np.ndarray, threshold: float, number: int = 100) -> float:
    """Number of evaluations after which `number` molecules with a reward of at least `threshold` have been found.

    With 100 it is OB100, the oracle burden (arXiv 2510.20817); less is better.

    Args:
      rewards: `[N]`, of different molecules, in the order of evaluation.

    Returns:
      At least `number`; NaN if so many are never found.
    """
    found = np.flatnonzero(rewards >= threshold)
    if len(found) < number:
        return float("nan")
    return float(found[number - 1] + 1)


def similarities(fingerprints: np.ndarray) -> np.ndarray:
    """`[N, N]` float32, of all pairs of fingerprints `[N, B]`; 1 for two without any bit, as in MOSES."""
    # Sums of so few bits are exact.
    bits = fingerprints.astype(np.float32)
    both = bits @ bits.T
    sizes = bits.sum(axis=1)
    either = sizes[:, None] + sizes - both
    return np.where(either > 0, both / np.maximum(either, 1), np.float32(1))


def internal_diversity(similar: np.ndarray) -> float:
    """IntDiv1 of MOSES (arXiv 1811.12823): 1 - (1 / N^2) sum_{x, y} similarity(x, y), in [0, 1 - 1/N].

    The sum is over all ordered pairs, those of a molecule with itself among them, as in the paper's formula and its
    code. 0 for one molecule, NaN for none.
    """
    if not len(similar):
        return float("nan")
    return 1 - similar.mean(dtype=np.float64)


def circles(similar: np.ndarray) -> int:
    """#Circles (arXiv 2112.12542): number of molecules that are pairwise farther apart than 0.75; 0 for none.

    The measure is the size of the largest such set, which is hard to find. This is the paper's sequential
    approximation, and that of its code, a lower bound: in the order given, a molecule counts if it is farther than that
    from all that count before it. The order matters: compare such numbers only of orders that mean the same, as that of
    discovery.
    """
    counted: list[int] = []
    for number, near in enumerate(similar >= OVERLAP):
        if not near[counted].any():
            counted.append(number)
    return len(counted)
