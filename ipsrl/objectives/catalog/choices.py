"""Arguments that many objectives share, and the parts they stand for."""

from typing import Literal

from ipsrl.objectives.aggregation import SequenceMean, SequenceSum, TokenMean
from ipsrl.objectives.objective import Aggregation, Penalty
from ipsrl.objectives.penalties import EntropyBonus, KullbackLeibler

AggregationName = Literal["sequence_mean", "token_mean", "sequence_sum", "constant_length"]
Estimator = Literal["k2", "k3"]


def aggregated_by(name: AggregationName) -> Aggregation:
    """The aggregation of that name; `constant_length` divides token sums by the longest possible answer."""
    return {
        "sequence_mean": SequenceMean(),
        "token_mean": TokenMean(),
        "sequence_sum": SequenceSum(),
        "constant_length": SequenceSum(length=None),
    }[name]


def divergence(coefficient: float, estimator: Estimator) -> tuple[Penalty, ...]:
    """The KL penalty in the loss; none where the coefficient is 0."""
    return (KullbackLeibler(coefficient, estimator),) if coefficient else ()


def entropy_bonus(coefficient: float) -> tuple[Penalty, ...]:
    """The entropy bonus; none where the coefficient is 0."""
    return (EntropyBonus(coefficient),) if coefficient else ()
