"""A bandit with three right and three wrong outcomes, for studies of rewards that err."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipsrl.dynamics.verifier_errors import WAYS, Way, compared, drift, verifier_of
from ipsrl.environments.bandit import Bandit
from ipsrl.measures import rewarded
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.records.equal_reward import at_reward
from ipsrl.records.tidy import Records
from ipsrl.rewards import NoisyVerifier, PatternVerifier, Reward
from ipsrl.study.claims import Claim, all_of, equal_within
from ipsrl.study.curves import Curve, Points
from ipsrl.study.ensembles import trained

RIGHT, HACK = (True, True, True, False, False, False), 3
"""Which outcomes are right, and the wrong one that a reward may be fooled by."""
BANDIT, POLICY = Bandit(tuple(map(float, RIGHT))), Tabular(1, len(RIGHT))
# One object, for which a program is compiled once.
RECORD = functools.partial(outcome_probs, BANDIT, POLICY)
SHARES = (0.5, 0.3, 0.2)
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
    wrong = (hack, (1 - hack) / 2, (1 - hack) / 2)
    return tuple(
        np.log([*(accuracy * np.array(SHARES)), *((1 - accuracy) * np.array(wrong))]).tolist()
    )


def trained_on(
    reward: Reward,
    objective: str,
    settings: Any,
    labels: Mapping[str, Any],
    accuracy: float,
    hack: float = 1 / 3,
    **changed: Any,
) -> Curve:
    """The curve of `measures` of all seeds, from `policy(accuracy, hack)`; see `ipsrl.study.trained` for the rest."""
    start = {"logits": np.array([policy(accuracy, hack)], np.float32)}
    return trained(
        BANDIT,
        POLICY,
        objective,
        settings,
        RECORD,
        measures,
        labels,
        initial_parameters=start,
        reward=reward,
        **changed,
    )


def measures(probs: np.ndarray) -> dict[str, np.ndarray]:
    """From distributions `[S, U, 6]`, each `[S, U]`.

    accuracy: probability of the right outcomes.
    effective: exp(H) of their shares, 1 to 3.
    effective_at_equal: that where accuracy first reaches `REACHED`, NaN in runs that never do.
    """
    found = rewarded.measures(probs[..., None, :], np.array([RIGHT], float))
    accuracy, effective = np.asarray(found["reward"]), np.asarray(found["effective_outcomes"])
    at_equal = np.array(
        [at_reward(*run, REACHED) for run in zip(accuracy, effective, strict=True)]
    )[:, None]
    values = {"accuracy": accuracy, "effective": effective, "effective_at_equal": at_equal}
    return {name: np.broadcast_to(value, accuracy.shape) for name, value in values.items()}


def exact(
    objective: str,
    way: Way,
    youdens: Sequence[float],
    accuracies: Sequence[float],
    group_size: int,
    without: str = "dr_grpo",
) -> Points:
    """What `compared` says of the expected update at each J and policy; a curve's `within` is J and start."""
    cells = [(youden, start) for youden in youdens for start in accuracies]
    rows = [
        {"J": youden, "start": start}
        | compared(objective, policy(start), RIGHT, youden, way, group_size, without)
        for youden, start in cells
    ]
    return Points(range(len(rows)), {name: [row[name] for row in rows] for name in rows[0]})


def drift_at(logits: tuple[float, ...], objective: str, reward: Reward, group_size: int) -> Points:
    """The drift of true accuracy at one policy."""
    return Points([0], {"drift": drift(objective, logits, RIGHT, reward, group_size)})


def vanishes(distance: str, **labels: Any) -> Claim:
    """For CLAIMS: whether expected updates with these labels are at no such distance, of `compared`, at any policy."""
    return lambda records: bool(records.where(kind="exact", **labels).column(distance).max() < 1e-6)


def signs_agree(of_name: Records) -> bool:
    """Whether the exact drift of one objective has the sign of J at each J and policy."""
    rows = of_name.where(kind="exact").having("J")
    return bool((np.sign(rows.column("drift").round(9)) == np.sign(rows.column("J"))).all())


def ways_agree(of_youden: Records) -> bool | None:
    """Whether training at one J ends within 0.05 of the same accuracy however J comes about, paired by seed."""
    pairs = itertools.combinations([of_youden.ends("accuracy", way=way) for way in WAYS], 2)
    return all_of(equal_within(*pair, 0.05) for pair in pairs)


def draws_near(of_name: Records) -> bool:
    """Whether the exact drift near the hack leads to it, and under random errors of the same J there away from it."""
    always, random = (
        of_name.mean("drift", kind="exact", errors=errors) for errors in (ALWAYS, RANDOM)
    )
    return always < 0 < random
