"""Slower drains: do the methods against entropy collapse keep several right outcomes, or lose them later?

Claim     Ten methods keep entropy, where GRPO collapses: Clip-Cov, KL-Cov, GPPO, CE-GPPO, CISPO, DAPO's clip, a bonus
          of 0.01 H, AER, Skywork's control, Entrocraft. Its sharp form, ours: they slow the drain and none changes
          where it ends, as none changes the reward.
Paper     arXiv 2505.22617, 2508.07629, 2509.20712, 2506.13585, 2503.14476, 2510.10959, 2505.22312, 2604.26326.
Arms      The ten; GRPO, the negative control; IPS-GRPO, which changes the reward, the positive one. The placebo is GRPO
          with a quarter of the step: is a delay more than slow learning? All at k = 1, 2, 4, 8 steps on each batch,
          with equal samples. Exact: three outcomes, two of them right, by expected updates from twelve policies.
          Sampled: four right outcomes and a wrong one. On one prompt that gets solved AER is GRPO, as it gives solved
          prompts no bonus: no claim is made of it.
Command   python -m experiments.slower_drains
Time      demo nine minutes of one CPU core, smoke half a minute; paper, not run, hours.
Expected  Right outcomes of four at eight steps on a batch: grpo 1.69 [1.50, 1.87], kl_cov 1.28 [1.16, 1.40], the bonus
          4.00 [3.99, 4.00], ips_grpo 3.76 [3.69, 3.83]. Exactly, all clips and covariance methods collapse at every
          number of steps, and gppo, ce_gppo and cispo faster than GRPO: they let through what its clip stops. The bonus
          keeps both, as c H is a reward of -c log p. Skywork's control rests at one outcome and a trace, which has no
          word; Entrocraft delays, but not at the most steps.
Doubt     Steps of 0.5 are large: in steps of 0.1 (k = 8) gppo and cispo are still faster, 144 and 149 batches to 238 of
          grpo, but kl_cov (272) and Entrocraft (over 3,000) delay. An answer is one token: a method that keeps more
          than the placebo at equal reward in long answers would change our mind.
Smoke     python -m experiments.slower_drains --preset=smoke

The word is that of `ipsrl.dynamics.verdict` for rewards 1, 1, 0 alone, after --steps batches (`other`: not at an end,
too). The half-time is the batches until half of what was above one effective right outcome is gone, or --steps; the
exact one is from 0.5 : 0.3 : 0.2. Clip-Cov's mean is over one key and all rotations of a group: not quite exact.
"""

import dataclasses
import functools

import numpy as np

from experiments.slower_drains.drains import LATER, MORE, delay, elsewhere, exact, measures
from ipsrl import objectives, study
from ipsrl.checking.fields import at_least, between, positive
from ipsrl.dynamics.expected_update import LARGEST_GROUP_OF_THREE, Steps
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.policies.tabular import Tabular

