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
Expected  By SGD the total variation to the target is 0.980 [0.979, 0.980] for GRPO, which ends on one product; 0.50
          [0.49, 0.51] for counts, and 0.114 [0.113, 0.116] in large groups; of exact probabilities 0.006 +- 0.001 with
          a uniform backward policy, and 0.104 +- 0.001 without one, where products count in full by their routes.
          A learned backward policy does nearly as well as the uniform one, trajectory balance better, and Adam the
          same as SGD for all.
Doubt     Policies that share parameters between molecules; routes by the thousand, as of strings; longer training of
          counts, which still move (in groups of 128 total variation 0.13 after 4,000 updates).
Smoke     python -m experiments.molecules_enumerated --preset=smoke

Policies are tables of logits that start with uniform actions; all numbers are exact for the policy of each seed. Routes
alone, target times routes, lie at a total variation of 0.104; proportional means less than half of it. Exponents are
defined in `reaction_products`; the claims' limits for those of counts were chosen after a trial run.
"""

import dataclasses
from functools import partial

from experiments.molecules_enumerated.reaction_products import ADAM, LARGE, MOVED, SGD, arm
from ipsrl import study
from ipsrl.checking.fields import between, positive
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import above, below, difference, every, final, near

NAMES = {
    "grpo": "GRPO",
    "ips_grpo": "IPS-GRPO by counts",
    "ips_grpo(probability=exact)": "IPS-GRPO with a uniform backward policy",
    "ips_grpo(probability=exact(backward=learned))": "IPS-GRPO with a learned backward policy",
    "ips_grpo(probability=exact(backward=none))": "IPS-GRPO without a backward policy",
    "trajectory_balance": "trajectory balance",
}
GRPO, COUNTS, EXACT, LEARNED, PLACEBO, BALANCE = NAMES


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`learning_rate` is that of SGD, `adam_rate` that of Adam; counts are tried in groups of `large_group` as well."""

    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    sharpness: float = between(0, 30, 4.0)
    seeds: tuple[int, ...] = study.seeds(range(16), least=2)
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
NEEDS = ("rdkit",)


def curves(settings: Settings) -> study.Curves:
    each = partial(arm, Reactions(sharpness=settings.sharpness), settings)
    for text in settings.objectives:
        yield each(SGD, text)
    if COUNTS in settings.objectives:
        yield each(LARGE, COUNTS, group_size=settings.large_group)
    for text in settings.objectives:
        yield each(ADAM, text, optimizer="adam", learning_rate=settings.adam_rate)


APART = 0.05
"""Limit of a total variation: about half of that between target and target times routes."""


def proportional(**labels: str) -> study.Claim:
    variation = final("total_variation", **labels)
    exponent = final("routes_exponent", **labels)
    return every([below(variation, APART), near(exponent, 0, 0.1)])


def follows_routes(objective: str, other: str) -> study.Claim:
    further = difference("total_variation", {"objective": objective}, {"objective": other})
    exponent = final("routes_exponent", objective=objective)
    return every([above(further, APART), near(exponent, 1, 0.1)])


IN_PROPORTION = "samples in proportion to reward: total variation below 0.05, exponent of the routes within 0.1 of 0"
OF_BOTH = {
    "GRPO keeps one product: fewer than 2 effective ones": below(
        final("effective_products", objective=GRPO), 2
    ),
    **{
        f"{NAMES[text]} {IN_PROPORTION}": proportional(objective=text)
        for text in (COUNTS, EXACT, LEARNED, BALANCE)
    },
    "without a backward policy routes count in full: their exponent is within 0.1 of 1, and the total variation is "
    "more than 0.05 above that with a uniform one": follows_routes(PLACEBO, EXACT),
    "counts are not drawn to products with more routes: the exponent of the routes is below 0.1": below(
        final("routes_exponent", objective=COUNTS), 0.1
    ),
    "counts sharpen the target: the exponent of the reward is above 1.5": above(
        final("reward_exponent", objective=COUNTS), 1.5
    ),
    "the total variation of no arm moves by 0.02 in the last quarter": study.at_each(
        "objective", near(MOVED, 0, 0.02)
    ),
}
SMALL_GROUPS = {"objective": COUNTS, "training": SGD}
LARGE_GROUPS = {"objective": COUNTS, "training": LARGE}
CLAIMS = {
    **{
        f"{called}: {sentence}": study.among(claim, training=training)
        for called, training in {"SGD": SGD, "Adam": ADAM}.items()
        for sentence, claim in OF_BOTH.items()
    },
    "in large groups counts end nearer to the target than in groups of 16, by more than 0.05": above(
        difference("total_variation", SMALL_GROUPS, LARGE_GROUPS), 0.05
    ),
    f"in large groups {NAMES[COUNTS]} {IN_PROPORTION}": proportional(**LARGE_GROUPS),
}
HEADLINE = study.Headline(
    subject="Molecules and combinatorial outcomes",
    claim=(
        "Inverse probability scaling samples products in proportion to reward, if it "
        "divides by the product's probability, not the route's."
    ),
    scope="28 products of reactions, exact, tables of logits",
    decided_by=(
        (
            "SGD: IPS-GRPO with a uniform backward policy samples in proportion to reward: total "
            "variation below 0.05, exponent of the routes within 0.1 of 0"
        ),
        (
            "SGD: without a backward policy routes count in full: their exponent is within 0.1 of"
            " 1, and the total variation is more than 0.05 above that with a uniform one"
        ),
    ),
)
COLUMNS = {
    "total_variation": "total variation",
    "routes_exponent": "exponent of the routes",
    "reward_exponent": "of the reward",
    "effective_products": "effective products",
    "qed": "QED",
    "routes": "routes",
}
TITLE = "{training}, means over seeds {seeds} [95 % interval]"
TABLE = study.Table(COLUMNS, TITLE, rows=("objective",), each="training")
BY_SGD = {"where": {"training": SGD}}
FIGURE = Panels(
    [
        Panel(
            [Line("total_variation", **BY_SGD)], "SGD", "updates", "total variation", yscale="log"
        ),
        Panel([Bars("routes_exponent", **BY_SGD)], xlabel="exponent of the routes"),
    ]
)
