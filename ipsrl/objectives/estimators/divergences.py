"""f-divergences D_f(pi || ref) = E_ref[ f(pi / ref) ], by their links f'(u), u = pi / ref (f-DPO, arXiv 2309.16240).

The policy that maximises E_pi[r] - beta D_f(pi || ref) satisfies r = beta f'(u) + constant. So a link turns a policy
into a reward, and its inverse turns a reward into a policy. With l = log u and up to constants:

    reverse_kl       f(u) = u log u                                          f'(u) = l
    forward_kl       f(u) = -log u                                           f'(u) = -exp(-l)
    jensen_shannon   f(u) = u log u - (u + 1) log((u + 1) / 2)               f'(u) = log 2 - softplus(-l)
    alpha            f(u) = (u^(1-a) - (1-a) u - a) / (a (a - 1))            f'(u) = (1 - exp(-a l)) / a,  0 < a < 1

alpha tends to reverse_kl as a -> 0, and to forward_kl (plus 1) as a -> 1.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

Divergence = Literal["reverse_kl", "forward_kl", "jensen_shannon", "alpha"]

LOG_RATIO_RANGE = 10.0
"""|log u| is clipped to this in the links of forward_kl and alpha, which diverge as u -> 0: log u of a whole answer may
be -50. Beyond the clip these links are constant, so their gradient is zero.
"""


def check_alpha(name: Divergence, alpha: float) -> None:
    """Raises ValueError if `alpha` is invalid for this divergence; the other divergences ignore it."""
    if name == "alpha" and not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}, it must lie strictly between 0 and 1 for the alpha-divergence")


def link(name: Divergence, log_ratio: Array, alpha: float = 0.5) -> Array:
    """f'(u) up to a constant, from l = log u of any shape; increasing in l. Formulas and clips: see the module."""
    if name == "reverse_kl":
        return log_ratio
    if name == "jensen_shannon":
        return math.log(2.0) - jax.nn.softplus(-log_ratio)
    clipped = jnp.clip(log_ratio, -LOG_RATIO_RANGE, LOG_RATIO_RANGE)
    return -jnp.exp(-clipped) if name == "forward_kl" else -jnp.expm1(-alpha * clipped) / alpha
