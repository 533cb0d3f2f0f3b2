"""Monitors: rules over the records of a run that say what goes wrong while it does.

A monitor looks at the metrics that every step leaves in metrics.jsonl, at nothing else. What it knows is a function of
the records it has seen, so that a resumed run is watched as if nothing had been. One whose metrics a run does not log
is silent. `ipsrl.records.warning_log` has them look at each record, and hands on what they say.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from ipsrl import specifications

PREFIX = "monitor/"
"""What the names of all metrics of monitors begin with."""

Record = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a monitor says of one record.

    Attributes:
      bad: whether this step is of the kind that it warns of; None: undecided.
      short: the numbers of the warning, if there is to be one, in a few words: `0.25 nats (was 0.73)`.
      message: the warning as a sentence, without advice.
      metrics: further metrics for the record, by their names without `PREFIX`.
    """

    bad: bool | None
    short: str
    message: str
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Monitor(abc.ABC):
    """Base of all monitors: frozen dataclasses, whose fields are their thresholds.

    Raises:
      ValueError: a threshold cannot be reached, or there are no steps.
    """

    advice: ClassVar[str]
    """What a warning means, or what to try. It names no objective: the one that is running may be among them."""
    steps: int
    """How many steps in a row must be bad before the monitor warns, and good before it may warn again."""

    def __post_init__(self):
        if self.steps < 1:
            raise ValueError(f"steps of a monitor is {self.steps}, it must be at least 1")

    @property
    def start(self) -> Any:
        """What the monitor knows before the first record: nothing, unless it has a memory."""
        return ()

    @abc.abstractmethod
    def observe(self, memory: Any, record: Record) -> tuple[Any, Finding | None]:
        """What is known after a record, and what is to be said of it: None where it lacks what the monitor watches."""


def number(record: Record, metric: str) -> float | None:
    """A metric of a record; None where it is missing or not finite."""
    value = record.get(metric)
    return value if value is not None and math.isfinite(value) else None


@dataclasses.dataclass(frozen=True)
class LowEntropy(Monitor):
    """`token_entropy` below some nats: the policy hardly explores any more.

    Attributes:
      below: nats.
      of_highest: the share of the highest entropy so far that is also not exceeded, so that a policy which begins with
        little entropy, as one with a prior does, and keeps most of it is not warned of. With 1, `below` alone counts.
    """

    advice: ClassVar[str] = (
        "the policy hardly explores any more; an objective that pays for rarity or for entropy keeps it open"
    )
    below: float = 0.5
    of_highest: float = 0.5
    steps: int = 50

    def __post_init__(self):
        super().__post_init__()
        if not self.below > 0:
            raise ValueError(f"low_entropy(below={self.below:g}) never holds: entropy in nats is never below 0")
        if not 0 < self.of_highest <= 1:
            raise ValueError(f"low_entropy(of_highest={self.of_highest:g}): a share lies above 0 and is at most 1")

    @property
    def start(self) -> float:
        """The highest entropy so far."""
        return 0.0

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
    """What the metric is called in a sentence."""
    unit: ClassVar[str] = ""
    above: float
    steps: int = 20

    def __post_init__(self):
        super().__post_init__()
        if self.above < 0 or not math.isfinite(self.above):
            raise ValueError(f"a monitor of {self.what} warns above {self.above:g}: take a finite number from 0 on")

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
        "they teach nothing; larger groups, other prompts or the batch filter dynamic_sampling find groups that do"
    )
    above: float = 0.9


@dataclasses.dataclass(frozen=True)
class ReferenceDrift(Above):
    """`reference_kl`, in nats for each token: the policy has left its reference."""

    metric: ClassVar[str] = "reference_kl"
    what: ClassVar[str] = "the divergence from the reference policy, in nats for each token,"
    unit: ClassVar[str] = " nats"
    advice: ClassVar[str] = "what the reference knew is being lost; a larger kl or a smaller learning rate holds it"
    above: float = 0.5


@dataclasses.dataclass(frozen=True)
class BatchDrift(Above):
    """`behaviour_kl`, in nats for each token: the policy leaves the one that sampled while it learns from a batch.

    0.02 is about where implementations of PPO that watch it end the epochs of a batch.
    """

    metric: ClassVar[str] = "behaviour_kl"
    what: ClassVar[str] = "the divergence from the policy that sampled, in nats for each token,"
    unit: ClassVar[str] = " nats"
    advice: ClassVar[str] = "batches are used beyond where they are valid; take fewer epochs or a smaller learning rate"
    above: float = 0.02


