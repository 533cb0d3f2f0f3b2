"""Entropy bonuses whose coefficient follows the entropy of earlier batches.

Entropy is `mean_entropy`: the mean over all valid tokens of a batch of rollouts, for the policy before the update.
"""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.fields import positive, probability, share
from ipsrl.objectives.estimators.mean_entropy import mean_entropy
from ipsrl.objectives.objective import Metrics, Penalty, all_equal
from ipsrl.objectives.penalties.entropy_bonus import EntropyBonus
from ipsrl.structures import PolicyScores, Rollouts, Sizes

State = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class AdaptiveEntropyBonus(Penalty):
    """An entropy bonus for hard prompts that keeps the entropy at a share of its first value (AER, arXiv 2510.10959).

        bonus of batch k for prompt q:  alpha_k w(g) H,      g = share of right answers of the group
        alpha_{k+1} = clip( alpha_k + eta f(tau H_0 - H_k), 0, alpha_max ),      H_0 = entropy of the first batch

    Our reading: only the paper's abstract was at hand.

    Attributes:
      coefficient: alpha_0.
      tau: target entropy divided by the first entropy.
      eta: step of alpha; with `proportional`, per nat of error.
      step: f = `sign`, steps of fixed size, or `proportional`, the error itself.
      alpha_max: upper limit of alpha.
      weight: w = `indicator` [g <= rho], `linear` max(0, 1 - g / rho), or `complement` 1 - g, which does not use rho.
      rho: share of correct answers up to which a prompt is hard.
    """

    name: ClassVar[str] = "entropy"
    coefficient: float = 0.0
    tau: float = positive(0.4)
    eta: float = positive(0.005)
    step: Literal["sign", "proportional"] = "sign"
    alpha_max: float = positive(0.02)
    weight: Literal["indicator", "linear", "complement"] = "indicator"
    rho: float = share(0.5, called="rho, an accuracy,")

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.coefficient <= self.alpha_max:
            raise ValueError(f"alpha starts at {self.coefficient}, it must lie between 0 and {self.alpha_max}")

    def __call__(self, scores: PolicyScores, rollouts: Rollouts) -> tuple[Array, Metrics]:
        unsolved = ~rollouts.right.any(axis=-1)
        # A prompt without any reward has zero advantages, so the bonus is its only gradient.
        return -scores.entropy, {"bonus_only_prompts": (unsolved.sum(dtype=jnp.float32), jnp.float32(unsolved.size))}

    def init(self, sizes: Sizes) -> State:
        """alpha, and the entropies of the first batch and of the previous batch, -inf before the first."""
        none = jnp.float32(-jnp.inf)
        return {"alpha": jnp.float32(self.coefficient), "first_entropy": none, "entropy": none}

    def update_state(self, rollouts: Rollouts, advantages: Array, state: State) -> tuple[Array, State]:
        entropy = mean_entropy(rollouts)
        first_entropy = jnp.where(jnp.isneginf(state["first_entropy"]), entropy, state["first_entropy"])
        target = self.tau * first_entropy
        # An entropy that does not change is at its target, though its means over other tokens are rounded.
        error = jnp.where(all_equal(jnp.stack([target, entropy])), 0.0, target - entropy)
        step = self.eta * (jnp.sign(error) if self.step == "sign" else error)
        alpha = jnp.clip(state["alpha"] + step, 0.0, self.alpha_max)
        correct = rollouts.right.sum(axis=-1)
        coefficients = (state["alpha"] * self.weight_of(correct, rollouts.rewards.shape[-1]))[:, None, None]
        return coefficients, {"alpha": alpha, "first_entropy": first_entropy, "entropy": entropy}

    def state_metrics(self, state: State) -> Metrics:
        """alpha of the next batch, the entropy of this one, and the target entropy."""
        one = jnp.float32(1)
        return {
            "entropy_alpha": (state["alpha"], one),
            "entropy_target": (self.tau * state["first_entropy"], one),
            "behaviour_entropy": (state["entropy"], one),
        }

    def weight_of(self, correct: Array, group: int) -> Array:
        """w(g) for numbers of correct answers `[P]` in groups of this size."""
        if self.weight == "indicator":
            # Compares counts: in float32 a share such as 3 / 15 may exceed 0.2. The offset is for products such as 0.3
            # * 10.
            return (correct <= self.rho * group + 1e-4).astype(jnp.float32)
        accuracy = correct / group
        return jnp.maximum(1.0 - accuracy / self.rho, 0.0) if self.weight == "linear" else 1.0 - accuracy


@dataclasses.dataclass(frozen=True)
class EntropyFloor(EntropyBonus):
    """An entropy bonus that is active while the entropy is at or below an absolute target (Skywork-OR1, arXiv
    2505.22312).

        bonus of batch k: c_k H where e_{k-1} <= target, else 0;       e_k = entropy of batch k
        c_{k+1} = clip( c_k + step, 0, 1 ) where e_k <= target, else clip( c_k - step, 0, 1 )

    TRL's order: the bonus of a batch depends on the entropy of the previous batch. c starts at 0 and the first batch
    has no bonus.
    """

    coefficient: float = probability(0.0, called="the coefficient at the start")
    target: float = positive(0.2)
    step: float = positive(0.005)

    def init(self, sizes: Sizes) -> State:
        """c, and the entropy of the previous batch, inf before the first."""
        return {"coefficient": jnp.float32(self.coefficient), "entropy": jnp.float32(jnp.inf)}

    def update_state(self, rollouts: Rollouts, advantages: Array, state: State) -> tuple[Array, State]:
        entropy = mean_entropy(rollouts)
        now = jnp.where(state["entropy"] <= self.target, state["coefficient"], 0.0)
        step = jnp.where(entropy <= self.target, self.step, -self.step)
        after = {"coefficient": jnp.clip(state["coefficient"] + step, 0.0, 1.0), "entropy": entropy}
        return jnp.broadcast_to(now, (rollouts.rewards.shape[0], 1, 1)), after
