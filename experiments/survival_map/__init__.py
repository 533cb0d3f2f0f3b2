"""Where does the weaker of two outcomes survive inverse probability scaling by counts? Over group size and exponent.

Claim     A finite group caps the weight of a rare outcome. With rewards r_1 > r_2 and rho = r_1 / r_2, the weaker one
          survives without a baseline iff alpha > ln rho / ln min(G, 1/floor); with a group mean, or a group mean and
          std, iff alpha > ln rho / ln(G - 1) (floor <= 1/G): the baseline costs one sample.
Paper     Ours, after arXiv 2601.21669: the rule is its Algorithm 1, alpha its exponent; the borders are derived.
Arms      Inverse probability scaling by counts without a baseline, with a group mean, and with a group mean and std, at
          13 exponents from 0 to 2 and 12 group sizes from 2 to 64: 156 cells each, with 32 seeds. Rewards are 4 and 1;
          both outcomes start equal and take 20,000 steps of plain gradient descent of size 0.05, without a floor.
          Beside them the borders and rest points of the closed forms.
Command   python -m experiments.survival_map
Time      on two busy CPU cores smoke and demo under one minute, paper three: 1.15e9 updates, all as one program.
Expected  demo: none of 156 cells of each rule is on the wrong side of the border, and mean p_2 is within 0.04 of the
          mean field's rest everywhere, 0.0004 in the median. paper: of 600 cells of each rule four at most, none by
          more than 0.02 in alpha. A threshold three times as high puts a few more on the wrong side, one three times as
          low does not.
Doubt     What survives is decided by a threshold of 0.01 after a finite time: a slowly dying outcome counts as alive,
          and three times the threshold puts a few cells on the wrong side. Cells on the border itself count for neither
          side. One ratio of rewards, no floor and no network; longer steps, or Adam, can lose an outcome that the mean
          field keeps.
Smoke     python -m experiments.survival_map --preset=smoke

A run survives if p_2, on average over the last half of its updates, is above `threshold`. Near the border the map is
blurred: a dying outcome falls as p_2 = 1 / (c t), t = updates x step size, and without a baseline the rate
c = 2 (r_1 omega(G) - r_2 omega(1)) is 0 at the border: below 1.4 / (threshold t) it counts as alive.
"""

import dataclasses
import functools

import numpy as np

from ipsrl import objectives, study
from ipsrl.checking.fields import below_one, between, open_probability, positive
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.softmax.finite_groups import COUNT_RULES, Rule
from ipsrl.dynamics.softmax.survival import critical_alpha, weaker_at_rest
from ipsrl.dynamics.softmax.two_outcome_training import LARGEST_GROUP, Cell, train
from ipsrl.figures.layers import HeatMap
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.text_table import aligned

