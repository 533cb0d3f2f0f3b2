"""Monitors: checks of a run's records that warn while something goes wrong.

A monitor reads only the metrics that every step writes to metrics.jsonl. Its state is a function of the records it has
seen, so a resumed run is monitored as if it had never stopped. A monitor whose metrics a run does not log is silent.
`ipsrl.records.warning_log` passes each record to the monitors, and their warnings on.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ipsrl.checking import specifications
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, at_least, non_negative, open_probability, positive, share

PREFIX = "monitor/"
"""Prefix of the names of all metrics of monitors."""

Record = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Finding:
    """Result of a monitor for one record.

    Attributes:
      bad: whether the monitored condition is met at this step; None: undecided.
      short: the numbers for the warning in a few words: `0.25 nats (was 0.73)`.
      message: the warning as a sentence, without advice.
      metrics: further metrics for the record, named without `PREFIX`.
    """

    bad: bool | None
    short: str
    message: str
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Monitor(Checked, abc.ABC):
    """Base of all monitors: frozen dataclasses, whose fields are their thresholds.

    Raises:
      ValueError: a threshold or the number of steps is out of its range.
    """

    advice: ClassVar[str]
    """The meaning of a warning, or what to try. It names no objective: the running one may be among them."""
    steps: int
    """Number of steps in a row that must be bad before the monitor warns, and good before it may warn again."""
    fewest: ClassVar[int] = 3
    """The smallest value of `steps` in a short run."""
    start: ClassVar[Any] = ()
    """Initial memory of the monitor; empty for monitors without memory."""

    def in_run(self, last_step: int) -> Self:
        """The monitor in a run of `last_step` steps: a default of `steps` is at most a tenth of it, or `fewest`.

        Otherwise a collapse within a few steps would be over before anybody is warned.
        """
        if self.steps != type(self).steps:
            return self
        return dataclasses.replace(self, steps=min(self.steps, max(self.fewest, last_step // 10)))

    @abc.abstractmethod
    def observe(self, memory: Any, record: Record) -> tuple[Any, Finding | None]:
        """The new memory, and the finding; None if the record lacks the monitored metrics."""


def number(record: Record, metric: str) -> float | None:
    """A metric of a record; None if it is missing or not finite."""
    value = record.get(metric)
    return value if value is not None and math.isfinite(value) else None


@dataclasses.dataclass(frozen=True)
class LowEntropy(Monitor):
    """`token_entropy` below a number of nats: the policy hardly explores any more.

    Attributes:
      below: nats.
      of_highest: the entropy must also be at most this share of its highest value so far, so that a policy that starts
        with low entropy, such as a prior, and keeps most of it causes no warning. With 1, only `below` counts.
    """

    advice: ClassVar[str] = (
        "the policy hardly explores any more; an objective that rewards rarity or entropy keeps exploration up"
    )
    start: ClassVar[float] = 0.0
    """The highest entropy so far."""
    below: float = positive(0.5, called="below of low_entropy")
    of_highest: float = share(0.5, called="of_highest of low_entropy")
    steps: int = at_least(1, 50, called="steps of a monitor")

    def observe(self, memory: float, record: Record) -> tuple[float, Finding | None]:
        entropy = number(record, "token_entropy")
        if entropy is None:
            return memory, None
        highest = max(memory, entropy)
        return highest, Finding(
            entropy < self.below and entropy <= self.of_highest * highest,
            f"{entropy:.2g} nats (was {highest:.2g})",
            f"token entropy has been below {self.below:g} nats for {self.steps} steps ({entropy:.2g} now, "
            f"{highest:.2g} at its highest)",
        )


@dataclasses.dataclass(frozen=True)
class Above(Monitor):
    """A metric above a limit."""

    metric: ClassVar[str]
    what: ClassVar[str]
    """Name of the metric in a sentence."""
    unit: ClassVar[str] = ""
    above: float = non_negative()
    steps: int = at_least(1, 20, called="steps of a monitor")

    def observe(self, memory: Any, record: Record) -> tuple[Any, Finding | None]:
        value = number(record, self.metric)
        if value is None:
            return memory, None
        return memory, Finding(
            value > self.above,
            f"{value:.2g}{self.unit} (limit {self.above:g})",
            f"{self.what} has been above {self.above:g} for {self.steps} steps ({value:.2g} now)",
        )


@dataclasses.dataclass(frozen=True)
class DegenerateGroups(Above):
    """`degenerate_groups`: most groups have no advantages."""

    metric: ClassVar[str] = "degenerate_groups"
    what: ClassVar[str] = "the share of groups without advantages"
    advice: ClassVar[str] = (
        "they have no gradient; larger groups, other prompts or the batch filter dynamic_sampling find groups with one"
    )
    above: float = non_negative(0.9, called="above of degenerate_groups")


@dataclasses.dataclass(frozen=True)
class ReferenceDrift(Above):
    """`reference_kl`, in nats per token: the policy has left its reference."""

    metric: ClassVar[str] = "reference_kl"
    what: ClassVar[str] = "the divergence from the reference policy, in nats per token,"
    unit: ClassVar[str] = " nats"
    advice: ClassVar[str] = (
        "abilities of the reference are being lost; a larger kl or a smaller learning rate keeps them"
    )
    above: float = non_negative(0.5, called="above of reference_drift")


@dataclasses.dataclass(frozen=True)
class BatchDrift(Above):
    """`behaviour_kl`, in nats per token: the policy leaves the one that sampled while it learns from a batch.

    PPO implementations that check it stop the epochs of a batch at about 0.02.
    """

    metric: ClassVar[str] = "behaviour_kl"
    what: ClassVar[str] = "the divergence from the policy that sampled, in nats per token,"
    unit: ClassVar[str] = " nats"
    advice: ClassVar[str] = "samples are too stale for further updates; use fewer epochs or a smaller learning rate"
    above: float = non_negative(0.02, called="above of batch_drift")


@dataclasses.dataclass(frozen=True)
class ClippedTokens(Above):
    """`clip_fraction`: much of each batch is clipped."""

    metric: ClassVar[str] = "clip_fraction"
    what: ClassVar[str] = "the share of tokens that the clip removes"
    advice: ClassVar[str] = (
        "much of each batch has no gradient; use fewer epochs, a smaller learning rate or a wider clip"
    )
    above: float = non_negative(0.3, called="above of clipped_tokens")


@dataclasses.dataclass(frozen=True)
class SamplerScorerMismatch(Above):
    """`sampler_scorer_difference`, in nats: sampler and scorer disagree about the same policy.

    From 0.2, PPO's clip acts on tokens whose probability has not changed.
    """

    metric: ClassVar[str] = "sampler_scorer_difference"
    what: ClassVar[str] = "the gap between log-probabilities when sampled and when scored"
    unit: ClassVar[str] = " nats"
    advice: ClassVar[str] = "rounding that affects training (use --dtype=float32), or a bug in sampler or policy"
    above: float = non_negative(0.2, called="above of sampler_scorer_mismatch")
    steps: int = at_least(1, 5, called="steps of a monitor")


@dataclasses.dataclass(frozen=True)
class FallingOutcomes(Monitor):
    """`group_effective_outcomes`, mean over the last `steps` records, far below the highest such mean.

    Only outcomes beyond the first count, because the first exists as long as anything is rewarded. If there were never
    more than half an outcome beyond it, there is nothing to lose. The warning ends when half of the loss is recovered.

    Attributes:
      by: the lost share.

    Metrics: `effective_outcomes_kept`, the mean as a share of the highest one so far, both beyond the first outcome; 1
    if there never was a second.
    """

    advice: ClassVar[str] = (
        "the policy can hardly relearn what it no longer samples; an objective that rewards rarity, or a smaller "
        "learning rate, keeps more"
    )
    start: ClassVar[tuple[tuple[float, ...], float]] = (), 0.0
    """The last values, and the highest mean."""
    by: float = open_probability(0.6, called="by of falling_outcomes")
    steps: int = at_least(1, 20, called="steps of a monitor")

    def observe(
        self, memory: tuple[tuple[float, ...], float], record: Record
    ) -> tuple[tuple[tuple[float, ...], float], Finding | None]:
        value = number(record, "group_effective_outcomes")
        if value is None:
            return memory, None
        recent, highest = (*memory[0], value)[-self.steps :], memory[1]
        if len(recent) < self.steps:
            return (recent, highest), None
        mean = math.fsum(recent) / self.steps
        highest = max(highest, mean)
        kept = max(mean - 1, 0.0) / (highest - 1) if highest > 1 else 1.0
        bad = None
        if kept < 1 - self.by and highest >= 1.5:
            bad = True
        elif kept > 1 - self.by / 2:
            bad = False
        return (recent, highest), Finding(
            bad,
            f"{mean:.3g} (was {highest:.3g})",
            f"the effective outcomes in a group have fallen from {highest:.3g} to {mean:.3g}",
            {"effective_outcomes_kept": kept},
        )


@dataclasses.dataclass(frozen=True)
class FittedLine:
    """Running least squares of y on x: count, means, and sums of squares and products around the means.

    Attributes:
      highest: the largest x.
    """

    count: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    highest: float = -math.inf

    def add(self, x: float, y: float) -> "FittedLine":
        """The line with one more point (Welford's recursion)."""
        count = self.count + 1
        from_x, from_y = x - self.x, y - self.y
        mean_x, mean_y = self.x + from_x / count, self.y + from_y / count
        return FittedLine(
            count,
            mean_x,
            mean_y,
            self.xx + from_x * (x - mean_x),
            self.xy + from_x * (y - mean_y),
            self.yy + from_y * (y - mean_y),
            max(self.highest, x),
        )


@dataclasses.dataclass(frozen=True)
class EntropyLaw(Monitor):
    """R = -a exp(H) + b: the reward is paid for with entropy, and the entropy is nearly spent (arXiv 2505.22617).

    R is the mean reward of a step's samples and H its `token_entropy`; the paper fits validation accuracy. a and b are
    fitted by least squares to all steps so far, from step number `steps` on. At H = 0 the law gives b - a, the ceiling.
    The paper warns that the law is not universal: here it counts only if a > 0 and the fit is good.

    Attributes:
      spent: the share of exp(H) - 1, from the highest so far, that must be spent.
      r_squared: share of the variance of R that the fit must explain.

    Metrics: `entropy_law_slope`, a; `entropy_law_ceiling`, b - a; `entropy_law_r_squared`.
    """

    advice: ClassVar[str] = "more steps will hardly raise the reward, but methods that keep entropy up might"
    # Fewer points fit any law.
    fewest: ClassVar[int] = 10
    start: ClassVar[FittedLine] = FittedLine()
    spent: float = open_probability(0.9, called="spent of entropy_law")
    r_squared: float = open_probability(0.8, called="r_squared of entropy_law")
    steps: int = at_least(1, 50, called="steps of a monitor")

    def observe(self, memory: FittedLine, record: Record) -> tuple[FittedLine, Finding | None]:
        # Batch filters choose groups by their rewards, but also log the mean reward of all samples.
        entropy = number(record, "token_entropy")
        reward = number(record, "sampled_reward" if "sampled_reward" in record else "reward")
        if entropy is None or reward is None:
            return memory, None
        memory = memory.add(math.exp(entropy), reward)
        # A constant entropy or a constant reward gives no fit.
        if memory.count < self.steps or memory.xx <= 0 or memory.yy <= 0 or memory.highest <= 1:
            return memory, None
        slope = -memory.xy / memory.xx
        ceiling = memory.y + slope * (memory.x - 1)
        r_squared = memory.xy**2 / (memory.xx * memory.yy)
        spent = (memory.highest - math.exp(entropy)) / (memory.highest - 1)
        return memory, Finding(
            slope > 0 and r_squared >= self.r_squared and spent >= self.spent,
            f"{spent:.0%} of the entropy spent at reward {reward:.3g} (ceiling {ceiling:.3g})",
            f"reward follows {ceiling + slope:.3g} - {slope:.3g} exp(entropy) (R squared {r_squared:.2f}), a ceiling "
            f"of {ceiling:.3g}, and {spent:.0%} of the entropy is spent at a reward of {reward:.3g}",
            {
                "entropy_law_slope": slope,
                "entropy_law_ceiling": ceiling,
                "entropy_law_r_squared": r_squared,
            },
        )


MONITORS: dict[str, type[Monitor]] = {
    "low_entropy": LowEntropy,
    "degenerate_groups": DegenerateGroups,
    "falling_outcomes": FallingOutcomes,
    "reference_drift": ReferenceDrift,
    "batch_drift": BatchDrift,
    "sampler_scorer_mismatch": SamplerScorerMismatch,
    "clipped_tokens": ClippedTokens,
    "entropy_law": EntropyLaw,
}


@checked
def make_monitors(text: str) -> dict[str, Monitor]:
    """Monitors by name, from a text such as `"all, low_entropy(below=0.3)"`.

    `all` is every monitor with its defaults, except those named beside it; `none` and `""` are no monitors.

    Raises:
      ValueError: unknown name or argument (the message lists the known ones), a bad value, or a monitor given twice.
    """
    given = {} if text.strip() == "none" else specifications.by_name(text, "monitor")
    if given.get("all") == "all":
        del given["all"]
        given = {name: name for name in MONITORS} | given
    return {name: specifications.build(item, MONITORS, "monitor") for name, item in given.items()}
