"""Does a decoding penalty on switch tokens (TIP) raise accuracy without training, and does training move the best one?

Claim     Models leave right thoughts too early. A penalty on the tokens that switch to another thought, early in each
          thought, raises accuracy and lowers underthinking without training; too little switching is collapse.
Paper     arXiv 2501.18585 (TIP; QwQ-32B, R1: AIME24 38.3 -> 44.1 and 73.8 -> 74.8), where judges say which thoughts
          are right. The second search, training and the random token are ours; so are the margins, set after a trial
          of one prior.
Arms      Paths through 64 random graphs written as thoughts, and small transformers taught on searches: half of them
          leave a right path (`early`), or none does but the first branch is dead in nine of ten graphs (`dead`).
          Penalty alpha 1, 3, 10 in the first beta = 2 or 3 tokens of a thought, or everywhere (100). Placebo: on a
          vertex named about as often as searches switch. The same after short GRPO and IPS-GRPO without a penalty.
Command   python -m experiments.thought_switching
Time      demo five CPU minutes, smoke 20 CPU seconds; paper, not run, hours.
Expected  Five seeds, `early`: accuracy of the prior 0.83, of the best penalty (alpha 3, everywhere) 0.935, of the
          strongest 0.81; switches fall from 0.83 to 0.19, underthinking from 0.59 to 0.09. In the first 2 or 3 tokens
          it gains half as much; on a random token nothing. Where the first branch is dead it lowers 0.98 to 0.95. GRPO
          alone reaches 0.975, and any penalty beyond alpha 1 then costs; IPS-GRPO 0.949 with alpha 1 still best.
Doubt     The intervals are over seeds on the same 32 graphs. Thoughts have at most four tokens, so that everywhere is
          a window of one thought. A gain that stays after longer training, or on a random token, would change our mind.
Smoke     python -m experiments.thought_switching --preset=smoke

The best alpha and beta, of placebos too, have the highest mean accuracy over seeds on the even prompts; reported are
the odd ones. Priors and training see all. A seed decides initial policy, order of demonstrations, samples and token.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from ipsrl import study
from ipsrl.environments.graph_search import GraphSearch
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.policies.transformer import Transformer
from ipsrl.records.tidy import Records
from ipsrl.study.claims import above, below
from ipsrl.study.worlds.best_penalty import alpha_moves, at, best, best_alpha, changed, gain, more, strongest
from ipsrl.study.worlds.thought_switches import PRIOR, RANDOM, SWITCH, Searchers
from ipsrl.training.settings import TrainSettings

EARLY, DEAD = "early", "dead"
# Probability that the first branch is dead, and that a demonstration leaves a right path.
SEARCHES = {EARLY: (0.1, 0.5), DEAD: (0.9, 0.0)}
GRPO, IPS = TRAINED = ("grpo", "ips_grpo(floor=0.2)")
MARGIN, FLAT = 0.02, 0.01  # Differences of accuracy that do not count in claims, and between the alphas of one seed.


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
        searches=(EARLY,), objectives=(GRPO,), alphas=(3.0,), betas=(2.0, 100.0), seeds=(0, 1), problems=8,
        hidden_size=16, num_layers=1, prior_steps=4, steps=1, prompts_per_step=4, group_size=4, answers=4,
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), hidden_size=64, prior_steps=1500, steps=200, answers=128),
}  # fmt: skip


def curves(settings: Settings) -> Iterator[study.Curve]:
    names = ("steps", "prompts_per_step", "group_size", "learning_rate")
    training = TrainSettings(**{name: getattr(settings, name) for name in names})
    for search in settings.searches:
        dead_first, early = SEARCHES[search]
        task = GraphSearch(edge_probability=0.3, dead_first=dead_first, problems=settings.problems)
        policy = Transformer(task.vocabulary_size, hidden_size=settings.hidden_size, num_layers=settings.num_layers)
        searchers = Searchers(task, policy, early, settings.prior_steps, training, settings.answers)
        for objective in (PRIOR, *settings.objectives):
            yield searchers.curve(objective, settings.seeds, settings.alphas, settings.betas, {"search": search})


BEST, AFTER = best(EARLY), {PRIOR: "prior", GRPO: "after GRPO", IPS: "after IPS-GRPO"}
EARLY_ON, DEAD_ON = "where switches come too early,", "where the first branch is mostly dead,"
CLAIMS = {
    f"{EARLY_ON} the best penalty on switches raises accuracy by over 0.02 without training":
        above(gain("accuracy", BEST), MARGIN),
    f"{EARLY_ON} the best penalty on switches lowers the underthinking score by over 0.02 without training":
        below(gain("underthinking", BEST), -MARGIN),
    f"{EARLY_ON} the best penalty on a random token raises accuracy by less than 0.02 without training":
        below(gain("accuracy", best(EARLY, penalised=RANDOM)), MARGIN),
    f"{EARLY_ON} the best penalty in the first tokens of a thought scores over 0.02 above the best one everywhere":
        above(more("accuracy", best(EARLY, where="in the first tokens"), best(EARLY, where="everywhere")), MARGIN),
    f"{EARLY_ON} the strongest penalty everywhere scores over 0.02 below the best penalty without training":
        above(more("accuracy", BEST, strongest(EARLY)), MARGIN),
    f"{DEAD_ON} the best penalty on switches raises accuracy by less than 0.02 without training":
        below(gain("accuracy", best(DEAD)), MARGIN),
    f"{DEAD_ON} the penalty that is best where switches come too early lowers accuracy by over 0.02":
        below(gain("accuracy", changed(BEST, search=DEAD)), -MARGIN),
} | {
    f"{EARLY_ON} {sentence} {AFTER[name]}": claim
    for name in TRAINED
    for sentence, claim in {
        "the best penalty on switches raises accuracy by over 0.02": above(gain("accuracy", best(EARLY, name)), MARGIN),
        "the best alpha of a seed is over 0.5 below the prior's": below(alpha_moves(EARLY, name, FLAT), -0.5),
        "accuracy without a penalty is over 0.02 above the prior's at its best penalty":
            above(more("accuracy", changed(BEST, objective=name, alpha=0.0), BEST), MARGIN),
    }.items()
}  # fmt: skip
NUMBERS = {
    f"{value} {when}, {search}, {AFTER[name]}": at(value, choice)
    for search, name in itertools.product(SEARCHES, AFTER)
    for value in (("accuracy", "switches", "underthinking") if name == PRIOR else ("accuracy",))
    for when, choice in {
        "without a penalty": changed(best(search, name), alpha=0.0), "at the best penalty": best(search, name)
    }.items()
} | {
    f"accuracy gained by the best penalty on a random token, {EARLY}, prior":
        gain("accuracy", best(EARLY, penalised=RANDOM)),
    **{f"best alpha of a seed, {EARLY}, {when}": best_alpha(EARLY, name, FLAT) for name, when in AFTER.items()},
}  # fmt: skip
TITLES = {("accuracy", SWITCH): "accuracy", ("underthinking", SWITCH): "underthinking", ("accuracy", RANDOM): "placebo"}
TABLE = study.one_below_the_other(
    *(study.Grid(value, "alpha", {"penalised": token}, title) for (value, token), title in TITLES.items())
)
PANELS = [
    Panel([Line(value, "alpha", "rule", {"objective": name})], f"{{search}}, {AFTER[name]}", "alpha", value)
    for value, name in (("accuracy", PRIOR), ("underthinking", PRIOR), ("accuracy", GRPO), ("accuracy", IPS))
]


def FIGURE(records: Records, settings: Settings) -> Drawing:
    most, rows = settings.betas[-1], []
    for row in records.rows:
        rule = "everywhere" if row["beta"] == most else f"first {row['beta']:g} tokens"
        if row["penalised"] == SWITCH or row["beta"] == most:
            rows.append({**row, "rule": rule if row["penalised"] == SWITCH else "random token"})
    return Panels(PANELS, each="search")(Records(rows, (*records.labels, "rule")), settings)


if __name__ == "__main__":
    study.main(__name__)
