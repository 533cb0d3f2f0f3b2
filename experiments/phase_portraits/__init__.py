"""Phase portraits: where expected training takes a policy over three outcomes, by any objectives.

Claim     Expected return ends on one outcome, even where two are equally good; a penalty towards a reference policy
          keeps a trace of the others; inverse probability scaling and trajectory balance rest where each outcome is as
          frequent as its reward says, scaling by counts a little beside.
Paper     Theorems 3.1 and 4.1 of arXiv 2601.21669 for expected return and inverse probability scaling; the others are
          of no one paper: exact dynamics of the objectives' own code.
Arms      GRPO, GRPO with a KL penalty of 0.1, ProGRPO, DARLING, GAPO, IPS-GRPO by counts, IPS-REINFORCE by exact
          probabilities, and trajectory balance, each with rewards 1, 1, 0.5 and 1, 0.6, 0.3. Paths and rest points are
          those of the flow along the exact mean update of three logits in groups of 8, with a uniform reference: there
          is no optimiser, no learning rate and no seed.
Command   python -m experiments.phase_portraits --document=docs/phase_portraits.png
Time      demo under two minutes on two busy CPU cores, smoke half a minute, paper five.
Expected  In the demo, which needs no sampling and no seeds, at rewards in the proportion of ten, six and three: GRPO
          ends on the best outcome, its KL penalty rests where that has 0.974, IPS-GRPO at (0.582, 0.317, 0.101), exact
          inverse probability scaling and trajectory balance at the rewards' shares. GAPO rests where all are equally
          frequent, whatever they pay.
Doubt     Three outcomes without shared parameters, and no noise, which can break a tie. Claims are of one vector of
          rewards and one group size; by counts the rest point lies beside the rewards' shares, how far depends on both,
          and the margin of 0.1 is ours.
Smoke     python -m experiments.phase_portraits --preset=smoke

`--document` writes the PNG there as well, in 128 colours, which makes it a quarter of its size.
"""

import dataclasses
import functools
from pathlib import Path

import numpy as np
from PIL import Image

from experiments.phase_portraits import drawn_portraits
from experiments.phase_portraits.computed_portraits import portrait as portrait_of
from experiments.phase_portraits.computed_portraits import spread_starts
from ipsrl import objectives, study
from ipsrl.checking.fields import Range, at_least, between, in_range, positive
from ipsrl.dynamics.expected_update import LARGEST_GROUP_OF_THREE
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.portraits import Portrait
from ipsrl.dynamics.rest_points import RestPoint
from ipsrl.dynamics.verdict import check
from ipsrl.figures.style import Drawing
from ipsrl.records.tidy import Record, Records
from ipsrl.rollouts.sources.refinements import spend_samples
from ipsrl.text_table import aligned

HEAD = """\
attracting policy: where expected training ends; slowest rate: deviations among the outcomes that the policy has shrink
as exp(-rate t), t = updates x step size; lost as: the probability of the others at large t, from its decline at 1e-6"""


def are_rewards(vectors: tuple[tuple[float, ...], ...]) -> bool:
    finite = all(len(rewards) == 3 and np.isfinite(rewards).all() for rewards in vectors)
    return finite and all(min(rewards) >= 0 < max(rewards) for rewards in vectors)


def are_probs(numbers: tuple[float, ...]) -> bool:
    return not numbers or (len(numbers) == 3 and min(numbers) > 0 and abs(sum(numbers) - 1) <= 1e-6)


REWARDS = Range(
    "be three finite numbers each, none negative and not all zero", are_rewards, of_whole=True
)
PROBS = Range("be three positive probabilities whose sum is 1", are_probs, of_whole=True)


