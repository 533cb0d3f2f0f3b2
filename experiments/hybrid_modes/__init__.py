"""Think, or answer at once: does GRPO collapse a policy with both modes into one, and what keeps both?

Claim     Vanilla GRPO settles on a mode before the weaker one has learned, and no longer samples it; a small weight of
          its own for the control token (DeGRPO), modes that are forced for a part of each group (HGPO), advantages
          without std, an entropy bonus or meta-learning keep both, and then the mode fits the difficulty.
Paper     Thinkless, arXiv 2505.13379, with alpha 0.001; HGPO, 2505.14631. Ours: the sentences with their margins;
          right is worth 1, wrong 0, not -1; IPS with the mode in the outcome; meta-learning is first-order MAML
          (1703.03400) over difficulties, which spends half of its answers on the inner step.
Arms      Sampled runs; GRPO also by exact expected updates, MAML only so. Equally many answers, not tokens; of seven
          rates from 1 to 4096 each half of the seeds has the best for the other half, an exact arm the best; GRPO also
          at 1. World: `modes.mode_bandit`: short answers that have learned are right with 1, 0.8, 0.4, 0.1; thinking is
          right with 0.9 at first, and costs half of the reward. Control: fixed skills, the short one 0.83, so that no
          mode must be sampled to learn; the placebo asks after 10 updates, when the best policy is 0.025 above GRPO
          (its margin: half of the others').
Command   python -m experiments.hybrid_modes
Time      demo six CPU minutes, smoke a quarter of one; paper, not run, hours.
Expected  At its best rate GRPO ends in one mode in 0.44 [0.20, 0.70] of the runs, at the smallest rate in all, without
          noise at its best rate in none. DeGRPO keeps both modes at each alpha, and forced halves do, with HGPO's
          advantages or without; HGPO without forced modes loses one in 0.94. By how much more the hardest is thought
          about than the easiest: 0.61 under DeGRPO at the paper's alpha, 0.93 at ten times that, 1.00 with forced
          halves. Dr. GRPO, IPS-GRPO and the entropy bonus are no better than GRPO.
Doubt     A transformer is in `hybrid_addition`. Longer runs, or a smaller step than the best, may leave a mode again.
Smoke     python -m experiments.hybrid_modes --preset=smoke
"""

import dataclasses
import functools
import itertools

import numpy as np

from experiments.modes.mode_bandit import ModeBandit
from experiments.modes.mode_paths import Update, points
from ipsrl import objectives, study
from ipsrl.checking.fields import at_least, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import above, among, at_some, below, every, final, share
from ipsrl.study.tuning import of_best

EXACT, SAMPLED = "exact", "sampled"
GROWING, FIXED = "growing", "fixed"
SHORT_SKILL = {GROWING: 0.12, FIXED: 0.83}
RARE = 0.01
"""A run whose rarer mode has a smaller share ends in one mode."""
EARLY = 10
"""The number of updates after which the placebo compares arms."""
POINTS = 21
"""The number of points of a curve, without the one after `EARLY` updates."""

GRPO = "grpo"
TOKENS = "grpo(aggregation=token_mean)"
HGPO = "hgpo(think_token=1)"
PAPERS = "degrpo(alpha=0.001)"
BETTER_ALPHA = "degrpo(alpha=0.01)"
FOMAML = "fomaml"
FORCED_GRPO, FORCED_HGPO = FORCED = "forced_grpo", "forced_hgpo"
OBJECTIVES = {FOMAML: GRPO, FORCED_GRPO: GRPO, FORCED_HGPO: HGPO}
"""The objectives of arms with names of their own."""
DEGRPO = {
    "degrpo(alpha=0.0001)": "DeGRPO at alpha 0.0001",
    PAPERS: "DeGRPO at alpha 0.001",
    BETTER_ALPHA: "DeGRPO at alpha 0.01",
    "degrpo(alpha=0.1)": "DeGRPO at alpha 0.1",
}
REMEDIES = {
    "dr_grpo": "Dr. GRPO",
    **DEGRPO,
    HGPO: "HGPO",
    "grpo(entropy=0.1)": "an entropy bonus of 0.1",
    "ips_grpo": "IPS-GRPO",
    FORCED_GRPO: "GRPO with forced halves",
    FORCED_HGPO: "HGPO with forced halves",
}
ARMS = (GRPO, TOKENS, *REMEDIES, FOMAML)
CONTROLLED = ("degrpo(alpha=0.1)", HGPO, "ips_grpo", *FORCED)
"""Remedies that, like GRPO, also have fixed skills."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`updates` are by a group for each difficulty; `inner` is the step size of first-order MAML within one."""

    arms: tuple[str, ...] = study.selecting(study.objectives(ARMS, also=tuple(OBJECTIVES)))
    skills: tuple[str, ...] = study.selecting(one_of(*SHORT_SKILL, default=(GROWING, FIXED)))
    seeds: tuple[int, ...] = study.seeds(range(16), least=2)
    learning_rates: tuple[float, ...] = positive((1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0))
    inner: float = positive(4.0)
    group_size: int = at_least(2, 8)
    updates: int = at_least(2, 500)

    def __post_init__(self):
        super().__post_init__()
        if self.group_size % 4 and (forced := [arm for arm in self.arms if arm in FORCED]):
            raise ValueError(
                f"--group_size is {self.group_size}, it must be a multiple of 4 for {forced[0]}"
            )


