"""Does a decoding penalty on switch tokens (TIP) raise accuracy without training, and does training move the best one?

Claim     Models leave right thoughts too early. A penalty on the tokens that switch to another thought, early in each
          thought, raises accuracy and lowers underthinking without training; too little switching is collapse.
Paper     arXiv 2501.18585 (TIP; QwQ-32B, R1: AIME24 38.3 -> 44.1 and 73.8 -> 74.8), where judges say which thoughts
          are right. The second search, training, placebo and margins are ours, these set after a trial of one prior.
Arms      Paths through 64 random graphs written as thoughts, and small transformers taught on searches: half of them
          leave a right path (`early`), or none does but the first branch is dead in nine of ten graphs (`dead`).
          Penalty alpha 1, 3, 10 in the first beta = 2 or 3 tokens of a thought, or everywhere (100). The same after
          short GRPO and IPS-GRPO without one. Placebo: in the same windows on a vertex, by seed B, C or E, in `early`
          named 4096, 2307, 1987 times beside 3543 switches. Weighted underthinking: right answers count 0. It, the
          placebo and the choice among alphas above 0 replaced others after a demo with these seeds.
Command   python -m experiments.thought_switching
Time      demo five CPU minutes, smoke 20 CPU seconds; paper, not run, hours.
Expected  Five seeds, `early`: accuracy of the prior 0.83, of the best penalty (alpha 3, everywhere) 0.935, of the
          strongest 0.81; switches fall from 0.83 to 0.19, weighted underthinking from 0.100 to 0.006. It gains 0.104,
          in the first 3 tokens half as much, in the first 2 a fifth; on a vertex it costs 0.025, alpha 10 there 0.35.
          Where the first branch is dead it costs 0.03 (undecided). GRPO alone reaches 0.975, and any penalty beyond
          alpha 1 then costs; IPS-GRPO 0.949, where the best alpha of a seed is 1.2 on average, not 3.
Doubt     Fewer switches lower underthinking by themselves: alpha 10 everywhere leaves 0, and less accuracy. Seeds share
          32 graphs; everywhere is one thought's window. Gains on a vertex or after long training would change our mind.
Smoke     python -m experiments.thought_switching --preset=smoke

Alpha and beta have the best mean accuracy over seeds on even prompts, odd ones report; priors and training see all.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from experiments.thought_switching.best_penalty import (
    alpha_moves,
    at,
    best,
    best_alpha,
    by_rule,
    changed,
    gain,
    more,
    strongest,
)
from experiments.thought_switching.thought_switches import PLACEBO, PRIOR, SWITCH, Searchers
from ipsrl import study
from ipsrl.environments.graph_search import GraphSearch
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel
from ipsrl.policies.transformer import Transformer
from ipsrl.study.claims import above, below
from ipsrl.training.settings import TrainSettings

EARLY, DEAD, WEIGHTED = "early", "dead", "weighted_underthinking"
# Probability that the first branch is dead, and that a demonstration leaves a right path.
SEARCHES = {EARLY: (0.1, 0.5), DEAD: (0.9, 0.0)}
GRPO, IPS = TRAINED = ("grpo", "ips_grpo(floor=0.2)")
MARGIN, FLAT = (
    0.02,
    0.01,
)  # Differences of accuracy that do not count in claims, and between the alphas of one seed.


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`answers` to each prompt are sampled under each penalty; `betas` above the longest answer mean everywhere."""

    searches: tuple[str, ...] = one_of(*SEARCHES, default=tuple(SEARCHES))
    objectives: tuple[str, ...] = study.objectives(TRAINED)
    alphas: tuple[float, ...] = study.rising((1.0, 3.0, 10.0), least=0.01, most=100)
    betas: tuple[float, ...] = study.rising((2.0, 3.0, 100.0), least=1, most=100)
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
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
    "paper": Settings(
        seeds=tuple(range(20)), hidden_size=64, prior_steps=1500, steps=200, answers=128
    ),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    names = ("steps", "prompts_per_step", "group_size", "learning_rate")
    training = TrainSettings(**{name: getattr(settings, name) for name in names})
    for search in settings.searches:
        dead_first, early = SEARCHES[search]
        task = GraphSearch(edge_probability=0.3, dead_first=dead_first, problems=settings.problems)
        policy = Transformer(
            task.vocabulary_size, hidden_size=settings.hidden_size, num_layers=settings.num_layers
        )
        searchers = Searchers(task, policy, early, settings.prior_steps, training, settings.answers)
        for objective in (PRIOR, *settings.objectives):
            yield searchers.curve(
                objective, settings.seeds, settings.alphas, settings.betas, {"search": search}
            )


