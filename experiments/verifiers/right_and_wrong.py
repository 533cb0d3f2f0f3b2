"""A bandit with three right and three wrong outcomes, for studies of rewards that err."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.verifiers.expected_errors import compared, drift
from experiments.verifiers.pattern_verifier import PatternVerifier
from ipsrl.dynamics.verifier_errors import Way, verifier_of
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.measures import rewarded
from ipsrl.policies.tabular import Tabular
from ipsrl.records.equal_reward import at_reward
from ipsrl.records.tidy import Records
from ipsrl.rewards import NoisyVerifier, Reward
from ipsrl.study.claims import Claim, below
from ipsrl.study.curves import Curve, Points
from ipsrl.study.ensembles import trained
from ipsrl.study.numbers import Computed
from ipsrl.study.settings import EnsembleSettings

RIGHT = (True, True, True, False, False, False)
"""Which outcomes are right."""
HACK = 3
"""The wrong outcome that a reward may be fooled by."""
BANDIT = Bandit(tuple(map(float, RIGHT)))
POLICY = Tabular(1, len(RIGHT))
SHARES = (0.5, 0.3, 0.2)
START = 0.3
"""The accuracy at the start."""
REACHED = 0.9
"""The accuracy at which runs of different speed are compared."""
ALWAYS, RANDOM = "always accepted", "random errors"
HACKED: Mapping[str, Callable[[float], Reward]] = {
    ALWAYS: lambda share: PatternVerifier((HACK,), NoisyVerifier()),
    RANDOM: lambda share: verifier_of(1 - share, "false positives"),
}
"""How a verifier errs -> the verifier, if the hack has this share of the wrong answers; both have the same J then."""


def policy(accuracy: float, hack: float = 1 / 3) -> tuple[float, ...]:
    """Six logits: right outcomes share `accuracy` as 5 : 3 : 2, the wrong outcome HACK has this share of the rest."""
    right = accuracy * np.array(SHARES)
    wrong = (1 - accuracy) * np.array([hack, (1 - hack) / 2, (1 - hack) / 2])
    return tuple(np.log([*right, *wrong]).tolist())


def trained_on(
    reward: Reward,
    objective: str,
    settings: EnsembleSettings,
    labels: Mapping[str, Any],
    hack: float = 1 / 3,
    **changed: Any,
) -> Curve:
    """The curve of `measures` of all seeds, from `policy(START, hack)`; see `ipsrl.study.trained` for the rest."""
    start = {"logits": np.array([policy(START, hack)], np.float32)}
    return trained(
        BANDIT,
        POLICY,
        objective,
        settings,
        measure=measures,
        labels=labels,
        initial_parameters=start,
        reward=reward,
        **changed,
    )


def measures(probs: np.ndarray) -> dict[str, np.ndarray]:
    """Measures distributions `[S, U, 6]`; each value is `[S, U]`.

    accuracy: probability of the right outcomes.
    effective: exp(H) of their shares, 1 to 3.
    effective_at_equal: that where accuracy first reaches `REACHED`, NaN in runs that never do.
    """
    found = rewarded.measures(probs[..., None, :], np.array([RIGHT], float))
    accuracy = np.asarray(found["reward"])
    effective = np.asarray(found["effective_outcomes"])
    at_equal = [at_reward(*run, REACHED) for run in zip(accuracy, effective, strict=True)]
    return {
        "accuracy": accuracy,
        "effective": effective,
        "effective_at_equal": np.broadcast_to(np.array(at_equal)[:, None], accuracy.shape),
    }


def exact(
    objective: str,
    way: Way,
    youdens: Sequence[float],
    accuracies: Sequence[float],
    group_size: int,
    without: str = "dr_grpo",
) -> Points:
    """The values of `compared` for the expected update at each J and policy; a curve's `within` is J and start."""
    rows = [
        {"J": youden, "start": start}
        | compared(objective, policy(start), RIGHT, youden, way, group_size, without)
        for youden in youdens
        for start in accuracies
    ]
    return Points.of_runs(range(len(rows)), [rows])


def drift_at(logits: tuple[float, ...], objective: str, reward: Reward, group_size: int) -> Points:
    """The drift of true accuracy at one policy."""
    return Points([0], {"drift": drift(objective, logits, RIGHT, reward, group_size)})


def vanishes(distance: str, **labels: str) -> Claim:
    """Whether expected updates with these labels are at no such distance, of `compared`, at any policy."""

    def largest(records: Records) -> float:
        return records.column(distance).max()

    return below(Computed(f"largest {distance}", largest, {"kind": "exact", **labels}), 1e-6)
