"""Exact mean updates, each by one program: outside of one, what `expected_update` prepares is a hundred programs."""

import jax

from ipsrl.dynamics.expected_update import expected_update

mean_update = jax.jit(expected_update, static_argnames=("objective", "group_size", "environment", "steps"))
