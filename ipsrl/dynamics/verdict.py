"""What an objective does to the set of outcomes, in one word: from where its expected updates take a policy."""

import dataclasses
import functools
import itertools
from typing import Literal

import numpy as np

from ipsrl.dynamics.rest_points import Field, RestPoint, follow, rest_point, train
from ipsrl.environments.bandit import Bandit
from ipsrl.objectives.objective import Objective
from ipsrl.policies.tabular import Tabular
from ipsrl.training.off_policy import OffPolicyAnswers
from ipsrl.training.step import check_objective

CASES = {
    "full tie": (1.0, 1.0, 1.0),
    "partial tie": (1.0, 1.0, 0.5),
    "binary": (1.0, 1.0, 0.0),
    "unequal": (1.0, 0.6, 0.3),
}
"""Rewards of three outcomes."""
REFERENCES = {"uniform": None, "skewed": (0.3, 0.6, 0.1)}
"""Laws of the reference policy."""
STARTS = tuple(start for law in ((0.5, 0.3, 0.2), (0.9, 0.07, 0.03)) for start in itertools.permutations(law))
"""Laws `[12, 3]` from which the flows start: none is symmetric, and half are nearly collapsed."""

SAME = 0.02
"""The difference in probability up to which laws count as one."""
LOST = 0.01
"""The probability below which an outcome counts as lost."""
DYING, STILL_THERE = -0.1, 0.3
"""The exponent d log p / d log t below which an outcome counts as lost, if less than this is left of it."""
FITS = 0.2
"""The residual up to which a law follows a power of the rewards: root mean square of log p."""
RARE = 0.1
"""The probability up to which a wrong outcome does not count against the right ones."""
STEP_SIZE, STEPS = 0.25, 2_000
"""Of expected training, where a flow is not smooth."""

Word = Literal[
    "collapses", "neutral on ties", "reward-proportional", "uniform over correct", "reference-shaped", "other"
]


