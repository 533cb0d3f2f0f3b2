"""Molecules with one to six routes: which objectives sample them as their rewards say, and which as their routes do?

Claim     Inverse probability scaling samples products in proportion to their reward. That takes the probability of a
          product, not of a route: divided by the latter, mass follows reward times routes. GRPO keeps one product.
Paper     arXiv 2601.21669, section 5.3, trains language models of molecules, where neither routes nor the target can be
          listed; the correction by a backward policy is that of arXiv 2106.04399. The graph is ours: 9 amines and 4
          acids make 112 products by 224 routes; the target is proportional to exp(4 QED).
Arms      GRPO; IPS-GRPO by counts of the group; by exact probabilities with a uniform backward policy, a learned one,
          and none (the placebo: it differs by the routes alone); trajectory balance. All by SGD with one learning rate
          and groups of 16. Controls: all by Adam, as the sizes of their gradients differ, and counts in groups of 128,
          as there are more products than samples in a group.
Command   python -m experiments.molecules_enumerated
Time      demo two minutes on two busy CPU cores (105 CPU seconds), smoke 10 CPU seconds; paper, not run, an estimated
          hour.
Expected  total variation to the target, 95 % interval over 16 seeds: grpo 0.980 [0.979, 0.980], on 1.03 effective
          products, of the best QEDs; counts 0.50 [0.49, 0.51], in groups of 128 0.114 [0.113, 0.116]; exact
          probabilities with a uniform backward policy 0.006 +- 0.001, with a learned one 0.017 +- 0.002, without one
          0.104 +- 0.001; trajectory_balance below 0.001.
          Exponent of the routes: 1.00 without a backward policy, 0.00 with the uniform one, the learned one and
          trajectory balance, all +- 0.02. Adam: total variations within 0.02 of these.
Doubt     Policies that share parameters between molecules; routes by the thousand, as of strings; longer training of
          counts, which still move (in groups of 128 total variation 0.13 after 4,000 updates).
Smoke     python -m experiments.molecules_enumerated --preset=smoke

Policies are tables of logits that start with uniform actions; all numbers are exact for the policy of each seed. Routes
alone, target times routes, lie at a total variation of 0.104; proportional means less than half of it. Exponents are
those of p = constant * routes^b * target^e, by least squares of log p with the target's weights: the target has b = 0
and e = 1, the placebo's optimum b = 1 and e = 1. The limits for exponents of counts were chosen after a trial run.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ipsrl import study
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.fields import between, positive
from ipsrl.figures import against_target, style
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel
from ipsrl.measures import distances, diversity
from ipsrl.measures.power_law import exponents
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.records.line_styles import line_styles
from ipsrl.records.tidy import Records
from ipsrl.study.claims import all_of, close

GRPO, COUNTS, EXACT, LEARNED, PLACEBO, BALANCE = SIX = (
    "grpo",
    "ips_grpo",
    "ips_grpo(probability=exact)",
    "ips_grpo(probability=exact(backward=learned))",
    "ips_grpo(probability=exact(backward=none))",
    "trajectory_balance",
)
SGD, ADAM, LARGE = "sgd", "adam", "sgd, large groups"


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`learning_rate` is that of SGD, `adam_rate` that of Adam; counts are tried in groups of `large_group` as well."""

    objectives: tuple[str, ...] = study.objectives(SIX)
    sharpness: float = between(0, 30, 4.0)
    seeds: tuple[int, ...] = study.seeds(tuple(range(16)), least=2)
    large_group: int = between(2, 4096, 128)
    learning_rate: float = positive(0.5)
    adam_rate: float = positive(0.01)
    steps: int = positive(2400)
    record_every: int = positive(120)


PRESETS = {
    "smoke": Settings((COUNTS, EXACT), seeds=(0, 1), large_group=32, steps=20, record_every=5),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(64)), steps=40_000, record_every=400),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    each = functools.partial(arm, Reactions(sharpness=settings.sharpness), settings)
    for text in settings.objectives:
        yield each(SGD, text)
    if COUNTS in settings.objectives:
        yield each(LARGE, COUNTS, group_size=settings.large_group)
    for text in settings.objectives:
        yield each(ADAM, text, optimizer="adam", learning_rate=settings.adam_rate)


def arm(reactions: Reactions, settings: Settings, training: str, text: str, **changed: Any) -> study.Curve:
    """The curve of one objective, with the probabilities of the products at the end of the first seed's training."""
    policy = Tabular(reactions.num_observations, reactions.vocabulary_size)

    def record(parameters: Any) -> dict[str, Any]:
        return {"probs": outcome_probs(reactions, policy, parameters)}

    labels = {"objective": text, "training": training}
    trained = study.trained(reactions, policy, text, settings, record, labels=labels, **changed)

    def compute() -> study.Points:
        found = trained.compute()
        probs = found.values["probs"]
        return dataclasses.replace(found, values=measures(probs, reactions), arrays={"probs": probs[0, -1]})

    return dataclasses.replace(trained, compute=compute)


