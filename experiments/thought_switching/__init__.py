"""Does a decoding penalty on switch tokens (TIP) raise accuracy without training, and does training move the best one?

Claim     Models leave right thoughts too early. A penalty on the tokens that switch to another thought, early in each
          thought, raises accuracy and lowers underthinking without training; too little switching is collapse.
Paper     arXiv 2501.18585 (TIP; QwQ-32B, R1: AIME24 38.3 -> 44.1 and 73.8 -> 74.8), where judges say which thoughts
          are right. The second search, training, placebo and margins are ours, these set after a trial of one prior.
Arms      Paths through 64 random graphs written as thoughts, and small transformers taught on searches: half of them
          leave a right path (`early`), or none does but the first branch is dead in nine of ten graphs (`dead`).
          Penalty alpha 1, 3, 10 in the first beta = 2 or 3 tokens of a thought, or everywhere (100). The same after
          40 updates of GRPO and of IPS-GRPO without a penalty, by Adam at a rate of 0.001 that we chose. Placebo: the
          penalty on the name of a vertex in the same windows, by seed B, C or E, each in `early` about as frequent as
          switches are. Weighted underthinking: right answers count 0. It, the placebo and the choice among alphas above
          0 replaced others after a demo with other seeds.
Command   python -m experiments.thought_switching
Time      demo five CPU minutes, smoke 20 CPU seconds.
Expected  Where switches come too early, the best penalty, the middle alpha everywhere, raises accuracy from 0.835 to
          0.928 and lowers weighted underthinking from 0.096 to 0.007; in the first tokens of a thought it gains less,
          and on a vertex it costs. Where the first branch is dead it costs a little (undecided). GRPO alone reaches
          0.979, and any penalty beyond the weakest then costs.
Doubt     Fewer switches lower underthinking by themselves: alpha 10 everywhere leaves 0, and less accuracy. Seeds share
          32 graphs; everywhere is one thought's window. Gains on a vertex or after long training would change our mind.
Smoke     python -m experiments.thought_switching --preset=smoke

Alpha and beta have the best mean accuracy over seeds on even prompts, odd ones report; priors and training see all.
"""

import dataclasses

from experiments.thought_switching.best_penalty import (
    EVERYWHERE,
    FIRST_TOKENS,
    at,
    best,
    best_alpha,
    by_rule,
    gain,
    strongest,
)
from experiments.thought_switching.early_switches import EarlySwitches
from experiments.thought_switching.thought_switches import PLACEBO, PRIOR, SWITCH, Searchers
from ipsrl import study
from ipsrl.checking.fields import any_of, between, positive
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.records.tidy import Records
from ipsrl.study import above, below

EARLY, DEAD = "early", "dead"
# Probability that the first branch is dead, and that a demonstration leaves a right path.
SEARCHES = {EARLY: (0.1, 0.5), DEAD: (0.9, 0.0)}
GRPO, IPS = "grpo", "ips_grpo(floor=0.2)"
NAMES = {GRPO: "GRPO", IPS: "IPS-GRPO"}
ACCURACY, WEIGHTED = "accuracy", "weighted_underthinking"
MARGIN = 0.02
"""Differences of accuracy that do not count in claims."""


@dataclasses.dataclass(frozen=True)
class Settings(study.SmallTransformers):
    """`answers` to each prompt are sampled under each penalty; `betas` above the longest answer mean everywhere."""

    searches: tuple[str, ...] = any_of(SEARCHES)
    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    alphas: tuple[float, ...] = study.rising((1.0, 3.0, 10.0), least=0.01, most=100)
    betas: tuple[float, ...] = study.rising((2.0, 3.0, 100.0), least=1, most=100)
    seeds: tuple[int, ...] = study.seeds(range(100, 105), least=2)
    problems: int = between(2, 1024, 64)
    hidden_size: int = positive(32)
    num_layers: int = positive(2)
    prior_steps: int = positive(400)
    steps: int = positive(40)
    prompts_per_step: int = positive(16)
    group_size: int = positive(16)
    learning_rate: float = positive(1e-3)
    answers: int = positive(32)


