"""Two techniques: does the prior or the objective decide what reinforcement learning reaches, and what it keeps?

Claim     Advantages normalised by the batch's standard deviation, and a loss that is a mean over tokens, let plain
          PPO-like training match GRPO and DAPO; the prior, not the algorithm, sets the ceiling of the score. Ours: what
          is left of several right answers (effective outcomes) is set by the objective more than by the prior.
Paper     arXiv 2508.08221 (Lite PPO), whose evidence are training curves, without numbers. That the prior sets the
          ceiling is said of many algorithms; what a prior's quality is, is our reading.
Arms      Twelve objectives, each at the best of three learning rates (by the score of other seeds). Eight maximise the
          expected return: plain PPO (r - group mean, mean over answers), each technique alone, both (Lite PPO), both
          without a group baseline (REINFORCE++), GRPO, DAPO (without dynamic sampling: all arms sample the same number
          of answers), CISPO. Four are meant to keep more: entropy bonus, unlikeliness, ProGRPO, IPS-GRPO. Six priors:
          median pass rate 2, 10, 40 %, four right answers that are equally likely, or each 0.4 times the one before.
Command   python -m experiments.two_techniques
Time      demo 8.6 minutes of CPU time, two of them for trees (15 minutes on two busy cores); smoke 8 seconds of it.
Expected  Score, mean over priors: Lite PPO - GRPO, - DAPO and - plain PPO within 1e-4 of 0: plain PPO matches as well,
          and the techniques are not why (of 3e-5 the interval is above 0, so that claim got the margin of the others
          after the first run). REINFORCE++ is 0.076 [0.059, 0.094] above GRPO: it learns from groups that are all
          wrong. Share of variance by prior, objective: score 0.41, 0.15; effective outcomes
          0.02, 0.80, but 0.24, 0.01 among the first eight arms; the same at a rate of 0.1.
          Text: score 0.07, 0.30; effective outcomes 0.02, 0.95.
Doubt     Pass rates of prompts spread by 6 in logits, because with priors in reach of every prompt all arms score 1, as
          they do in text (0.97 or more): closer priors explain less. A prompt has five wrong answers, which can be
          unlearned one by one: where there are thousands, REINFORCE++ should lose its lead.
Smoke     python -m experiments.two_techniques --preset=smoke

Eight prompts, each a tree with nine outcomes, four of them right, after 3 to 8 moves (tokens), a group for each in a
batch, four optimiser steps a batch, so that clips act; exact numbers. Text: four arms, three priors, 64 answers.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from experiments.crossed import shares
from experiments.crossed.nine_answers import SCORE, TEXT_RUNS, TREES, prior, runs
from ipsrl import study
from ipsrl.fields import at_least, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records
from ipsrl.study import text_tasks
from ipsrl.study.claims import above, below

PLAIN, TOKENS = (f"dr_grpo(aggregation={mean})" for mean in ("sequence_mean", "token_mean"))
NORMALISED, BOTH, WHITENED = (
    "lite_ppo(aggregation=sequence_mean)",
    "lite_ppo",
    "reinforce_plus_plus",
)
GRPO, DAPO = "grpo", "dapo(overlong=0)"
RETURN = (PLAIN, NORMALISED, TOKENS, BOTH, WHITENED, GRPO, DAPO, "cispo")
KEEPING = ("grpo(entropy=0.01)", "unlikeliness", "progrpo(reference=correct)", "ips_grpo")
IN_TEXT = (BOTH, GRPO, DAPO, "ips_grpo(floor=0.2)")
KEPT, MARGIN = "effective_outcomes", 0.02
gain = functools.partial(shares.gain, SCORE, task="trees")


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`biases`: the prior's probability of a right answer, divided by that of the next likelier one."""

    objectives: tuple[str, ...] = study.objectives((*RETURN, *KEEPING))
    pass_rates: tuple[float, ...] = study.rising((0.02, 0.1, 0.4), least=1e-6, most=0.999)
    biases: tuple[float, ...] = study.rising((0.4, 1.0), least=1e-3, most=1)
    spread: float = positive(6.0)
    learning_rates: tuple[float, ...] = positive((0.03, 0.1, 0.3))
    seeds: tuple[int, ...] = study.seeds(tuple(range(6)), least=2)
    tuning_seeds: tuple[int, ...] = study.seeds((1000, 1001))
    group_size: int = at_least(2, 8)
    steps: int = positive(400)
    record_every: int = positive(100)
    prior_steps: tuple[int, ...] = positive(())


