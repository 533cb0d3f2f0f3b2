"""On-policy every ratio is 1, inside all limits, and pi = mu: what is left is the advantage."""

from tests.objectives.rows import like_dr_grpo, like_grpo, standardised
from tests.objectives.rows_expected_return import k3_gradient
from tests.oracles.token_values import (
    constant_length,
    divergence_mask,
    flipped,
    gradient_preserving,
    token_mean,
    truncated,
)

ROWS = {
    "gppo": like_grpo(tokens=token_mean(gradient_preserving(0.2, 0.28, dual_clip=10.0))),
    "ce_gppo": like_grpo(tokens=token_mean(gradient_preserving(0.2, 0.2, beta_low=0.75))),
    "cispo": like_grpo(tokens=token_mean(truncated(5.0))),
    "aspo": like_grpo(tokens=token_mean(flipped(0.2, 0.2, 3.0))),
    "aspo(clip=(0.1, 0.4), cap=1.3, kl=0.04)": like_grpo(
        lambda n, p, r: standardised(n, r) - 0.04 * k3_gradient(p), tokens=token_mean(flipped(0.1, 0.4, 1.3))
    ),
    "dppo": like_dr_grpo(tokens=constant_length(divergence_mask(0.15))),
    "dppo(divergence=binary_kl)": like_dr_grpo(),
    "dppo(divergence=top_tv)": like_dr_grpo(),
    "dppo(divergence=top_kl)": like_dr_grpo(),
}