@dataclasses.dataclass(frozen=True)
class ClippedTokens(Above):
    """`clip_fraction`: much of each batch is cut off."""

    metric: ClassVar[str] = "clip_fraction"
    what: ClassVar[str] = "the share of tokens that the clip removes"
    advice: ClassVar[str] = (
        "much of each batch teaches nothing; take fewer epochs, a smaller learning rate or a wider clip"
    )
    above: float = 0.3


@dataclasses.dataclass(frozen=True)
class SamplerScorerMismatch(Above):
    """`sampler_scorer_difference`, in nats: the same policy disagrees with itself.

    At 0.2 the clip of PPO begins to act on tokens that have not moved.
    """

    metric: ClassVar[str] = "sampler_scorer_difference"
    what: ClassVar[str] = "the gap between log-probabilities when sampled and when scored"
    unit: ClassVar[str] = " nats"
    advice: ClassVar[str] = "rounding that training feels (take --dtype=float32), or a bug in sampler or policy"
    above: float = 0.2
    steps: int = 5


@dataclasses.dataclass(frozen=True)
class FallingOutcomes(Monitor):
    """`effective_outcomes`, mean over the last `steps` records, far below the highest such mean.

    What counts are the outcomes beyond the first, which is always there as long as anything is rewarded. Where less
    than half an outcome has ever been beyond it, there is nothing to lose. The fall is over when half of it is made up.

    Attributes:
      by: the share that is lost.

    Metrics: `effective_outcomes_kept`, the mean as a share of the highest one so far, both beyond the first outcome; 1
    where there never was a second.
    """

    advice: ClassVar[str] = (
        "what the policy no longer samples it can hardly learn again; an objective that pays for rarity, or a smaller "
        "learning rate, keeps more"
    )
    by: float = 0.6
    steps: int = 20

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.by < 1:
            raise ValueError(f"falling_outcomes(by={self.by:g}): a share that is lost lies between 0 and 1")

    @property
    def start(self) -> tuple[tuple[float, ...], float]:
        """The last values, and the highest mean."""
        return (), 0.0

    def observe(
        self, memory: tuple[tuple[float, ...], float], record: Record
    ) -> tuple[tuple[tuple[float, ...], float], Finding | None]:
        value = number(record, "effective_outcomes")
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
        """With one more point (Welford's recursion)."""
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
    """R = -a exp(H) + b: reward is bought with entropy, and there is no more to buy (arXiv 2505.22617).

    R is the mean reward of what a step samples and H its `token_entropy`; the paper fits validation accuracy. a and b
    are those of least squares over all steps so far, from the step number `steps` on. With H at 0 the law ends at
    b - a, the ceiling. The paper warns that the law is not universal: it counts here where a > 0 and the fit is good.

    Attributes:
      spent: the share of exp(H) - 1, from the highest so far, that must be used up.
      r_squared: share of the variance of R that the fit must explain.

    Metrics: `entropy_law_slope`, a; `entropy_law_ceiling`, b - a; `entropy_law_r_squared`.
    """

    advice: ClassVar[str] = "more steps will hardly raise the reward, but what keeps entropy up might"
    spent: float = 0.9
    r_squared: float = 0.8
    steps: int = 50

    def __post_init__(self):
        super().__post_init__()
        for name in ("spent", "r_squared"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"entropy_law({name}={getattr(self, name):g}): a share lies between 0 and 1")

    @property
    def start(self) -> FittedLine:
        return FittedLine()

    def observe(self, memory: FittedLine, record: Record) -> tuple[FittedLine, Finding | None]:
        # Batch filters, which choose groups by their rewards, leave the mean of all that was sampled beside that of the
        # batch.
        entropy = number(record, "token_entropy")
        reward = number(record, "sampled_reward" if "sampled_reward" in record else "reward")
        if entropy is None or reward is None:
            return memory, None
        memory = memory.add(math.exp(entropy), reward)
        # Neither a constant entropy nor a constant reward has a law.
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


def make_monitors(text: str) -> dict[str, Monitor]:
    """Monitors by name, from a text such as `"all, low_entropy(below=0.3)"`.

    `all` stands for each with its defaults, but for those that are named beside it; `none` and `""` are no monitors.

    Raises:
      ValueError: unknown name or argument (the message lists the known ones), a bad value, or a monitor given twice.
    """
    given = {}
    if text.strip() in ("", "none"):
        return given
    for item in specifications.split(text):
        name = item.partition("(")[0]
        if name in given:
            raise ValueError(f"the monitor {name} is given twice in {text!r}: give each one once")
        given[name] = item
    if given.get("all") == "all":
        del given["all"]
        given = {name: name for name in MONITORS} | given
    return {name: specifications.build(item, MONITORS, "monitor") for name, item in given.items()}