PRESETS = {
    "smoke": Settings(
        arms=(GRPO,),
        skills=(GROWING,),
        seeds=(0, 1),
        learning_rates=(4.0,),
        group_size=4,
        updates=10,
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), updates=10_000),
}


def curves(settings: Settings) -> study.Curves:
    for arm, skills in itertools.product(settings.arms, settings.skills):
        for part, rate in itertools.product(parts(arm, skills), settings.learning_rates):
            labels = of(arm, skills, part) | {"learning_rate": rate}
            yield study.Curve(labels, functools.partial(compute, arm, skills, part, rate, settings))


def parts(arm: str, skills: str) -> list[str]:
    """Whether an arm is sampled, without noise, or both."""
    if skills == FIXED:
        return [SAMPLED] if arm in (GRPO, *CONTROLLED) else []
    return {GRPO: [SAMPLED, EXACT], FOMAML: [EXACT]}.get(arm, [SAMPLED])


def compute(arm: str, skills: str, part: str, rate: float, settings: Settings) -> study.Points:
    """The points of an arm's curve, exact or sampled, at a learning rate."""
    world = world_of(skills == FIXED, arm in FORCED)
    objective = objectives.make(OBJECTIVES.get(arm, arm))
    update = Update(objective, settings.group_size, settings.inner * (arm == FOMAML))
    last = settings.updates
    places = sorted({min(EARLY, last), *np.linspace(0, last, POINTS).astype(int).tolist()})
    seeds = settings.seeds if part == SAMPLED else None
    return points(world, update, world.prior(SHORT_SKILL[skills]), places, rate, seeds, RARE)


# With one world for all learning rates an arm is compiled once.
@functools.cache
def world_of(fixed: bool, forced: bool) -> ModeBandit:
    return ModeBandit(fixed=fixed, forced=forced)


def of(arm: str, skills: str = GROWING, part: str = SAMPLED) -> dict[str, str]:
    """The labels of a curve, but for its learning rate."""
    return {"part": part, "skills": skills, "arm": arm}


def best(number: study.Number) -> study.Number:
    """A number at the best learning rate."""
    return study.Best(number, "reward")


def gain(arm: str, than: str = GRPO, skills: str = GROWING, part: str = SAMPLED) -> study.Number:
    """The reward of one arm less that of another, paired by seed, each at its best learning rate."""
    return best(study.difference("reward", of(arm, skills, part), of(than, skills, part)))


SLOW = of(GRPO) | {"learning_rate": min(Settings().learning_rates)}
FEW = "ends in one mode in under a quarter of its runs"
MANY = "ends in one mode in over half of its runs"
FITS = "thinks more often at the hardest than at the easiest, by over 0.5"
BETTER = "ends with a reward over 0.02 above"


def ends_in_one_mode(arm: str, skills: str = GROWING) -> study.Number:
    """The share of runs, at the best learning rate."""
    return best(share("collapsed", **of(arm, skills)))


def fits(arm: str, skills: str = GROWING) -> study.Number:
    """The share of thinking at the hardest prompts less that at the easiest, at the best learning rate."""
    return best(final("fits", **of(arm, skills)))