# Intervals in which p_2 is averaged.
RECORDS = 20
# A weight is at most LARGEST_GROUP^alpha, whose square float32 must hold.
LARGEST_ALPHA = 8


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`alphas` is the number of exponents from `lowest_alpha` to `highest_alpha`; the better reward comes first."""

    rewards: tuple[float, ...] = study.better_and_worse((4.0, 1.0))
    group_sizes: tuple[int, ...] = study.rising(
        (2, 3, 4, 5, 6, 8, 11, 16, 23, 32, 45, 64), least=2, most=LARGEST_GROUP
    )
    lowest_alpha: float = between(0, LARGEST_ALPHA, 0.0)
    highest_alpha: float = between(0, LARGEST_ALPHA, 2.0)
    alphas: int = between(2, 1000, 13)
    floor: float = below_one(0.0)
    seeds: tuple[int, ...] = study.seeds(range(32))
    step_size: float = positive(0.05)
    steps: int = positive(20000)
    threshold: float = open_probability(0.01)

    def __post_init__(self):
        super().__post_init__()
        if self.steps % RECORDS:
            raise ValueError(f"--steps is {self.steps}, it must be a multiple of {RECORDS}")
        if len(self.group_sizes) < 2 or not self.lowest_alpha < self.highest_alpha:
            raise ValueError(
                "a map takes two --group_sizes at least, and --lowest_alpha below --highest_alpha"
            )

    @property
    def cells(self) -> list[tuple[float, int]]:
        """Exponents and group sizes of all cells."""
        exponents = np.linspace(self.lowest_alpha, self.highest_alpha, self.alphas).tolist()
        return [(alpha, size) for alpha in exponents for size in self.group_sizes]


MANY = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 23, 26, 29, 32, 37, 42, 48, 56, 64)
PRESETS = {
    "smoke": Settings(group_sizes=(3, 5, 8, 16), alphas=8, seeds=tuple(range(8))),
    "demo": Settings(),
    "paper": Settings(group_sizes=MANY, alphas=25),
}


def curves(settings: Settings) -> study.Curves:
    for rule in COUNT_RULES:
        compute = functools.partial(points, rule, settings)
        yield study.Curve({"rule": rule}, compute, ["alpha", "group_size"])


@functools.lru_cache(maxsize=1)
def train_all(settings: Settings) -> dict[Rule, np.ndarray]:
    """For each rule, p_2 of all runs `[seed, cell]`, averaged over the last half of training; all in one program."""
    cells = []
    for name in COUNT_RULES.values():
        for alpha, size in settings.cells:
            objective = objectives.make(f"{name}(alpha={alpha}, floor={settings.floor})")
            cells.append(Cell(objective, settings.rewards, size, settings.step_size))
    trace = train(cells, settings.seeds, settings.steps, settings.steps // RECORDS, make_mesh())
    if not np.isfinite(trace.log_ratio).all():
        raise ValueError(
            "some runs left float32: take a smaller --step_size, --highest_alpha or --rewards"
        )
    second = trace.second[..., RECORDS // 2 :].mean(axis=-1, dtype=np.float64).T
    return dict(zip(COUNT_RULES, np.split(second, len(COUNT_RULES), axis=1), strict=True))


def points(rule: Rule, settings: Settings) -> study.Points:
    """p_2, whether it survived (1), and the border and the rest point by the closed forms."""
    second = train_all(settings)[rule]
    alphas, sizes = zip(*settings.cells, strict=True)
    rewards, floor = settings.rewards, settings.floor
    borders = [critical_alpha(rewards[0] / rewards[1], size, rule, floor) for size in sizes]
    rests = [weaker_at_rest(rewards, size, rule, alpha, floor) for alpha, size in settings.cells]
    values = {
        "alpha": alphas,
        "group_size": sizes,
        "second": second,
        "survived": (second > settings.threshold).astype(int),
        "critical_alpha": borders,
        "second_at_rest": rests,
    }
    return study.Points([settings.steps] * len(sizes), values, settings.seeds)


def above_border(cell: Records) -> float:
    """The exponent of a cell less that of the border; -inf where no exponent is enough."""
    border = np.nan_to_num(cell.column("critical_alpha")[0], nan=np.inf)
    return cell.column("alpha")[0] - border


def is_wrong(cell: Records, survived: np.ndarray) -> np.ndarray:
    """Whether outcomes that survived, or not, are on the wrong side of the border of a cell; false on the border."""
    above = above_border(cell)
    return (survived != (above > 0)) & (not np.isclose(above, 0.0))


def beyond(cell: Records) -> float:
    """Distance in alpha from the border of a cell where most seeds end on the wrong side; 0 for other cells."""
    most = cell.mean("survived") > 0.5
    return abs(above_border(cell)) if is_wrong(cell, most) else 0.0


def share_wrong(records: Records) -> np.ndarray:
    """`[S]`, the share of cells in which a seed ends on the wrong side of the border."""
    return np.mean(
        [is_wrong(cell, cell.ends("survived") > 0) for _, cell in records.each()], axis=0
    )


def TABLE(records: Records, settings: Settings) -> str:
    """For each rule, the cells where most seeds end on the wrong side, and how far mean p_2 is from its rest point."""
    lines = [["rule", "wrong cells", "farthest in alpha", "p_2 off its rest: median", "most"]]
    for labels, rows in records.each("rule"):
        cells = [cell for _, cell in rows.each()]
        wrong = [beyond(cell) for cell in cells]
        off = [abs(cell.mean("second") - cell.mean("second_at_rest")) for cell in cells]
        counted = f"{np.count_nonzero(wrong)} of {len(wrong)}"
        farthest, *distances = max(wrong), np.median(off), max(off)
        lines.append([labels["rule"], counted, f"{farthest:.2f}", *map("{:.4f}".format, distances)])
    return aligned(lines)


CLAIMS = {
    "the border is alpha = ln rho / ln G, or ln(G - 1) with a group mean: 1 % of cells beyond it, or fewer": (
        study.at_each(
            "rule",
            study.below(study.Computed("share of cells beyond the border", share_wrong), 0.01),
        )
    )
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim=(
        "The weaker outcome survives scaling by counts iff alpha > ln rho / ln G; a baseline costs one sample."
    ),
    scope="two outcomes with rho = 4, groups of 2 to 64",
    decided_by=tuple(CLAIMS),
)
WITHOUT = "α > ln ρ / ln min(G, 1/floor)"
WITH = "α > ln ρ / ln min(G − 1, (1 − 1/G)/floor)"
MAP = {
    "along": "group_size",
    "across": "alpha",
    "numbers": "",
    "low": 0.0,
    "border": "critical_alpha",
}
SURVIVED = {"high": 1.0, "bar": "share of seeds in which it survives", "crossed": beyond}
AXES = {"xlabel": "group size G", "ylabel": "exponent α of the scaling"}
FIGURE = Panels(
    [
        Panel(
            [HeatMap(value, where={"rule": rule}, **MAP, **look)],
            title=f"{rule}: {formula}",
            **AXES,
        )
        for value, look in (
            ("survived", SURVIVED),
            ("second", {"high": 0.5, "bar": "its mean probability p₂"}),
        )
        for rule, formula in zip(COUNT_RULES, (WITHOUT, WITH, WITH), strict=True)
    ],
    columns=3,
    caption="Which groups keep the weaker of two outcomes, with rewards {rewards}? Shades: sampled training, {steps:,} "
    "updates of size {step_size:g}; it survives with a mean p₂ above {threshold:g} in the second half. Line: closed "
    "form, written above. ×: cells on its wrong side.",
)
