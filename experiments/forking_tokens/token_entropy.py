"""How much of the entropy of answers the tokens of highest entropy carry, and whether these stay the same tokens."""

from jax import Array

from ipsrl.arguments import checked
from ipsrl.objectives.estimators.ranks import largest
from ipsrl.objectives.estimators.token_shares import rounded_up
from ipsrl.structures import masked_sum


@checked
def entropy_at_the_top(
    entropy: Array, first_entropy: Array, mask: Array, fraction: float
) -> dict[str, Array]:
    """Measures of the ceil(fraction N) tokens of highest entropy, and ties with the last, among the N under the mask.

    Args:
      entropy: `[P, G, T]`, in nats, of the policy that is measured.
      first_entropy: `[P, G, T]`, of the policy before training at the same tokens.
      mask: `[P, G, T]` bool, True on tokens.
      fraction: in (0, 1].

    Returns:
      `entropy`, the mean over tokens; `share`, of all entropy that is at the top (arXiv 2506.01939); and `overlap`, the
      share of the top that is also at the top by `first_entropy`: the fraction, if by chance. Each `[]`; jittable.
    """
    count = rounded_up(fraction, mask)
    top, first_top = largest(entropy, mask, count), largest(first_entropy, mask, count)
    total = masked_sum(entropy, mask)
    return {
        "entropy": total / mask.sum(),
        "share": masked_sum(entropy, top) / total,
        "overlap": (top & first_top).sum() / top.sum(),
    }
