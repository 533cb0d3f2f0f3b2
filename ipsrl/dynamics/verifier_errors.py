"""The effect of a verifier's errors on the expected update of a policy over right and wrong outcomes.

rho0 is the rate at which wrong answers are accepted, rho1 that at which right ones are rejected; J = 1 - rho0 - rho1 is
Youden's index. If errors do not depend on the answer, the reward has the mean rho0 + J given that an answer is right,
and rho0 given that it is wrong (arXiv 2601.04411, 2510.00915).
"""

import functools
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.rewards import NoisyVerifier, Reward

Way = Literal["false negatives", "false positives", "both"]
WAYS: tuple[Way, ...] = get_args(Way)


def verifier_of(youden: float, way: Way = "both") -> NoisyVerifier:
    """A verifier with random errors of a given J.

    Args:
      youden: J, from -1 to 1.
      way: "both" has equal rates; the others have one kind of error only, and the other kind where J is below 0.
    """
    first, second = min(1.0, 1.0 - youden), max(0.0, -youden)
    rates = {"false negatives": (second, first), "false positives": (first, second)}
    accepts_wrong, rejects_right = rates.get(way, ((1.0 - youden) / 2,) * 2)
    return NoisyVerifier(accepts_wrong, rejects_right)


@functools.cache
def exact_update(
    objective: str,
    logits: tuple[float, ...],
    right: tuple[bool, ...],
    verifier: Reward,
    group_size: int,
    reference: tuple[float, ...] | None = None,
) -> np.ndarray:
    """`[K]` float64, the expected update of a bandit whose arms are right or wrong, by an objective's specification.

    The reference policy has the logits `reference`, or is uniform.
    """
    with jax.enable_x64(True):
        update = expected_update(
            objectives.make(objective),
            jnp.array(logits),
            verifier,
            group_size,
            environment=Bandit(tuple(map(float, right))),
            reference=None if reference is None else jnp.array(reference),
        )
        return np.asarray(update)


def distance(update: np.ndarray, other: np.ndarray, rescaled: bool = False) -> float:
    """|u - v| / max(|u|, |v|), or of u / |u| and v / |v|; 0 if both are zero, or rescaled and one is."""
    sizes = np.linalg.norm(update), np.linalg.norm(other)
    if (min(sizes) if rescaled else max(sizes)) < 1e-9:
        return 0.0
    if rescaled:
        return distance(update / sizes[0], other / sizes[1])
    return float(np.linalg.norm(update - other) / max(sizes))
