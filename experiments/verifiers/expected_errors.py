"""Drift of true accuracy under errors of a verifier, and the expected update compared with others."""

import jax
import numpy as np

from ipsrl.dynamics.verifier_errors import Way, distance, exact_update, verifier_of
from ipsrl.rewards import NoisyVerifier, Reward


def drift(
    objective: str,
    logits: tuple[float, ...],
    right: tuple[bool, ...],
    verifier: Reward,
    group_size: int,
) -> float:
    """The expected change of true accuracy: sum over right k of p_k (u_k - sum_j p_j u_j), u the expected update."""
    update = exact_update(objective, logits, right, verifier, group_size)
    probs = np.asarray(jax.nn.softmax(np.array(logits)), np.float64)
    return float((probs * (update - probs @ update))[np.array(right)].sum())


def compared(
    objective: str,
    logits: tuple[float, ...],
    right: tuple[bool, ...],
    youden: float,
    way: Way,
    group_size: int,
    without: str = "dr_grpo",
) -> dict[str, float]:
    """The drift under random errors, and how far the expected update is from others, as `distance` measures it.

    Args:
      without: the objective of the update without errors; a group mean gives it the factor (G - 1) / G.

    Returns:
      `drift`; `from_both`: from the same objective's with as many errors of both kinds at the same J; `from_grpo`: from
      GRPO's under the same errors; `from_clean`, `from_scaled`: from the update without errors, and J times that;
      `turned`: from the direction of the latter.
    """

    def update(name: str, verifier: Reward) -> np.ndarray:
        return exact_update(name, logits, right, verifier, group_size)

    verifier = verifier_of(youden, way)
    own, clean = update(objective, verifier), update(without, NoisyVerifier())
    return {
        "drift": drift(objective, logits, right, verifier, group_size),
        "from_both": distance(own, update(objective, verifier_of(youden))),
        "from_grpo": distance(own, update("grpo", verifier)),
        "from_clean": distance(own, clean),
        "from_scaled": distance(own, youden * clean),
        "turned": distance(own, youden * clean, rescaled=True),
    }
