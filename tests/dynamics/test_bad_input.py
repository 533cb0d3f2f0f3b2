"""What the theory of two and more outcomes refuses."""

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.dynamics import flows, survival, time_scales
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.dynamics.finite_groups import count_weights, expected_weight, mean_field
from ipsrl.objectives import make

GRPO = make("grpo")
NAN = float("nan")
TWO, FIVE = (4.0, 1.0), np.array([5.0, 4.0, 3.0, 2.0, 1.0])
PROBS, REWARDS = np.array([0.4, 0.3, 0.3]), np.array([4.0, 1.0, 2.0])
WEIGHTS = count_weights(8)

REFUSED = [
    # Finite groups.
    ("at least 2", lambda: mean_field(PROBS, REWARDS, count_weights(1), "group mean and std")),
    ("rule is 'mean', it must be one of no baseline, group mean", lambda: mean_field(PROBS, REWARDS, WEIGHTS, "mean")),
    ("sum to 1", lambda: mean_field(PROBS * 2, REWARDS, WEIGHTS, "no baseline")),
    ("must both be", lambda: mean_field(PROBS, REWARDS[:2], WEIGHTS, "no baseline")),
    ("one weight for each count", lambda: mean_field(PROBS, REWARDS, np.ones((4, 1)), "no baseline")),
    ("weights is .*nan.*finite numbers", lambda: mean_field(PROBS, REWARDS, np.array([NAN, 1.0]), "no baseline")),
    ("too many", lambda: mean_field(np.full(40, 1 / 40), np.ones(40), count_weights(16), "group mean and std")),
    ("probability must lie between 0 and 1", lambda: expected_weight(1.5, WEIGHTS)),
    ("probability is nan", lambda: expected_weight(NAN, WEIGHTS)),
    ("negative", lambda: count_weights(4, floor=-0.1)),
    ("alpha is nan", lambda: count_weights(4, alpha=NAN)),
    ("group_size|at least 1 sample", lambda: count_weights(0)),
    ("above -1", lambda: count_weights(4, pseudo_count=-1.0)),
    # Flows.
    ("alpha", lambda: flows.flow_velocity(np.zeros(2), np.ones(2), -1.0)),
    ("must both be", lambda: flows.flow_velocity(np.zeros(2), np.ones(3), 1.0)),
    ("increasing", lambda: flows.integrate(lambda z: z, np.zeros(2), np.array([1.0, 1.0]))),
    # Survival.
    ("at least 1", lambda: survival.critical_alpha(0.5, 8, "no baseline")),
    ("at least 2", lambda: survival.critical_alpha(2.0, 1, "group mean")),
    ("rule is .* it must be one of", lambda: survival.critical_alpha(2.0, 8, "mean")),
    ("alpha is 0", lambda: survival.smallest_group(2.0, "no baseline", alpha=0.0)),
    ("positive", lambda: survival.stationary_distribution(np.array([1.0, 0.0]), WEIGHTS, "no baseline")),
    ("must not rise", lambda: survival.stationary_distribution(np.array(TWO), WEIGHTS[::-1], "no baseline")),
    ("all weigh the same", lambda: survival.stationary_distribution(np.array(TWO), count_weights(2), "group mean")),
    ("all weigh the same", lambda: survival.survives(np.array(TWO), count_weights(8, alpha=0.0), "no baseline")),
    ("only for two outcomes", lambda: survival.stationary_distribution(FIVE, WEIGHTS, "group mean and std")),
    # Time scales.
    ("where a tie starts", lambda: time_scales.tie_collapse_time(4, 0.5, threshold=0.5)),
    ("must be positive", lambda: time_scales.tie_collapse_time(4, 0.0)),
    ("group_size|at least 1 sample", lambda: time_scales.tie_collapse_time(0, 0.5)),
    ("must rise", lambda: time_scales.recovery_time(0.1, 0.01, TWO, count_weights(16))),
    ("does not recover to 0", lambda: time_scales.recovery_time(0.1, 0.3, TWO, count_weights(16))),
    ("does not recover", lambda: time_scales.recovery_time(1e-6, 1e-3, TWO, count_weights(5), "group mean and std")),
    ("must not rise", lambda: time_scales.recovery_time(1e-6, 1e-3, TWO, count_weights(16)[::-1])),
    ("must not be negative and must not rise", lambda: time_scales.recovery_time(1e-6, 1e-3, TWO, WEIGHTS - 2)),
    ("does not recover", lambda: time_scales.ideal_recovery_time(0.1, 0.2, TWO)),
    ("rule is .* it must be one of", lambda: time_scales.recovery_coefficient(TWO, WEIGHTS, "std")),
    ("at least 2", lambda: time_scales.recovery_coefficient(TWO, count_weights(1), "group mean")),
    ("a tie has at least 2", lambda: time_scales.restoring_rate(1, WEIGHTS)),
    ("alpha is", lambda: time_scales.ideal_restoring_rate(4, -1.0)),
    ("reward is 0", lambda: time_scales.ideal_restoring_rate(4, 1.0, reward=0.0)),
    # Expected updates.
    (
        "reference is .*finite numbers",
        lambda: expected_update(GRPO, jnp.zeros(2), jnp.ones(2), 4, reference=jnp.array([0.0, NAN])),
    ),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_bad_input_is_refused(message, call):
    with pytest.raises(ValueError, match=message):
        call()
