"""Products of reactions: whether policies sample them as their rewards say or as their routes do, exactly.

Curves have the labels `objective` and `training`; policies are tables of logits that start with uniform actions.
"""

import dataclasses
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.molecules_enumerated import against_target
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.figures import style
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel
from ipsrl.measures import distances, diversity
from ipsrl.measures.power_law import exponents
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.records.line_styles import line_styles
from ipsrl.records.tidy import Records
from ipsrl.study.claims import Claim, above, all_of, below, close
from ipsrl.study.curves import Curve, Points
from ipsrl.study.ensembles import trained
from ipsrl.study.numbers import difference, final

APART, NEAR = 0.05, 0.1
"""Limits of claims: of a total variation, about half of that between target and target times routes; of an exponent."""


def arm(
    reactions: Reactions, settings: Any, training: str, objective: str, **changed: Any
) -> Curve:
    """The curve of one objective, with the probabilities of the products at the end of the first seed's training.

    Args:
      settings: have `EnsembleSettings`' fields.
      training: the curve's label beside the objective.
      changed: arguments of `trained` and overrides for the settings, in this training.
    """
    policy = Tabular(reactions.num_observations, reactions.vocabulary_size)

    def record(parameters: Any) -> dict[str, Any]:
        return {"probs": outcome_probs(reactions, policy, parameters)}

    labels = {"objective": objective, "training": training}
    curve = trained(reactions, policy, objective, settings, record, labels=labels, **changed)

    def compute() -> Points:
        found = curve.compute()
        probs = found.values["probs"]
        return dataclasses.replace(
            found, values=measures(probs, reactions), arrays={"probs": probs[0, -1]}
        )

    return dataclasses.replace(curve, compute=compute)


def measures(probs: np.ndarray, reactions: Reactions) -> dict[str, np.ndarray]:
    """Name -> `[S, U]`, from distributions over products, `[S, U, K]`.

    Exponents are those of p = constant * routes^b * target^e, by least squares of log p with the target's weights: the
    target has b = 0 and e = 1, target times routes b = 1 and e = 1.
    """
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


def proportional(**labels: str) -> Claim:
    """Whether products are sampled as their rewards say: total variation below APART, routes' exponent NEAR 0."""
    variation, exponent = (
        final(value, **labels) for value in ("total_variation", "routes_exponent")
    )
    return lambda records: all_of(
        [below(variation, APART)(records), close(exponent(records), 0.0, NEAR)]
    )


def follows_routes(one: str, other: str) -> Claim:
    """Whether an objective's exponent of the routes is NEAR 1, its total variation over APART above another's."""
    further = difference("total_variation", {"objective": one}, {"objective": other})
    exponent = final("routes_exponent", objective=one)
    return lambda records: all_of(
        [above(further, APART)(records), close(exponent(records), 1.0, NEAR)]
    )


def settled(records: Records, within: float = 0.02) -> bool | None:
    """Whether every objective's mean total variation stays this close to its end in the last quarter of training."""
    curves = [rows.curve("total_variation") for _, rows in records.each("objective")]
    late = [values.mean(axis=0)[steps >= 0.75 * steps[-1]] for steps, values in curves]
    return all_of(bool(np.abs(values - values[-1]).max() < within) for values in late)


def figure(training: str, records: Records, settings: Any) -> style.Drawing:
    """Total variations over one training, and the products' probabilities at its end for the first seed."""
    reactions, records = Reactions(sharpness=settings.sharpness), records.where(training=training)
    target, routes = reactions.outcome_space(0).target, reactions.route_counts()
    names, line = records.distinct("objective"), Line("total_variation")
    learned = {name: records.array("probs", objective=name, training=training) for name in names}
    panel = Panel([line], xlabel="updates", ylabel="total variation", yscale="log")
    with style.looks():
        drawn = Figure(figsize=(14, 5.4))
        left, right = drawn.subfigures(1, 2, width_ratios=(1.0, 1.3))
        panel.draw(left.subplots(), records, line_styles(names), settings)
        against_target.draw(right, learned, target, routes, "routes")
    shown = against_target.rows(learned, target, routes, "routes", reactions.outcome_names())
    return style.Drawing(drawn, [*line.rows(records), *shown])
