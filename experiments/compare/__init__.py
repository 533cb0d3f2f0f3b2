"""Every objective on one environment: which outcomes does each leave, at a reward of at least a common bar?

Claim     Of no one paper, on equal terms: rules that pay for rarity keep more outcomes at a reward of at least the bar
          than the expected return does, and than a placebo, which is GRPO with random weights of the same variance.
Paper     Ours, after arXiv 2601.21669 and the papers of docs/objectives.md.
Arms      On the bandit all objectives of the catalog that it supports, GRPO and its placebo among them: eight seeds,
          4000 updates by Adam at 0.01 of a table of logits, in groups of 16, with gradients of norm 1 at most, from p
          proportional to 1/rank in a random order. On the grid four of them, with five seeds, 2000 updates at 0.02 and
          groups of 64; on HypoSpace, with one seed, the transformer and prior of `experiments.hypospace`.
Command   python -m experiments.compare --environment=bandit --out=OUT
          or =hypergrid, =hypospace_boolean, or any other, as in --environment="hypergrid(dimensions=4)"; or the groups
          that any trainer has logged, --environment=FILE.jsonl. Each wants an OUT of its own
Time      on two CPU cores for all objectives, most of it compilation, which a second run of the same command does not
          need. bandit and hypergrid: demo eight and eleven minutes, smoke three; hypospace_boolean: demo an hour, smoke
          eight; paper, not run, hours. docs/figures.md has all on the bandit, and four on the two others.
Expected  On the bandit ips_grpo ends with 5.7 +- 0.3 effective outcomes at 0.93 +- 0.01 of the best possible reward;
          with all of it darling keeps 4.1 +- 0.3, the placebo 1.6 [1.2, 2.0], and grpo 1.2 +- 0.3. So it is on the
          hypergrid; on hypospace_boolean ips_grpo and darling keep as many as each other, and thrice those of grpo.
Doubt     One learning rate for all (three in the preset paper, not run), defaults of the catalog, and one step on each
          batch, so that clips play no part. The bar, 0.9 of what reward-proportional probabilities earn, leaves room
          for rules that pay reward for outcomes. With one seed, on HypoSpace, nothing is decided.
          A placebo that keeps as many would refute the claim.
Smoke     python -m experiments.compare --preset=smoke

What equal terms are, what they hide, and how ranks are found: docs/comparison.md. With --resume, OUT keeps its
objectives and learning rates and trains new ones.
"""

import numpy as np

from experiments.compare.flags import SIZES, Settings, chosen_objectives, kind_of
from experiments.compare.page import draw, table
from experiments.compare.ranking import PLACEBO, ranked
from experiments.compare.training import exact_curves, refused, text_curves
from ipsrl import study
from ipsrl.records.tidy import NotRecorded, Records

PRESETS = {name: Settings(name) for name in SIZES}


def curves(settings: Settings) -> study.Curves:
    chosen = chosen_objectives(settings.objectives)
    left_out = refused(settings)
    if len(left_out) == len(chosen):
        raise ValueError(f"{chosen[0]}: {left_out[chosen[0]]}")
    trained = text_curves if kind_of(settings.environment) == "text" else exact_curves
    for text in chosen:
        for rate in settings.learning_rates if text not in left_out else ():
            yield from trained(text, rate, settings)


def ends_of(measure: str, objective: str) -> study.Number:
    """A measure at the end of the runs of an objective with the learning rate that it is ranked by."""

    def ends(records: Records) -> np.ndarray:
        for result in ranked(records)[0]:
            if result.name == objective:
                return result.records.ends(measure)
        raise NotRecorded(f"{objective} was not compared")

    return study.Computed(f"{measure} of {objective}", ends)


def variant(environment: str, on: str, all_in_demo: bool = True) -> study.Variant:
    every = {"environment": environment}
    four = every | {"objectives": "grpo,placebo,ips_grpo,darling"}
    shows = f"{'every objective' if all_in_demo else 'objectives'} on {on}: effective outcomes and reward"
    demo = every if all_in_demo else four
    return study.Variant(shows, {"smoke": four, "demo": demo, "paper": every})


OUTCOMES = ends_of("effective_outcomes", "ips_grpo")
BAR = study.Computed("the bar", lambda records: ranked(records)[1])
CLAIMS = {
    "inverse probability scaling keeps more outcomes than GRPO and a placebo, at a reward above the bar": study.every(
        (
            study.above(OUTCOMES, ends_of("effective_outcomes", "grpo")),
            study.above(OUTCOMES, ends_of("effective_outcomes", PLACEBO)),
            study.above(ends_of("reward", "ips_grpo"), BAR),
        )
    )
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "On equal terms inverse probability scaling keeps more outcomes than GRPO and a "
        "placebo, at a reward above the bar."
    ),
    scope="a bandit with twelve arms in a table of logits",
    decided_by=tuple(CLAIMS),
)
TABLE = table
FIGURE = draw
VARIANTS = {
    "comparison_bandit": variant("bandit", "a bandit"),
    "comparison_hypergrid": variant("hypergrid", "the hypergrid", all_in_demo=False),
    "comparison_hypospace": variant("hypospace_boolean", "HypoSpace, Boolean", all_in_demo=False),
}