EIGHT = (
    "grpo",
    "grpo(kl=0.1)",
    "progrpo(reference=correct)",
    "darling",
    "gapo",
    "ips_grpo",
    "ips_reinforce(probability=exact)",
    "trajectory_balance",
)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`reference` are the probabilities of the reference policy; empty for uniform.

    `arrows` is how many there are along an edge, `starts` how many paths each portrait has, `seed` which starts these
    are, `document` a further path for the figure, which ends in .png.
    """

    objectives: tuple[str, ...] = study.selecting(study.objectives(EIGHT))
    rewards: tuple[tuple[float, ...], ...] = study.selecting(
        in_range(REWARDS, ((1.0, 1.0, 0.5), (1.0, 0.6, 0.3)))
    )
    group_size: int = between(1, LARGEST_GROUP_OF_THREE, 8)
    reference: tuple[float, ...] = in_range(PROBS, ())
    # The outer ones are left out.
    arrows: int = at_least(3, 12)
    starts: int = positive(7)
    seed: int = 215
    document: str = study.document(".png")

    @property
    def intervals(self) -> int:
        """The lattice of policies."""
        return drawn_portraits.LINES_FOR_ONE_ARROW * self.arrows


PRESETS = {
    "smoke": Settings(objectives=("ips_grpo",), group_size=4, arrows=6, starts=3),
    "demo": Settings(),
    "paper": Settings(
        group_size=16,
        rewards=((1.0, 1.0, 0.0), (1.0, 1.0, 0.5), (1.0, 0.6, 0.3)),
        arrows=16,
        starts=9,
    ),
}


def curves(settings: Settings) -> study.Curves:
    for name in settings.objectives:
        for rewards in settings.rewards:
            compute = functools.partial(points, name, field_of(name, rewards, settings), settings)
            yield study.Curve({"objective": name, "rewards": shown(rewards)}, compute)


def field_of(name: str, rewards: tuple[float, ...], settings: Settings) -> Field:
    """The expected update of an objective.

    Raises:
      ValueError: it cannot be computed on a bandit, or not exactly.
    """
    made = objectives.make(name)
    try:
        group_size, off_policy = spend_samples(made, settings.group_size)
        check(made, group_size, off_policy)
        field = Field(made, rewards, group_size, settings.reference or None, off_policy)
        field(np.zeros((1, 3)))
    except ValueError as error:
        raise ValueError(f"{name} has no portrait: {error}") from None
    return field


def points(name: str, field: Field, settings: Settings) -> study.Points:
    """One point for each rest point; the rest of the portrait is in arrays."""
    starts = spread_starts(settings.starts, settings.seed)
    portrait = portrait_of(name, field, settings.intervals, starts)
    rows = list(map(record_of, portrait.rest_points))
    arrays = {
        "velocity": portrait.velocity,
        "moves": portrait.moves,
        "finished": np.array(portrait.finished),
    }
    arrays |= {f"path_{number}": path for number, path in enumerate(portrait.paths)}
    return dataclasses.replace(study.Points.of_runs(range(len(rows)), [rows]), arrays=arrays)


def record_of(point: RestPoint) -> dict[str, float | str]:
    """The values of a rest point; outcomes and rates are numbered from 1, NaN for missing ones."""
    rates = np.append(point.rates, np.full(2 - len(point.rates), np.nan))
    invasion = np.full(3, np.nan)
    invasion[point.probs == 0] = point.invasion
    columns = {"p_": point.probs, "rate_": rates, "invasion_of_": invasion}
    values = {
        f"{name}{number}": value
        for name, column in columns.items()
        for number, value in enumerate(column, 1)
    }
    return {"kind": point.kind, **values, "scale": point.scale}


def numbered(row: Record, name: str) -> np.ndarray:
    """The values of a record with this name and a number, without missing ones."""
    values = np.array([row[key] for key in (f"{name}{n}" for n in (1, 2, 3)) if key in row])
    return values[~np.isnan(values)]


def portraits_of(records: Records, settings: Settings) -> list[Portrait]:
    """The portraits, rebuilt from the records."""
    found, vectors = [], {shown(rewards): rewards for rewards in settings.rewards}
    for labels, rows in records.each("objective", "rewards"):
        array = functools.partial(records.array, **labels)
        names = ("p_", "rate_", "invasion_of_")
        rest = [
            RestPoint(*(numbered(row, name) for name in names), row["scale"]) for row in rows.rows
        ]
        paths = [array(f"path_{number}") for number in range(settings.starts)]
        arrays = array("velocity"), array("moves"), paths, array("finished").tolist()
        found.append(
            Portrait(
                labels["objective"], vectors[labels["rewards"]], settings.intervals, *arrays, rest
            )
        )
    return found


def TABLE(records: Records, settings: Settings) -> str:
    rows = list(map(row_of, portraits_of(records, settings)))
    return f"{HEAD}\n{aligned([('objective', 'rewards', 'slowest rate', 'lost as', 'attracting policies'), *rows])}"


def row_of(portrait: Portrait) -> tuple[str, ...]:
    attracting = portrait.attracting
    rates = [-float(point.rates.max()) for point in attracting if len(point.rates)]
    losses = [point.slowest_loss for point in attracting if len(point.invasion)]
    ends, stopped = [probs(point.probs) for point in attracting], portrait.finished.count(False)
    if portrait.rests_everywhere:
        ends = ["none: every policy rests"]
    else:
        ends += [
            f"every policy of {first + 1} and {second + 1} rests"
            for first, second in portrait.resting_edges
        ]
        near = ", ".join(sorted({probs(path[-1]) for path in portrait.paths}))
        ends = ends or [f"no rest point is stable to first order; paths end near {near}"]
        ends += [f"{stopped} of {len(portrait.paths)} paths stop where the field jumps"] * (
            stopped > 0
        )
    slowest = f"{min(rates):.2g}" if rates else "", str(max(losses)) if losses else ""
    return portrait.objective, shown(portrait.rewards), *slowest, "; ".join(ends)


def probs(policy: np.ndarray) -> str:
    return " ".join(f"{chance:.3f}" for chance in policy)


def shown(rewards: tuple[float, ...]) -> str:
    return ",".join(f"{reward:g}" for reward in rewards)


def FIGURE(records: Records, settings: Settings) -> Drawing:
    return drawn_portraits.draw(
        portraits_of(records, settings), settings.group_size, settings.reference
    )


def documents(records: Records, settings: Settings, png: Path) -> list[Path]:
    if not settings.document:
        return []
    path = Path(settings.document)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(png) as image:
        palette = image.convert("RGB").quantize(
            128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    palette.save(path, optimize=True)
    return [path]


def best_at_rest(objective: str) -> study.Number:
    """The final probability of the best of the outcomes with rewards 1, 0.6, 0.3."""
    return study.final("p_1", objective=objective, rewards="1,0.6,0.3", kind="attracts")


CLAIMS = {
    "of outcomes with rewards 1, 0.6, 0.3 GRPO keeps the best alone": study.above(
        best_at_rest("grpo"), 1 - 1e-6
    ),
    "IPS-GRPO rests within 0.1 of r / sum r": study.near(best_at_rest("ips_grpo"), 1 / 1.9, 0.1),
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim=(
        "Expected return ends on one outcome; inverse probability scaling rests where each "
        "outcome is as frequent as its reward says."
    ),
    scope="three outcomes, exact expected training in groups of 8",
    decided_by=tuple(CLAIMS),
)
