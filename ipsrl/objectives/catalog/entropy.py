"""GRPO that controls the entropy of the policy."""

import dataclasses
import math
from typing import ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import at_least, positive, probability, share
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import AggregationName
from ipsrl.objectives.catalog.arguments import with_clip
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Penalty, RolloutPart
from ipsrl.objectives.penalties import EntropyBonus
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import Metrics, PolicyScores, Rollouts, Sizes, masked_mean

State = dict[str, Array]


def mean_entropy(rollouts: Rollouts) -> Array:
    """Mean entropy of the behaviour policy over all valid tokens, in nats, `[]`."""
    return masked_mean(rollouts.behaviour_entropy, rollouts.token_mask)


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


def aer(
    tau: float = 0.4,
    eta: float = 0.005,
    step: Literal["sign", "proportional"] = "sign",
    alpha: tuple[float, float] = (0.0, 0.02),
    weight: Literal["indicator", "linear", "complement"] = "indicator",
    rho: float = 0.5,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """AER (arXiv 2510.10959): GRPO + alpha w(share of correct) H, alpha adapted so that H becomes tau times H_0.

    Hard prompts get an entropy bonus; its scale starts at the first number of `alpha`, moves by `eta` after every
    batch, and stays between 0 and the second. H_0 is the entropy of the first batch. All arguments but the last are
    those of `AdaptiveEntropyBonus`. The three components are the abstract's; their formulas, and every number but tau,
    are our reading: use them as the start of a sweep.

    Degenerate: groups with equal rewards get no advantage, all-wrong ones the bonus alone (`bonus_only_prompts`); if
    every answer is right, every prompt counts as solved, and this is GRPO.
    Evidence: our reading (abstract); tau second-hand.
    """
    bonus = AdaptiveEntropyBonus(alpha[0], tau=tau, eta=eta, step=step, alpha_max=alpha[1], weight=weight, rho=rho)
    return with_clip(0.2, aggregation, advantages=GroupMeanStd(), penalties=(bonus,))


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


def skywork_entropy(
    target: float = 0.2,
    step: float = 0.005,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Skywork-OR1's entropy control (arXiv 2505.22312): GRPO + c H while H <= target; c rises there, else it falls.

    As in TRL: c starts at 0 and stays in [0, 1]; the entropy of the previous batch decides whether a batch gets the
    bonus, so the first batch gets none. The bonus is aggregated like the surrogate; TRL always takes the mean over
    tokens. The entropy is measured when a batch is sampled, TRL's during training on it (our reading).

    Degenerate: groups with equal rewards get no advantage, but the bonus while it is on.
    Evidence: code (TRL).
    Peers: TRL.
    """
    return with_clip(0.2, aggregation, advantages=GroupMeanStd(), penalties=(EntropyFloor(target=target, step=step),))


@dataclasses.dataclass(frozen=True)
class EntropyBand(RolloutPart):
    """Keeps the answers that move the entropy back into a band, which falls during training (Entrocraft).

        above the band only A >= 0 is kept, below it only A <= 0, inside it everything (arXiv 2604.26326);
        the band moves linearly from (low_start, high_start) to (low_end, high_end) in `steps` batches

    All other advantages become zero.
    """

    steps: int = at_least(1)
    low_start: float = 0.6
    high_start: float = 0.7
    low_end: float = 0.1
    high_end: float = 0.2

    def __post_init__(self):
        super().__post_init__()
        for low, high in ((self.low_start, self.high_start), (self.low_end, self.high_end)):
            if not 0.0 <= low <= high < math.inf:
                raise ValueError(f"the band is ({low}, {high}): two entropies in nats, the first not above")

    def init(self, sizes: Sizes) -> Array:
        """Number of batches so far, `[]` int32."""
        return jnp.int32(0)

    def update_state(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        low, high = self.band(state)
        entropy = mean_entropy(rollouts)
        kept_sign = jnp.where(entropy > high, 1.0, jnp.where(entropy < low, -1.0, 0.0))
        return jnp.where(kept_sign * values >= 0, values, 0.0), state + 1

    def state_metrics(self, state: Array) -> Metrics:
        """The band of this batch."""
        low, high = self.band(state - 1)
        return {"entropy_band_low": (low, jnp.float32(1)), "entropy_band_high": (high, jnp.float32(1))}

    def band(self, batch: Array) -> tuple[Array, Array]:
        """Limits of the band in nats for a batch, counted from 0."""
        progress = jnp.minimum(batch / self.steps, 1.0)
        low = self.low_start + progress * (self.low_end - self.low_start)
        return low, self.high_start + progress * (self.high_end - self.high_start)


def entrocraft(
    steps: int = 400,
    low_start: float = 0.6,
    high_start: float = 0.7,
    low_end: float = 0.1,
    high_end: float = 0.2,
    aggregation: AggregationName = "token_mean",
) -> Objective:
    """Entrocraft (arXiv 2604.26326): GRPO; while H is above a band only A >= 0 counts, below it only A <= 0.

    The band falls linearly from (low_start, high_start) to (low_end, high_end) in `steps` batches: set it to the length
    of the run (the default, about that of the released results, is our reading). Rejected answers stay in the
    denominators, as in the released code, which also replaces the advantages outside the band by the rewards; its
    reference script adds 0.001 of k3 and lets the band fall to (0.4, 0.5).

    Degenerate: groups with equal rewards get zero.
    Evidence: paper and code (the authors' repository).
    """
    band = EntropyBand(steps, low_start=low_start, high_start=high_start, low_end=low_end, high_end=high_end)
    return with_clip(0.2, aggregation, advantages=GroupMeanStd(), reweighting=(band,))