CLIPS = {
    "clip_cov": "Clip-Cov",
    "kl_cov": "KL-Cov",
    "gppo": "GPPO",
    "ce_gppo": "CE-GPPO",
    "cispo": "CISPO",
    "dapo(overlong=0)": "DAPO's clip",
}
CONTROLS = {
    "grpo(entropy=0.01)": "the bonus",
    "aer": "AER",
    "skywork_entropy": "Skywork's control",
    "entrocraft": "Entrocraft",
}
METHODS = CLIPS | CONTROLS
CLAIMED = {name: label for name, label in METHODS.items() if name != "aer"}
PLACEBO, SLOWER = "grpo, quarter of the step", 4
MOST, SEVERAL = 8, (2, 4, 8)  # Steps on a batch.
REWARDS = (1.0, 1.0, 1.0, 1.0, 0.0)
START = (0.2, 0.14, 0.1, 0.06, 0.5)


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`passes` are the optimiser steps on each of `steps` batches; a step of SGD has the size `learning_rate`."""

    objectives: tuple[str, ...] = study.objectives(("grpo", *METHODS, "ips_grpo"))
    passes: tuple[int, ...] = study.rising((1, *SEVERAL), least=1, most=64)
    seeds: tuple[int, ...] = study.seeds(range(32), least=2)
    group_size: int = between(2, LARGEST_GROUP_OF_THREE, 8)
    learning_rate: float = positive(0.5)
    steps: int = at_least(8, 2000)
    record_every: int = positive(1)


PRESETS = {
    "smoke": Settings(
        ("grpo", "gppo", "ips_grpo"), seeds=(0, 1, 2, 3), group_size=4, steps=400, passes=(2,)
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), steps=20_000),
}


def curves(settings: Settings) -> study.Curves:
    rate, slow_rate = settings.learning_rate, settings.learning_rate / SLOWER
    for text in settings.objectives:
        yield from both_sides(text, text, rate, settings)
    yield from both_sides(PLACEBO, "grpo", slow_rate, settings)


def both_sides(label: str, text: str, rate: float, settings: Settings) -> study.Curves:
    """An objective, exact and sampled, at each number of steps on a batch."""
    bandit = Bandit(REWARDS)
    policy = Tabular.of(bandit, np.log(START))
    measure = functools.partial(measures, rewards=REWARDS, every=settings.record_every)
    for k in settings.passes:
        labels = {"objective": label, "k": k}
        flow = functools.partial(exact, objectives.make(text), Steps(k, rate), settings)
        yield study.Curve({"side": "exact", **labels}, flow)
        yield study.trained(
            bandit,
            policy,
            text,
            settings,
            measure=measure,
            labels={"side": "sampled", **labels},
            learning_rate=rate,
            epochs=k,
            whole_runs=True,
        )


def more(value: str, name: str, rival: str) -> study.Number:
    """A sampled value at the end less that of a rival, at most steps on a batch."""
    at_most = {"side": "sampled", "k": MOST}
    return study.difference(value, at_most | {"objective": name}, at_most | {"objective": rival})


def ends_as(name: str, word: str = "") -> study.Claim:
    """Whether exact training ends at a word, by default GRPO's, at each number of steps on a batch."""
    return study.at_each("k", study.below(elsewhere(name, word), 0.5), side="exact")


AT_MOST = f"at {MOST} steps on a batch (sampled)"
CLAIMS = {
    **{
        f"{label} ends with over {MORE} more right outcomes of 4 than GRPO, {AT_MOST}": study.above(
            more("effective", name, "grpo"), MORE
        )
        for name, label in CLAIMED.items()
    },
    **{
        f"{label} has over {MORE} more right outcomes of 4 when its reward first is 0.9 than GRPO with a quarter of "
        f"the step, {AT_MOST}": study.above(more("at_bar", name, PLACEBO), MORE)
        for name, label in CLAIMED.items()
    },
    **{
        f"{label} delays GRPO's half-time by over a tenth at 2, 4 and 8 steps on a batch (exact)": study.every(
            study.above(delay(name).within(k=k), LATER) for k in SEVERAL
        )
        for name, label in CLAIMED.items()
    },
    "no clip and no covariance method changes where GRPO ends (exact)": study.every(
        ends_as(name) for name in CLIPS
    ),
    **{
        f"{label} does not change where GRPO ends (exact)": ends_as(name)
        for name, label in CLAIMED.items()
        if name in CONTROLS
    },
    "GRPO collapses (exact)": ends_as("grpo", "collapses"),
    "IPS-GRPO keeps both right outcomes alike (exact)": ends_as("ips_grpo", "uniform over correct"),
}
HEADLINE = study.Headline(
    subject="Entropy and exploration",
    claim="Methods against entropy collapse keep right outcomes that GRPO loses.",
    scope="a bandit with four right outcomes, sampled and exact",
    decided_by=tuple(
        each for each in CLAIMS if "more right outcomes of 4 than GRPO, at 8 steps" in each
    ),
)
EXACT = {"side": "exact"}
SAMPLED = {"side": "sampled"}
TABLE = study.one_below_the_other(
    study.Grid("word", "k", EXACT, "where training ends, by k steps on a batch (exact)"),
    study.Grid("half_time", "k", EXACT, "half-time in batches (exact, at most {steps})"),
    study.Grid("effective", "k", SAMPLED, "effective right outcomes of 4 at the end (sampled)"),
    study.Grid("at_bar", "k", SAMPLED, "the same when the reward first is 0.9 (sampled)"),
)
AXES = {"xlabel": "steps on each batch, k (aer is as grpo)", "xscale": "log2"}
HIDDEN = ("aer",)
HALF_TIMES = Line("half_time", "k", where=EXACT, without=HIDDEN)
KEPT = Line("effective", "k", where=SAMPLED, without=HIDDEN)
FIGURE = Panels(
    [
        Panel([HALF_TIMES], ylabel="half-time, exact (batches)", yscale="log", **AXES),
        Panel([KEPT], ylabel="effective right outcomes of 4, sampled", **AXES),
    ],
    size=(13, 5.2),
)