CLAIMS = {
    f"GRPO at the smallest rate {MANY}": above(share("collapsed", **SLOW), 0.5),
    f"GRPO {MANY}": above(ends_in_one_mode(GRPO), 0.5),
    f"GRPO with the mean over tokens {MANY}": above(ends_in_one_mode(TOKENS), 0.5),
    "with the best learning rate fewer of GRPO's runs end in one mode than with the smallest,"
    " by over a tenth": above(
        final("collapsed", **SLOW) - best(final("collapsed", **of(GRPO))), 0.1
    ),
    "when GRPO at the smallest rate first has over 99 % of its answers in one mode, or ends,"
    " the short skill is below 0.45": below(final("short_then", **SLOW), 0.45),
    "without noise GRPO at the smallest rate ends in one mode": below(
        final("rarer", **SLOW | {"part": EXACT}), RARE
    ),
    "without noise GRPO ends in one mode": below(
        best(final("rarer", **of(GRPO, part=EXACT))), RARE
    ),
    f"control: with a fixed short skill of 0.83, GRPO {FEW}": below(
        ends_in_one_mode(GRPO, FIXED), 0.25
    ),
    f"control: with a fixed short skill of 0.83, GRPO {FITS}": above(fits(GRPO, FIXED), 0.5),
    # That the mode fits is asked because it is no remedy to stand still.
    **{
        f"{name} {FEW} and {FITS}": every(
            [below(ends_in_one_mode(arm), 0.25), above(fits(arm), 0.5)]
        )
        for arm, name in REMEDIES.items()
    },
    **{f"{name} {BETTER} GRPO's": above(gain(arm), 0.02) for arm, name in REMEDIES.items()},
    "DeGRPO at alpha 0.001 ends at most 0.02 in reward below each alpha from 0.0001 to 0.1": every(
        above(gain(PAPERS, than), -0.02) for than in DEGRPO if than != PAPERS
    ),
    "without noise first-order MAML keeps both modes at a learning rate at which GRPO ends in one": at_some(
        "learning_rate",
        every(
            [
                above(final("rarer", arm=FOMAML), RARE),
                below(final("rarer", arm=GRPO), RARE),
            ]
        ),
        skills=GROWING,
        part=EXACT,
    ),
    f"without noise first-order MAML {BETTER} GRPO's, each at its best learning rate": above(
        gain(FOMAML, part=EXACT), 0.02
    ),
    f"HGPO with forced halves {BETTER} GRPO with forced halves": above(
        gain(FORCED_HGPO, FORCED_GRPO), 0.02
    ),
    "placebo: with a fixed short skill of 0.83, after 10 updates no remedy has a reward over 0.01"
    " above GRPO's": among(
        every(below(gain(arm, skills=FIXED), 0.01) for arm in CONTROLLED), step=EARLY
    ),
}
HEADLINE = study.Headline(
    subject="Thinking, planning and computation at test time",
    claim="GRPO settles on one mode of answering; DeGRPO and HGPO keep both, fitted to difficulty.",
    scope="a bandit whose modes learn only while they are sampled",
    decided_by=(
        "GRPO ends in one mode in over half of its runs",
        (
            "DeGRPO at alpha 0.001 ends in one mode in under a quarter of its runs and "
            "thinks more often at the hardest than at the easiest, by over 0.5"
        ),
        (
            "HGPO with forced halves ends in one mode in under a quarter of its runs and "
            "thinks more often at the hardest than at the easiest, by over 0.5"
        ),
    ),
)
COLUMNS = (
    "collapsed",
    "fits",
    "thinking_1",
    "thinking_4",
    "short",
    "think",
    "reward",
    "kilotokens",
    "learning_rate",
)
TABLES = [
    study.Table(COLUMNS, f"{{part}}, {skills} skills", {"skills": skills}, each="part")
    for skills in SHORT_SKILL
]
TABLE = of_best(study.one_below_the_other(*TABLES), "reward")
LINES = {
    "thinking_1": "thinking, easiest",
    "thinking_4": "thinking, hardest",
    "short": "short skill",
}
BARS = {
    "collapsed": "share of runs that end in one mode",
    "reward": "reward",
    "kilotokens": "thousand sampled tokens",
}
RUNS = {"part": SAMPLED, "skills": GROWING}
HIDDEN = (TOKENS, "degrpo(alpha=0.0001)", BETTER_ALPHA)
PANELS = [
    Panel([Line(value, by="arm", where=RUNS, without=HIDDEN)], title, "updates")
    for value, title in LINES.items()
]
PANELS += [
    Panel([Bars(value, by="arm", where=RUNS, without=(BETTER_ALPHA,))], title)
    for value, title in BARS.items()
]
FIGURE = of_best(Panels(PANELS, (19, 9.5), columns=3), "reward")
