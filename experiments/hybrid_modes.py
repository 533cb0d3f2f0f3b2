"""Think, or answer at once: does GRPO collapse a policy with both modes into one, and what keeps both?

Claim     Vanilla GRPO settles on a mode before the weaker one has learned, and no longer samples it; a small weight of
          its own for the control token (DeGRPO), modes that are forced for a part of each group (HGPO), advantages
          without std, an entropy bonus or meta-learning keep both, and then the mode fits the difficulty.
Paper     Thinkless, arXiv 2505.13379, with alpha 0.001; HGPO, 2505.14631. Ours: the sentences with their margins;
          right is worth 1, wrong 0, not -1; IPS with the mode in the outcome; meta-learning is first-order MAML
          (1703.03400) over difficulties, which spends half of its answers on the inner step.
Arms      Sampled runs; GRPO also by exact expected updates, MAML only so. Equally many answers, not tokens, and the
          best of seven rates from 1 to 4096, for other seeds or exactly; GRPO also at 1. World: `modes.mode_bandit`:
          short answers that have learned are right with 1, 0.8, 0.4, 0.1; thinking is right with 0.9 at first, and
          costs half of the reward. Control: fixed skills, the short one 0.83, so that no mode must be sampled to learn;
          the placebo asks after 10 updates, when the best policy is 0.025 above GRPO (its margin: half of the others').
Command   python -m experiments.hybrid_modes
Time      demo six CPU minutes, smoke a quarter of one; paper, not run, hours.
Expected  No choice is on an edge of the grid (4 to 1024). At 1 all 16 runs of GRPO end in one mode, at its best rate
          0.69, without noise none. Remedies are DeGRPO at 0.001 and 0.01 (fit 0.60, 0.93) and forced halves (0.99),
          with HGPO or without; at 0.0001 DeGRPO hardly leaves the prior's modes (0.07). Eight other runs chose 64 for
          GRPO; at 16 the reported seeds have a reward of 0.61, not 0.56, and only DeGRPO at 0.01 and forced halves are
          surely 0.02 above. MAML (inner step 4, not tuned) keeps both modes at 16 only, GRPO at 16 and 64.
Doubt     A transformer is in `hybrid_addition`. Longer runs, or a smaller step than the best, may leave a mode again.
Smoke     python -m experiments.hybrid_modes --preset=smoke
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator

from experiments.modes.mode_bandit import ModeBandit
from experiments.modes.mode_paths import Update, points
from ipsrl import objectives, study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, all_of, any_of, below

EXACT, SAMPLED, GROWING, FIXED = "exact", "sampled", "growing", "fixed"
GRPO, TOKENS, HGPO, PAPERS = (
    "grpo",
    "grpo(aggregation=token_mean)",
    "hgpo(think_token=1)",
    "degrpo(alpha=0.001)",
)
FOMAML, SLOW, RARE, EARLY = "fomaml", "slow_grpo", 0.01, 10
FORCED_GRPO, FORCED_HGPO = FORCED = "forced_grpo", "forced_hgpo"
WORDS = {
    SLOW: GRPO,
    FOMAML: GRPO,
    FORCED_GRPO: GRPO,
    FORCED_HGPO: HGPO,
}  # Of arms with names of their own.
DEGRPO = {
    "degrpo(alpha=0.0001)": 0.0001,
    PAPERS: 0.001,
    "degrpo(alpha=0.01)": 0.01,
    "degrpo(alpha=0.1)": 0.1,
}
REMEDIES = {
    "dr_grpo": "Dr. GRPO",
    **{arm: f"DeGRPO at alpha {alpha:g}" for arm, alpha in DEGRPO.items()},
    HGPO: "HGPO",
    "grpo(entropy=0.1)": "an entropy bonus of 0.1",
    "ips_grpo": "IPS-GRPO",
    FORCED_GRPO: "GRPO with forced halves",
    FORCED_HGPO: "HGPO with forced halves",
}
NAMES = {
    SLOW: "GRPO at the smallest rate",
    GRPO: "GRPO",
    TOKENS: "GRPO with the mean over tokens",
} | REMEDIES
SHORT_SKILL = {GROWING: 0.12, FIXED: 0.83}
CONTROLLED = (
    GRPO,
    "degrpo(alpha=0.1)",
    HGPO,
    "ips_grpo",
    *FORCED,
)  # Arms that also have fixed skills.


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    arms: tuple[str, ...] = study.selecting(study.objectives((*NAMES, FOMAML), also=tuple(WORDS)))
    skills: tuple[str, ...] = study.selecting(one_of(*SHORT_SKILL, default=(GROWING, FIXED)))
    seeds: tuple[int, ...] = study.seeds(tuple(range(16)), least=2)
    learning_rates: tuple[float, ...] = positive((1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0))
    inner: float = positive(4.0)  # Step size of first-order MAML within a difficulty; not tuned.
    group_size: int = at_least(2, 8)
    updates: int = at_least(2, 500)  # By a group for each difficulty.

    def __post_init__(self):
        super().__post_init__()
        if self.group_size % 4 and (forced := [arm for arm in self.arms if arm in FORCED]):
            raise ValueError(
                f"--group_size is {self.group_size}, it must be a multiple of 4 for {forced[0]}"
            )


PRESETS = {
    "smoke": Settings(
        (GRPO,), (GROWING,), seeds=(0, 1), learning_rates=(4.0,), group_size=4, updates=10
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), updates=10_000),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for arm, skills in itertools.product(settings.arms, settings.skills):
        parts = {FOMAML: [EXACT], GRPO: [SAMPLED, EXACT], SLOW: [SAMPLED, EXACT]}
        for part in (
            parts.get(arm, [SAMPLED]) if skills == GROWING else [SAMPLED] * (arm in CONTROLLED)
        ):
            yield study.Curve(
                of(arm, skills, part), functools.partial(compute, part, skills, arm, settings)
            )


def compute(part: str, skills: str, arm: str, settings: Settings) -> study.Points:
    """What becomes of the modes at the best learning rate."""
    world = ModeBandit(fixed=skills == FIXED, forced=arm in FORCED)
    update = Update(
        objectives.make(WORDS.get(arm, arm)),
        settings.group_size,
        inner=settings.inner * (arm == FOMAML),
    )
    rates = (min(settings.learning_rates),) if arm == SLOW else settings.learning_rates
    seeds, prior = settings.seeds if part == SAMPLED else None, world.prior(SHORT_SKILL[skills])
    return points(world, update, prior, settings.updates, rates, seeds, RARE)


def of(arm: str, skills: str = GROWING, part: str = SAMPLED) -> dict[str, str]:
    """The labels of a curve."""
    return {"part": part, "skills": skills, "arm": arm}


def more(arm: str, than: str = GRPO, skills: str = GROWING) -> study.Number:
    """By how much a reward of sampled runs is above that of another arm, paired by seed."""
    return study.difference("reward", of(arm, skills), of(than, skills))


def keeps(arm: str) -> study.Claim:
    """Whether few runs of an arm end in one mode, and the mode fits the difficulty: it is no remedy to stand still."""
    return lambda r: all_of(
        [below(COLLAPSED[arm], 0.25)(r), above(study.final("fits", **of(arm)), 0.5)(r)]
    )


COLLAPSED = {arm: study.share("collapsed", **of(arm)) for arm in NAMES}
RARER, REWARD = (
    {a: study.final(v, **of(a, part=EXACT)) for a in (SLOW, GRPO, FOMAML)}
    for v in ("rarer", "reward")
)
AT_EACH_RATE = [
    [study.final(f"rarer_at_{rate:g}", **of(arm, part=EXACT)) for arm in (FOMAML, GRPO)]
    for rate in Settings().learning_rates
]
CONTROL, FITS = (
    "with a fixed short skill of 0.83",
    "thinks more often at the hardest than at the easiest, by over 0.5",
)
FEW, BETTER = (
    "ends in one mode in under a quarter of its runs",
    "ends with a reward over 0.02 above",
)
CLAIMS = {
    **{
        f"{NAMES[a]} ends in one mode in over half of its runs": above(COLLAPSED[a], 0.5)
        for a in (SLOW, GRPO, TOKENS)
    },
    "with the best learning rate fewer of GRPO's runs end in one mode than with the smallest, by over a tenth": above(
        study.difference("collapsed", of(SLOW), of(GRPO)), 0.1
    ),
    f"when {NAMES[SLOW]} first has over 99 % of its answers in one mode, or ends, the short skill is below 0.45": below(
        study.final("short_then", **of(SLOW)), 0.45
    ),
    **{
        f"without noise {NAMES[arm]} ends in one mode": below(RARER[arm], RARE)
        for arm in (SLOW, GRPO)
    },
    f"control: {CONTROL}, GRPO {FEW}": below(study.share("collapsed", **of(GRPO, FIXED)), 0.25),
    f"control: {CONTROL}, GRPO {FITS}": above(study.final("fits", **of(GRPO, FIXED)), 0.5),
    **{f"{name} {FEW} and {FITS}": keeps(arm) for arm, name in REMEDIES.items()},
    **{f"{name} {BETTER} GRPO's": above(more(arm), 0.02) for arm, name in REMEDIES.items()},
    "DeGRPO at alpha 0.001 ends at most 0.02 in reward below each alpha from 0.0001 to 0.1": lambda r: (
        all_of(above(more(PAPERS, than), -0.02)(r) for than in DEGRPO if than != PAPERS)
    ),
    "without noise first-order MAML keeps both modes at a learning rate at which GRPO ends in one": lambda r: (
        any_of(all_of([above(maml, RARE)(r), below(grpo, RARE)(r)]) for maml, grpo in AT_EACH_RATE)
    ),
    f"without noise first-order MAML {BETTER} GRPO's, each at its best learning rate": lambda r: (
        REWARD[FOMAML](r).exceeds(REWARD[GRPO](r), 0.02)
    ),
    f"HGPO with forced halves {BETTER} GRPO with forced halves": above(
        more(FORCED_HGPO, FORCED_GRPO), 0.02
    ),
    f"placebo: {CONTROL}, after {EARLY} updates no remedy has a reward over 0.01 above GRPO's": lambda r: (
        all_of(below(more(arm, skills=FIXED), 0.01)(r.where(step=EARLY)) for arm in CONTROLLED[1:])
    ),
}
NUMBERS = {f"share of runs that end in one mode, {NAMES[arm]}": COLLAPSED[arm] for arm in NAMES} | {
    f"reward, {name}": study.final("reward", **of(arm))
    for arm, name in ({GRPO: "GRPO"} | REMEDIES).items()
}
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
RUNS = {"part": SAMPLED, "skills": GROWING}
TABLES = [
    study.Table(COLUMNS, f"{{part}}, {skills} skills", {"skills": skills}, each="part")
    for skills in SHORT_SKILL
]
TABLE = study.one_below_the_other(*TABLES)
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
MIDDLE, HIDDEN = ("degrpo(alpha=0.01)",), (TOKENS, "degrpo(alpha=0.0001)", "degrpo(alpha=0.01)")
UPPER = [
    Panel([Line(value, by="arm", where=RUNS, without=HIDDEN)], title, "updates")
    for value, title in LINES.items()
]
LOWER = [
    Panel([Bars(value, by="arm", where=RUNS, without=MIDDLE)], title)
    for value, title in BARS.items()
]
FIGURE = Panels([*UPPER, *LOWER], (19, 9.5), columns=3)

if __name__ == "__main__":
    study.main(__name__)
