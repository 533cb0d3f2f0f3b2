"""Two techniques: does the prior or the objective decide what reinforcement learning reaches, and what it keeps?

Claim     Advantages normalised by the batch's standard deviation, and a loss that is a mean over tokens, let plain
          PPO-like training match GRPO and DAPO; the prior, not the algorithm, sets the ceiling of the score. Ours: what
          is left of several right answers (effective outcomes) is set by the objective more than by the prior.
Paper     arXiv 2508.08221 (Lite PPO), whose evidence are training curves, without numbers. That the prior sets the
          ceiling is said of many algorithms; what a prior's quality is, is our reading.
Arms      Twelve objectives; with each prior, each half of the seeds has the one of three learning rates that ends with
          the best score for the other half. Eight maximise the expected return: plain PPO (r - group mean, mean over
          answers), each technique alone, both (Lite PPO), both without a group baseline (REINFORCE++), GRPO, DAPO
          (without dynamic sampling: all arms sample the same number of answers), CISPO. Four are meant to keep more:
          entropy bonus, unlikeliness, ProGRPO, IPS-GRPO. Six priors: median pass rate 2, 10, 40 %, four right answers
          that are equally likely, or each 0.4 times the one before.
Command   python -m experiments.two_techniques
Time      demo ten minutes of CPU time, three of them for trees; smoke 8 seconds.
Expected  Lite PPO, GRPO, DAPO and plain PPO have the same mean score: plain PPO matches as well, and the techniques are
          not why (the interval of a tiny difference was above zero, so that claim got the margin of the others after
          the first run). REINFORCE++ is 0.076 [0.050, 0.103] above GRPO: it learns from groups that are all wrong.
          Share of variance by prior and objective: of the score 0.41 and 0.15, of effective outcomes 0.02 and 0.80, but
          hardly any by the objective among the first eight arms. In text the objective explains more of both.
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

from experiments.crossed import nine_answers, shares
from experiments.crossed.nine_answers import SCORE, TEXT_RUNS, TREES, at_best
from ipsrl import study
from ipsrl.checking.fields import positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import text_tasks
from ipsrl.study.claims import Claim, above, every
from ipsrl.study.tuning import of_best

PLAIN = "dr_grpo(aggregation=sequence_mean)"
NORMALISED = "lite_ppo(aggregation=sequence_mean)"
TOKEN_MEAN = "dr_grpo(aggregation=token_mean)"
BOTH = "lite_ppo"
WITHOUT_BASELINE = "reinforce_plus_plus"
GRPO = "grpo"
DAPO = "dapo(overlong=0)"
RETURN = (PLAIN, NORMALISED, TOKEN_MEAN, BOTH, WITHOUT_BASELINE, GRPO, DAPO, "cispo")
KEEPING = ("grpo(entropy=0.01)", "unlikeliness", "progrpo(reference=correct)", "ips_grpo")
IN_TEXT = (BOTH, GRPO, DAPO, "ips_grpo(floor=0.2)")
KEPT = "effective_outcomes"
MARGIN = 0.02


@dataclasses.dataclass(frozen=True)
class Settings(nine_answers.Settings):
    """`biases`: the prior's probability of a right answer, divided by that of the next likelier one."""

    objectives: tuple[str, ...] = study.objectives((*RETURN, *KEEPING))
    pass_rates: tuple[float, ...] = study.rising((0.02, 0.1, 0.4), least=1e-6, most=0.999)
    biases: tuple[float, ...] = study.rising((0.4, 1.0), least=1e-3, most=1)
    spread: float = positive(6.0)
    learning_rates: tuple[float, ...] = positive((0.03, 0.1, 0.3))
    seeds: tuple[int, ...] = study.seeds(range(6), least=2)
    prior_steps: tuple[int, ...] = positive(())


PRESETS = {
    "smoke": Settings(
        objectives=(BOTH, GRPO), seeds=(0, 1), learning_rates=(0.1,), steps=4, record_every=2
    ),
    "demo": Settings(prior_steps=(100, 300, 1000)),
    "paper": Settings(seeds=tuple(range(16)), steps=4000, prior_steps=(100, 300, 1000, 3000)),
}