BEST, STRONGEST = best(EARLY), strongest(EARLY)
ON_VERTEX, AFTER = (
    changed(BEST, penalised=PLACEBO),
    {PRIOR: "prior", GRPO: "after GRPO", IPS: "after IPS-GRPO"},
)
EARLY_ON, DEAD_ON = "where switches come too early,", "where the first branch is mostly dead,"
CLAIMS = {
    f"{EARLY_ON} the best penalty on switches raises accuracy by over 0.02 without training": above(
        gain("accuracy", BEST), MARGIN
    ),
    f"{EARLY_ON} the best penalty on switches lowers weighted underthinking by over 0.02 without training": below(
        gain(WEIGHTED, BEST), -MARGIN
    ),
    f"{EARLY_ON} the best penalty lowers weighted underthinking by over 0.02 more on switches than on a vertex": below(
        more(WEIGHTED, BEST, ON_VERTEX), -MARGIN
    ),
    f"{EARLY_ON} the penalty that is best on switches raises accuracy by less than 0.02 on a vertex instead": below(
        gain("accuracy", ON_VERTEX), MARGIN
    ),
    f"{EARLY_ON} the best penalty in the first tokens of a thought scores over 0.02 above the best one everywhere": above(
        more("accuracy", best(EARLY, where="in the first tokens"), best(EARLY, where="everywhere")),
        MARGIN,
    ),
    f"{EARLY_ON} the strongest penalty everywhere scores over 0.02 below the best penalty without training": above(
        more("accuracy", BEST, STRONGEST), MARGIN
    ),
    f"{DEAD_ON} the best penalty on switches raises accuracy by less than 0.02 without training": below(
        gain("accuracy", best(DEAD)), MARGIN
    ),
    f"{DEAD_ON} the penalty that is best where switches come too early lowers accuracy by over 0.02": below(
        gain("accuracy", changed(BEST, search=DEAD)), -MARGIN
    ),
} | {
    f"{EARLY_ON} {sentence} {AFTER[name]}": claim
    for name in TRAINED
    for sentence, claim in {
        "the best penalty on switches raises accuracy by over 0.02": above(
            gain("accuracy", best(EARLY, name)), MARGIN
        ),
        "the best alpha of a seed is over 0.5 below the prior's": below(
            alpha_moves(EARLY, name, FLAT), -0.5
        ),
        "accuracy without a penalty is over 0.02 above the prior's at its best penalty": above(
            more("accuracy", changed(BEST, objective=name, alpha=0.0), BEST), MARGIN
        ),
    }.items()
}
CASES = tuple(itertools.product(SEARCHES, AFTER))
NUMBERS = (
    {
        f"{value} {when}, {search}, {AFTER[name]}": at(value, changed(best(search, name), **labels))
        for search, name in CASES
        for value in (
            ("accuracy", "switches", "underthinking", WEIGHTED) if name == PRIOR else ("accuracy",)
        )
        for when, labels in {"without a penalty": {"alpha": 0.0}, "at the best penalty": {}}.items()
    }
    | {
        f"accuracy gained by {penalty}": gain("accuracy", choice)
        for penalty, choice in {
            **{
                f"{EARLY}'s best penalty, {s}, {AFTER[name]}": changed(
                    BEST, search=s, objective=name
                )
                for s, name in CASES
            },
            **{
                f"{EARLY}'s best alpha in the first {b:g} tokens, prior": changed(BEST, beta=b)
                for b in (2.0, 3.0)
            },
            **{
                f"the strongest penalty everywhere, {search}, prior": strongest(search)
                for search in SEARCHES
            },
            f"the best penalty on a vertex, {EARLY}, prior": ON_VERTEX,
            f"the strongest penalty on a vertex, {EARLY}, prior": changed(
                STRONGEST, penalised=PLACEBO
            ),
        }.items()
    }
    | {
        f"best alpha of a seed, {EARLY}, {when}": best_alpha(EARLY, name, FLAT)
        for name, when in AFTER.items()
    }
    | {
        f"{WEIGHTED} gained by the best penalty on a vertex, {EARLY}, prior": gain(
            WEIGHTED, ON_VERTEX
        ),
    }
)
TITLES = {
    ("accuracy", SWITCH): "accuracy",
    (WEIGHTED, SWITCH): "underthinking",
    ("accuracy", PLACEBO): "placebo",
}
TABLE = study.one_below_the_other(
    *(
        study.Grid(value, "alpha", {"penalised": token}, title)
        for (value, token), title in TITLES.items()
    )
)
FIGURE = by_rule(
    [
        Panel(
            [Line(value, "alpha", "rule", {"objective": name})],
            f"{{search}}, {AFTER[name]}",
            "alpha",
            value,
        )
        for value, name in (
            ("accuracy", PRIOR),
            (WEIGHTED, PRIOR),
            ("accuracy", GRPO),
            ("accuracy", IPS),
        )
    ]
)