@dataclasses.dataclass(frozen=True)
class Case:
    """Where expected training goes, for some rewards and a reference.

    Attributes:
      field: of the expected update.
      ends: `[12, 3]`, laws at the end of the flows from `STARTS`.
      exponents: `[12, 3]`, d log p / d log t there.
    """

    field: Field
    ends: np.ndarray
    exponents: np.ndarray

    @classmethod
    def of(cls, field: Field) -> "Case":
        """Follows the flows."""
        flow = follow(field, STARTS)
        if flow.finished:
            return cls(field, flow.laws[-1], flow.exponents)
        return cls(field, *train(field, STARTS, STEP_SIZE, STEPS))

    @property
    def stays(self) -> bool:
        """Nothing moves, from any start."""
        return bool(np.abs(self.ends - STARTS).max() < SAME)

    @functools.cached_property
    def limits(self) -> np.ndarray:
        """`[12, 3]`, the ends without the outcomes that are lost."""
        dying = (self.exponents < DYING) & (self.ends < STILL_THERE)
        kept = np.where((self.ends < LOST) | dying, 0.0, self.ends)
        return kept / kept.sum(axis=1, keepdims=True)

    @property
    def law(self) -> np.ndarray | None:
        """`[3]`, the law where all flows end; None where that depends on the start."""
        mean = self.limits.mean(axis=0)
        return mean if np.abs(self.limits - mean).max() < SAME else None

    @property
    def rest(self) -> RestPoint | None:
        """The law as a rest point, with its stability; None where there is not one for all starts."""
        return None if self.law is None else rest_point(self.field, self.law)

    @property
    def text(self) -> str:
        """A few words."""
        if self.stays:
            return "stays where it is"
        if self.law is not None:
            return _written(self.law)
        if np.all((self.limits > 0).sum(axis=1) == 1):
            winners = np.unique(self.limits.argmax(axis=1))
            return f"one of {len(winners)} outcomes"
        return f"depends on the start: {_written(self.limits[0])} from {_written(STARTS[0])}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What an objective does to the set of outcomes.

    Attributes:
      word: in one word.
      evidence: in one sentence.
      cases: by the name of the rewards, with a uniform reference policy.
      cases_with_reference: with a skewed one; the same object for objectives that look at none.
    """

    word: Word
    evidence: str
    cases: dict[str, Case]
    cases_with_reference: dict[str, Case]


def check(objective: Objective, group_size: int, off_policy: OffPolicyAnswers | None = None) -> None:
    """Raises ValueError where an objective cannot be judged.

    It may need what three outcomes do not have; or draw at random, so that its mean update is not exact: where nothing
    moves on average, as on ties, the error of the mean would be judged.
    """
    bandit = Bandit(CASES["full tie"])
    policy = Tabular(bandit.num_observations, bandit.vocabulary_size)
    check_objective(objective, bandit, policy, group_size, off_policy)
    if "keys" in objective.needs:
        raise ValueError("the objective draws at random: its mean update is not exact, and ties would show its error")


def verdict(objective: Objective, group_size: int, off_policy: OffPolicyAnswers | None = None) -> Verdict:
    """Follows the expected updates of an objective from twelve policies over three outcomes, and judges the ends.

    Four vectors of rewards, and for an objective that looks at a reference policy a uniform and a skewed one:

        reference-shaped        where it ends depends on the reference, also among outcomes of one reward
        reward-proportional     unequal rewards: one law for all starts, log p = log(r) / alpha + c, all survive
        uniform over correct    rewards 1 and 0: one law for all starts, the correct ones share evenly
        neutral on ties         rewards 1 and 0: the correct ones keep the shares among them that they had
        collapses               rewards 1 and 0: of two correct outcomes one is lost
        other                   none of these

    Args:
      objective: any that needs no text; what it carries from batch to batch is as before the first one.
      group_size: G.
      off_policy: for objectives that need such answers.

    Raises:
      ValueError: see `check`.
    """
    check(objective, group_size, off_policy)
    references = REFERENCES if "reference_log_probs" in objective.needs else {"uniform": None}
    by_reference = [
        {name: Case.of(Field(objective, rewards, group_size, reference, off_policy)) for name, rewards in CASES.items()}
        for reference in references.values()
    ]
    cases, with_reference = by_reference[0], by_reference[-1]
    word, evidence = _judge(cases, with_reference)
    return Verdict(word, evidence, cases, with_reference)


def fitted_alpha(law: np.ndarray, rewards: np.ndarray) -> tuple[float, float]:
    """alpha of the best fit log p = log(r) / alpha + c, and its residual, the root mean square of log p.

    Infinite where p does not depend on r. All of both must be positive.
    """
    log_rewards, log_law = np.log(rewards), np.log(law)
    slope, intercept = np.polyfit(log_rewards, log_law, 1)
    residual = np.sqrt(np.mean((log_law - slope * log_rewards - intercept) ** 2))
    return float("inf") if abs(slope) < 1e-3 else 1 / slope, float(residual)


def _judge(cases: dict[str, Case], with_reference: dict[str, Case]) -> tuple[Word, str]:
    binary, unequal = cases["binary"], cases["unequal"]
    even = [_even_among_correct(side["binary"]) for side in (cases, with_reference)]
    proportional = [_proportional(side["unequal"]) for side in (cases, with_reference)]
    if all(proportional) and all(even):
        return "reward-proportional", proportional[0]
    if all(even):
        return "uniform over correct", even[0]
    if cases is not with_reference:
        moved = max(np.abs(cases[name].limits - with_reference[name].limits).max() for name in CASES)
        if moved > SAME and with_reference["full tie"].law is not None:
            shaped = _written(with_reference["full tie"].law)
            return (
                "reference-shaped",
                f"among equal rewards the reference {_written(REFERENCES['skewed'])} gives {shaped}",
            )
    shares = np.array(STARTS)[:, 0] / np.array(STARTS)[:, :2].sum(axis=1)
    kept = np.all(binary.limits[:, :2] > 0, axis=1)
    if kept.all():
        now = binary.limits[:, 0] / binary.limits[:, :2].sum(axis=1)
        if np.abs(now - shares).max() < SAME:
            return "neutral on ties", "two correct outcomes keep the shares among them that they had"
    lost = [i for i in range(len(STARTS)) if (binary.limits[i] > 0).sum() == 1]
    if len(lost) == len(STARTS):
        rarer = np.where(binary.ends[:, 0] < binary.ends[:, 1], binary.exponents[:, 0], binary.exponents[:, 1])
        return "collapses", f"the rarer of two correct outcomes is lost as t^{np.median(rarer):.2g}"
    return "other", f"binary rewards: {binary.text}; unequal: {unequal.text}"


def _even_among_correct(case: Case) -> str:
    """The evidence that correct outcomes share evenly from every start; empty where they do not."""
    if case.law is None or abs(case.law[0] - case.law[1]) > SAME or case.law[2] > RARE:
        return ""
    return f"two correct outcomes share evenly: {_written(case.law)}"


def _proportional(case: Case) -> str:
    """The evidence that the law is a power of the rewards; empty where it is not."""
    if case.law is None or not case.law.all():
        return ""
    alpha, residual = fitted_alpha(case.law, np.array(case.field.rewards))
    if residual > FITS or not 0 < alpha < 10:
        return ""
    return f"p ~ r^(1/{alpha:.2f}), residual {residual:.2f}; the slowest deviation fades at {case.rest.rates.max():.2g}"


def _written(law) -> str:
    return " : ".join(f"{p:.2f}" if p else "0" for p in law)