def measures(probs: np.ndarray, reactions: Reactions) -> dict[str, np.ndarray]:
    """Name -> `[S, U]`, from distributions over products, `[S, U, K]`."""
    target, routes = reactions.outcome_space(0).target, reactions.route_counts()
    powers = exponents(probs, np.stack([routes, target]), weights=target)
    return {
        "total_variation": np.asarray(distances.total_variation(probs, target)),
        "effective_products": np.asarray(diversity.effective_outcomes_of_distribution(probs)),
        "qed": probs @ reactions.graph.qed,
        "routes": probs @ routes,
        "routes_exponent": powers[..., 0],
        "reward_exponent": powers[..., 1],
    }


def proportional(**labels: str) -> study.Claim:
    variation, exponent = (study.final(value, **labels) for value in ("total_variation", "routes_exponent"))
    return lambda records: all_of([study.below(variation, 0.05)(records), close(exponent(records), 0.0, 0.1)])


def follows_routes(**labels: str) -> study.Claim:
    one, other = ({"objective": text} | labels for text in (PLACEBO, EXACT))
    further, exponent = study.difference("total_variation", one, other), study.final("routes_exponent", **one)
    return lambda records: all_of([study.above(further, 0.05)(records), close(exponent(records), 1.0, 0.1)])


def settled(records: Records) -> bool | None:
    curves = [rows.curve("total_variation") for _, rows in records.each("objective")]
    late = [values.mean(axis=0)[steps >= 0.75 * steps[-1]] for steps, values in curves]
    return all_of(bool(np.abs(values - values[-1]).max() < 0.02) for values in late)


def claims_of(called: str, training: str) -> dict[str, study.Claim]:
    one, on = functools.partial(study.final, training=training), {"training": training}
    claims = {"GRPO keeps one product: fewer than 2 effective ones": study.below(one(KEPT, objective=GRPO), 2)}
    claims |= {f"{NAMES[text]} {IN_PROPORTION}": proportional(objective=text, **on) for text in AIMED}
    claims |= {
        "without a backward policy routes count in full: their exponent is within 0.1 of 1, and the total variation is "
        "more than 0.05 above that with a uniform one": follows_routes(**on),
        "counts are not drawn to products with more routes: the exponent of the routes is below 0.1": study.below(
            one("routes_exponent", objective=COUNTS), 0.1
        ),
        "counts sharpen the target: the exponent of the reward is above 1.5": study.above(
            one("reward_exponent", objective=COUNTS), 1.5
        ),
        "the total variation of no arm moves by 0.02 in the last quarter": study.among(settled, **on),
    }
    return {f"{called}: {sentence}": claim for sentence, claim in claims.items()}


KEPT, AIMED = "effective_products", (COUNTS, EXACT, LEARNED, BALANCE)
IN_PROPORTION = "samples in proportion to reward: total variation below 0.05, exponent of the routes within 0.1 of 0"
NAMES = {
    GRPO: "GRPO",
    COUNTS: "IPS-GRPO by counts",
    EXACT: "IPS-GRPO with a uniform backward policy",
    LEARNED: "IPS-GRPO with a learned backward policy",
    PLACEBO: "IPS-GRPO without a backward policy",
    BALANCE: "trajectory balance",
}
GROUPS = [{"objective": COUNTS, "training": training} for training in (SGD, LARGE)]
CLAIMS = claims_of("SGD", SGD) | claims_of("Adam", ADAM)
CLAIMS |= {
    "in groups of 128 counts end nearer to the target than in groups of 16, by more than 0.05": study.above(
        study.difference("total_variation", *GROUPS), 0.05
    ),
    f"in groups of 128 {NAMES[COUNTS]} {IN_PROPORTION}": proportional(**GROUPS[1]),
}
MAIN = {"total_variation": "total variation", "routes_exponent": "exponent of the routes"}
NUMBERS = {
    f"{name}, {called}": study.final(value, objective=text, training=SGD)
    for value, called in MAIN.items()
    for text, name in NAMES.items()
}
COLUMNS = MAIN | {"reward_exponent": "of the reward", KEPT: "effective products", "qed": "QED", "routes": "routes"}
TITLE = "{training}, means over seeds {seeds} [95 % bootstrap interval]"
TABLE = study.Table(COLUMNS, TITLE, rows=("objective",), each="training")


def figure(records: Records, settings: Settings) -> style.Drawing:
    """Total variation under SGD over training, and the products' probabilities at the end for the first seed."""
    reactions, records = Reactions(sharpness=settings.sharpness), records.where(training=SGD)
    target, routes = reactions.outcome_space(0).target, reactions.route_counts()
    names, line = records.distinct("objective"), Line("total_variation")
    learned = {name: records.array("probs", objective=name, training=SGD) for name in names}
    panel = Panel([line], xlabel="updates", ylabel="total variation", yscale="log")
    with style.looks():
        drawn = Figure(figsize=(14, 5.4))
        left, right = drawn.subfigures(1, 2, width_ratios=(1.0, 1.3))
        panel.draw(left.subplots(), records, line_styles(names), settings)
        against_target.draw(right, learned, target, routes, "routes")
    shown = against_target.rows(learned, target, routes, "routes", reactions.outcome_names())
    return style.Drawing(drawn, [*line.rows(records), *shown])


FIGURE = figure

if __name__ == "__main__":
    study.main(__name__)