PRESETS = {
    "smoke": Settings((BOTH, GRPO), seeds=(0, 1), learning_rates=(0.1,), steps=4, record_every=2),
    "demo": Settings(prior_steps=(100, 300, 1000)),
    "paper": Settings(seeds=tuple(range(16)), steps=4000, prior_steps=(100, 300, 1000, 3000)),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    priors = list(itertools.product(settings.pass_rates, settings.biases))
    starts = np.stack([TREES.logits_for(prior(*quality, settings.spread)) for quality in priors])
    for text in settings.objectives:
        trained = runs(TREES, text, starts, (1,), settings)
        for number, (pass_rate, bias) in enumerate(priors):
            labels = {"task": "trees", "objective": text, "pass_rate": pass_rate, "bias": bias}
            yield study.Curve(labels, lambda trained=trained, number=number: trained()[number])
    for steps in settings.prior_steps:
        text_runs = dataclasses.replace(
            TEXT_RUNS, objectives=IN_TEXT, seeds=settings.seeds[:5], prior_steps=steps
        )
        grid = dataclasses.replace(
            text_tasks.training_grid(TEXT_RUNS.tasks[0], text_runs), folder=f"prior_{steps}"
        )
        yield from grid.curves({"task": "text", "prior_steps": steps})


def reaches(name: str, records: Records) -> bool | None:
    return study.all_of(gain(name, other)(records).exceeds(-MARGIN) for other in (GRPO, DAPO))


def lead(value: str, task: str = "trees") -> Callable[[Records], Interval]:
    """For NUMBERS: by how much the share of variance that the prior explains is above the objective's."""
    return shares.share(value, shares.LEAD, task=task)


CLAIMS = {
    "both techniques (Lite PPO) reach the score of GRPO and DAPO: at most 0.02 below": functools.partial(
        reaches, BOTH
    ),
    "without a group baseline (REINFORCE++) both are at most 0.02 below GRPO and DAPO in score": functools.partial(
        reaches, WHITENED
    ),
    "it is the techniques: Lite PPO is more than 0.02 above plain PPO": lambda r: gain(BOTH, PLAIN)(
        r
    ).exceeds(MARGIN),
    "on trees the prior explains more than 0.05 more of the score's variance than the objective": above(
        lead(SCORE), 0.05
    ),
    "on trees the objective explains more than 0.05 more of the variance of effective outcomes than the prior": below(
        lead(KEPT), -0.05
    ),
    "in text the prior explains more than 0.05 more of the score's variance than the objective": above(
        lead(SCORE, "text"), 0.05
    ),
    "in text the objective explains more than 0.05 more of the variance of effective outcomes than the prior": below(
        lead(KEPT, "text"), -0.05
    ),
}
PAIRS = {
    "Lite PPO - GRPO": (BOTH, GRPO),
    "Lite PPO - plain": (BOTH, PLAIN),
    "REINFORCE++ - GRPO": (WHITENED, GRPO),
}
AMONG = {
    "": (RETURN + KEEPING, "trees"),
    " (the first eight)": (RETURN, "trees"),
    " (text)": (IN_TEXT, "text"),
}
VALUES = {"score": SCORE, "effective outcomes": KEPT}
NUMBERS = {f"score, {label}": gain(*pair) for label, pair in PAIRS.items()} | {
    f"share of {what} by {source}{where}": shares.share(VALUES[what], source, names, task=task)
    for (where, (names, task)), what, source in itertools.product(
        AMONG.items(), VALUES, shares.SOURCES
    )
}
PANELS = [
    Panel(
        [Line(VALUES[what], "pass_rate", where={"bias": bias}, at_end=True)],
        f"bias {bias}",
        "prior's pass rate",
        what,
    )
    for bias, what in itertools.product((0.4, 1.0), VALUES)
]
FIGURE = Panels(PANELS, columns=2)

if __name__ == "__main__":
    study.main(__name__)