def curves(settings: Settings) -> study.Curves:
    starts = {
        (pass_rate, bias): TREES.logits_for(nine_answers.prior(pass_rate, bias, settings.spread))
        for pass_rate, bias in itertools.product(settings.pass_rates, settings.biases)
    }
    for objective in settings.objectives:
        of_objective = {"task": "trees", "objective": objective}
        labelled = [
            (of_objective | {"pass_rate": pass_rate, "bias": bias}, logits)
            for (pass_rate, bias), logits in starts.items()
        ]
        yield from nine_answers.curves(TREES, objective, labelled, (1,), settings)
    for steps in settings.prior_steps:
        yield from text_curves(steps, settings.seeds[:5])


def text_curves(prior_steps: int, seeds: tuple[int, ...]) -> study.Curves:
    flags = dataclasses.replace(TEXT_RUNS, objectives=IN_TEXT, seeds=seeds, prior_steps=prior_steps)
    grid = text_tasks.training_grid(flags.tasks[0], flags)
    in_folder = dataclasses.replace(grid, folder=f"prior_{prior_steps}")
    return in_folder.curves({"task": "text", "prior_steps": prior_steps})


def gain(objective: str, other: str) -> study.Number:
    """The score of an objective less that of another on trees, as a mean over priors."""
    score = functools.partial(shares.mean, SCORE, task="trees")
    return at_best(score(objective) - score(other))


def reaches(objective: str) -> Claim:
    """Whether an objective has the score of GRPO and DAPO."""
    return every([above(gain(objective, other), -MARGIN) for other in (GRPO, DAPO)])


def explained(value: str, task: str, objectives: tuple[str, ...] = ()) -> dict[str, study.Number]:
    """Source -> the share of variance that it explains among some objectives, or all."""
    return {
        source: at_best(shares.share(value, source, objectives, task=task))
        for source in ("prior", "objective")
    }


SHARES = {
    "score": explained(SCORE, "trees"),
    "score (text)": explained(SCORE, "text"),
    "effective outcomes": explained(KEPT, "trees"),
    "effective outcomes (the first eight)": explained(KEPT, "trees", RETURN),
    "effective outcomes (text)": explained(KEPT, "text"),
}


def leads(source: str, other: str, result: str) -> Claim:
    """Whether one source explains over 0.05 more of a result's variance than another one."""
    return above(SHARES[result][source], SHARES[result][other], 0.05)


prior_leads = functools.partial(leads, "prior", "objective")
objective_leads = functools.partial(leads, "objective", "prior")
CLAIMS = {
    "both techniques (Lite PPO) reach the score of GRPO and DAPO: at most 0.02 below": reaches(
        BOTH
    ),
    "without a group baseline (REINFORCE++) both are at most 0.02 below GRPO and DAPO in score": reaches(
        WITHOUT_BASELINE
    ),
    "it is the techniques: Lite PPO is more than 0.02 above plain PPO": above(
        gain(BOTH, PLAIN), MARGIN
    ),
    "on trees the prior explains more than 0.05 more of the score's variance than the objective": prior_leads(
        "score"
    ),
    "on trees the objective explains more than 0.05 more of the variance of effective outcomes than the prior": (
        objective_leads("effective outcomes")
    ),
    "in text the prior explains more than 0.05 more of the score's variance than the objective": prior_leads(
        "score (text)"
    ),
    "in text the objective explains more than 0.05 more of the variance of effective outcomes than the prior": (
        objective_leads("effective outcomes (text)")
    ),
}
HEADLINE = study.Headline(
    subject="Groups, prompts and budgets",
    claim=(
        "Two techniques let plain PPO match GRPO and DAPO, and the prior, not the "
        "algorithm, sets the ceiling."
    ),
    scope="trees and text tasks, eight prompts with nine answers",
    decided_by=(
        "both techniques (Lite PPO) reach the score of GRPO and DAPO: at most 0.02 below",
        "it is the techniques: Lite PPO is more than 0.02 above plain PPO",
        (
            "on trees the prior explains more than 0.05 more of the score's variance than the "
            "objective"
        ),
        "in text the prior explains more than 0.05 more of the score's variance than the objective",
    ),
)
NUMBERS = {
    f"share of {result} by {source}": share
    for result, shares_of_result in SHARES.items()
    for source, share in shares_of_result.items()
}
TABLE = of_best(study.Table(), SCORE)
PANELS = [
    Panel(
        [Line(value, "pass_rate", where={"bias": bias}, at_end=True)],
        f"bias {bias}",
        "prior's pass rate",
        label,
    )
    for bias in (0.4, 1.0)
    for value, label in {SCORE: "score", KEPT: "effective outcomes"}.items()
]
FIGURE = of_best(Panels(PANELS, columns=2), SCORE)