PRESETS = {
    "smoke": Settings(
        searches=(EARLY,),
        objectives=(GRPO,),
        alphas=(100.0,),
        betas=(2.0, 100.0),
        seeds=(0, 1),
        problems=8,
        hidden_size=16,
        num_layers=1,
        prior_steps=4,
        steps=1,
        prompts_per_step=4,
        group_size=4,
        answers=4,
    ),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    for search in settings.searches:
        dead_first, early = SEARCHES[search]
        task = GraphSearch(edge_probability=0.3, dead_first=dead_first, problems=settings.problems)
        searchers = Searchers(
            task,
            settings.transformer(task),
            EarlySwitches(early),
            settings.prior_steps,
            training=settings.training(),
            answers=settings.answers,
        )
        for objective in (PRIOR, *settings.objectives):
            yield searchers.curve(
                objective, settings.seeds, settings.alphas, settings.betas, search
            )


BEST = best(EARLY)
CLAIMS = {
    "where switches come too early, the best penalty on switches raises accuracy by over 0.02"
    " without training": above(gain(ACCURACY, BEST), MARGIN),
    "where switches come too early, the best penalty on switches lowers weighted underthinking by"
    " over 0.02 without training": below(gain(WEIGHTED, BEST), -MARGIN),
    "where switches come too early, the best penalty lowers weighted underthinking by over 0.02"
    " more on switches than on a vertex": below(
        at(WEIGHTED, BEST), at(WEIGHTED, BEST, penalised=PLACEBO), MARGIN
    ),
    "where switches come too early, the penalty that is best on switches raises accuracy by less"
    " than 0.02 on a vertex instead": below(gain(ACCURACY, BEST, penalised=PLACEBO), MARGIN),
    "where switches come too early, the best penalty in the first tokens of a thought scores over"
    " 0.02 above the best one everywhere": above(
        at(ACCURACY, best(EARLY, window=FIRST_TOKENS)),
        at(ACCURACY, best(EARLY, window=EVERYWHERE)),
        MARGIN,
    ),
    "where switches come too early, the strongest penalty everywhere scores over 0.02 below the"
    " best penalty without training": below(
        at(ACCURACY, strongest(EARLY)), at(ACCURACY, BEST), MARGIN
    ),
    "where the first branch is mostly dead, the best penalty on switches raises accuracy by less"
    " than 0.02 without training": below(gain(ACCURACY, best(DEAD)), MARGIN),
    "where the first branch is mostly dead, the penalty that is best where switches come too early"
    " lowers accuracy by over 0.02": below(gain(ACCURACY, BEST, search=DEAD), -MARGIN),
}


def claims_after(objective: str) -> dict[str, study.Claim]:
    after = f"after {NAMES[objective]}"
    return {
        "where switches come too early, the best penalty on switches raises accuracy by over 0.02"
        f" {after}": above(gain(ACCURACY, best(EARLY, objective)), MARGIN),
        "where switches come too early, the best alpha of a seed is over 0.5 below the prior's"
        f" {after}": below(best_alpha(EARLY, objective), best_alpha(EARLY, PRIOR), 0.5),
        "where switches come too early, accuracy without a penalty is over 0.02 above the prior's"
        f" at its best penalty {after}": above(
            at(ACCURACY, BEST, objective=objective, alpha=0.0), at(ACCURACY, BEST), MARGIN
        ),
    }


CLAIMS |= claims_after(GRPO) | claims_after(IPS)
HEADLINE = study.Headline(
    subject="Thinking, planning and computation at test time",
    claim=(
        "A penalty on tokens that switch thoughts early raises accuracy and lowers "
        "underthinking without training."
    ),
    scope="graph searches, small transformers that switch too early",
    decided_by=(
        (
            "where switches come too early, the best penalty on switches raises accuracy by over "
            "0.02 without training"
        ),
        (
            "where switches come too early, the best penalty on switches lowers weighted "
            "underthinking by over 0.02 without training"
        ),
    ),
)
NUMBERS = {
    "switches without a penalty, early, prior": at("switches", BEST, alpha=0.0),
    "switches at the best penalty, early, prior": at("switches", BEST),
}
TABLE = study.one_below_the_other(
    study.Grid(ACCURACY, "alpha", {"penalised": SWITCH}, "accuracy"),
    study.Grid(WEIGHTED, "alpha", {"penalised": SWITCH}, "underthinking"),
    study.Grid(ACCURACY, "alpha", {"penalised": PLACEBO}, "placebo"),
)


def panel(value: str, objective: str, title: str) -> Panel:
    return Panel([Line(value, "alpha", "rule", {"objective": objective})], title, "alpha", value)


PANELS = [
    panel(ACCURACY, PRIOR, "{search}, prior"),
    panel(WEIGHTED, PRIOR, "{search}, prior"),
    panel(ACCURACY, GRPO, "{search}, after GRPO"),
    panel(ACCURACY, IPS, "{search}, after IPS-GRPO"),
]


def FIGURE(records: Records, settings: Settings) -> Drawing:
    return Panels(PANELS, each="search")(by_rule(records), settings)
