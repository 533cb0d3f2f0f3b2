"""Products of reactions: whether policies sample them as their rewards say or as their routes do, exactly.

Curves have the labels `objective` and `training`; policies are tables of logits that start with uniform actions.
"""

import functools

import numpy as np

from experiments.molecules_enumerated.power_law import exponents
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.measures import distances, diversity
from ipsrl.policies.tabular import Tabular
from ipsrl.records.tidy import Records
from ipsrl.study.curves import Curve
from ipsrl.study.ensembles import trained
from ipsrl.study.numbers import Computed
from ipsrl.study.settings import EnsembleSettings

SGD, ADAM, LARGE = "sgd", "adam", "sgd, large groups"


def arm(
    reactions: Reactions,
    settings: EnsembleSettings,
    training: str,
    objective: str,
    **changed: float | str,
) -> Curve:
    """The curve of one objective.

    Args:
      training: the curve's label beside the objective.
      changed: arguments of `trained` and overrides for the settings, in this training.
    """
    policy = Tabular.of(reactions)
    return trained(
        reactions,
        policy,
        objective,
        settings,
        measure=functools.partial(measures, reactions),
        labels={"objective": objective, "training": training},
        **changed,
    )


def measures(reactions: Reactions, probs: np.ndarray) -> dict[str, np.ndarray]:
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


def last_quarter(records: Records) -> np.ndarray:
    """`[S]`, what is added to a total variation in the last quarter of training."""
    steps, values = records.curve("total_variation")
    late = values[:, steps >= 0.75 * steps[-1]]
    return late[:, -1] - late[:, 0]


MOVED = Computed("change of the total variation in the last quarter", last_quarter)
