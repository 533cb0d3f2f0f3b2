"""The effect of an objective on the set of outcomes, in one word: where its expected updates take a policy."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.checking.arguments import checked
from ipsrl.dynamics.cases import (
    CASES,
    DYING,
    IN_TREE,
    LOST,
    MULTIPLICITY,
    REFERENCES,
    SAME,
    SKEWED,
    STARTS,
    WALKS,
    Case,
    Cases,
    as_walks,
    written,
)
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import Field
from ipsrl.dynamics.setting import check_computable
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import Surrogate
from ipsrl.objectives.surrogates import PolicyGradient
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes

FITS = 0.2
"""Residual of log p, relative to its range, up to which a distribution follows a power of the rewards."""
RARE = 0.1
"""Probability up to which a wrong outcome is ignored when right ones are compared."""

Word = Literal[
    "collapses", "neutral on ties", "reward-proportional", "uniform over correct", "reference-shaped", "other"
]
MEANINGS: Mapping[Word, tuple[str, str]] = {
    "collapses": (
        "of two equally good outcomes, one is lost",
        "Bad if several good answers are wanted; harmless if one is enough.",
    ),
    "neutral on ties": (
        "equally good outcomes keep their initial relative shares",
        "Nothing is lost on average, but nothing comes back, and the noise of sampling adds up.",
    ),
    "reward-proportional": (
        "from every start the same policy, a power of the reward; no rewarded outcome is lost",
        "Good for diversity and discovery; the price is mean reward, because worse outcomes stay likely.",
    ),
    "uniform over correct": (
        "from every start, the right outcomes share evenly",
        "Good if every right answer counts; says nothing about outcomes with different rewards.",
    ),
    "reference-shaped": (
        "where training ends depends on a reference policy, also among equally good outcomes",
        "Good if that policy can be trusted; outcomes that it hardly produces stay rare.",
    ),
    "other": ("none of these", "The cells say what happens."),
}
"""Word -> its meaning, and its use."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The effect of an objective on the set of outcomes.

    Attributes:
      word: the verdict in one word.
      evidence: the evidence in one sentence.
      cases: by the name of the rewards, with a uniform reference policy.
      cases_with_reference: with a skewed one; the same object for objectives that use no reference.
      unseen: the surrogate, if its treatment of importance ratios has no effect here, see `is_idle`; else empty.
    """

    word: Word
    evidence: str
    cases: Mapping[str, Case]
    cases_with_reference: Mapping[str, Case]
    unseen: str

    @property
    def sides(self) -> dict[str, Mapping[str, Case]]:
        """Distribution of the reference policy -> cases; only one if the objective uses no reference."""
        sides = (self.cases, self.cases_with_reference)
        return dict(zip(REFERENCES, sides if sides[0] is not sides[1] else sides[:1], strict=False))


@checked
def check(
    objective: Objective, group_size: int, off_policy: OffPolicyAnswers | None = None, walks: bool = False
) -> None:
    """Raises ValueError if an objective can have no verdict.

    It may need fields that three outcomes do not have; or sample at random, so that its mean update is not exact: where
    nothing moves on average, as on ties, the error of the mean would decide.
    """
    environment = WALKS if walks else Bandit(CASES["full tie"])
    policy = Tabular.of(environment)
    check_computable(objective, environment, policy, group_size, off_policy)
    if "keys" in objective.needs:
        raise ValueError("the objective samples at random: its mean update is not exact, and ties would show its error")


def is_idle(surrogate: Surrogate) -> bool:
    """Whether a surrogate of importance ratios is the plain policy gradient, up to a factor, when all ratios are 1.

    Then the policy is the one that sampled the batch, as with one update on each batch: nothing is clipped, and
    objectives that differ only in their clips are the same.
    """
    if surrogate.on_policy and "proximal_log_probs" not in surrogate.needs:
        return False
    plain, own = _first_gradient(PolicyGradient()), _first_gradient(surrogate)
    factor = (own * plain).sum() / (plain * plain).sum()
    return bool(factor > 0 and np.allclose(own, factor * plain, atol=1e-5))


@functools.cache
def _first_gradient(surrogate: Surrogate) -> np.ndarray:
    """The gradient by the tokens' log-probabilities, under the policy that sampled the batch."""
    rollouts, scores = synthetic_rollouts(seed=0, prompts=2, group=4, length=1)
    rollouts = dataclasses.replace(
        rollouts,
        behaviour_log_probs=scores.log_probs,
        proximal_log_probs=scores.log_probs,
        proximal_mean_log_probs=scores.mean_log_probs,
        behaviour_entropy=scores.entropy,
        top_log_probs=scores.top_log_probs,
    )
    advantages = jnp.asarray(np.random.default_rng(0).normal(size=rollouts.tokens.shape), jnp.float32)
    parameters = surrogate.init_parameters(synthetic_sizes(prompts=2))

    @jax.jit
    @jax.grad
    def gradient(log_probs):
        now = dataclasses.replace(scores, log_probs=log_probs)
        return surrogate.evaluate(now, rollouts, advantages, parameters, None)[0].sum()

    return np.asarray(gradient(scores.log_probs))


@checked
def verdict(
    objective: Objective,
    group_size: int,
    off_policy: OffPolicyAnswers | None = None,
    steps: Steps | None = None,
    walks: bool = False,
) -> Verdict:
    """Follows the expected updates of an objective from twelve policies over three outcomes, and classifies the ends.

    Four vectors of rewards, and for an objective that uses a reference policy a uniform and a skewed one:

        reference-shaped        the end depends on the reference, also among outcomes of one reward
        reward-proportional     unequal rewards: one limit for all starts, log p = log(r) / alpha + c; all survive
        uniform over correct    rewards 1 and 0: one limit for all starts, the correct ones share evenly
        neutral on ties         rewards 1 and 0: the correct ones keep their relative shares
        collapses               rewards 1 and 0: of two correct outcomes one is lost
        other                   none of these

    Args:
      objective: any objective that needs no text; its state is the initial one.
      group_size: G.
      off_policy: for objectives that need off-policy answers.
      steps: on each batch; a single small one by default.
      walks: outcomes are those of `WALKS`, sequences of two tokens, instead of single tokens, and the flows six. A
        power of the reward then also fits if the outcomes are shared out among their walks, p ~ n r^(1 / alpha).

    Raises:
      ValueError: see `check`.
    """
    check(objective, group_size, off_policy, walks)
    references = REFERENCES if "reference_log_probs" in objective.needs else {"uniform": None}

    def field(reference: tuple[float, ...] | None, rewards: tuple[float, ...]) -> Field:
        if not walks:
            return Field(objective, rewards, group_size, reference, off_policy, steps, at_once=len(STARTS))
        rewards = tuple(rewards[place] for place in IN_TREE)
        reference = reference and tuple(as_walks([reference])[0].tolist())
        return Field(objective, rewards, group_size, reference, off_policy, steps, WALKS, at_once=1)

    by_reference = [Cases(functools.partial(field, reference)) for reference in references.values()]
    cases, with_reference = by_reference[0], by_reference[-1]
    word = word_for(cases, with_reference)
    unseen = type(objective.surrogate).__name__ if steps is None and is_idle(objective.surrogate) else ""
    return Verdict(word, _evidence(word, cases, with_reference), cases, with_reference, unseen)


def fitted_alpha(cases: Mapping[str, Case], multiplicity: Sequence[int] = (1, 1, 1)) -> tuple[float, float, bool]:
    """alpha of the best fit p ~ n r^(1/alpha) at the partial tie and at unequal rewards, and its quality.

    Args:
      cases: of one reference policy.
      multiplicity: n of each outcome.

    Returns:
      alpha (infinite if p does not grow with r); the residual, the root mean square of log(p / p_1), of which there are
        four; and whether it is at most `FITS` of the largest of them, and less than that of a fit p ~ exp(r / T).

    Raises:
      ValueError: the flows of one of the two cases end in different distributions.
    """
    unequal, tie = cases["unequal"].probs, cases["partial tie"].probs
    if unequal is None or tie is None:
        raise ValueError(
            "a power of the reward is fitted only if every start ends in one distribution, but here the ends differ"
        )
    rewards = np.array([*CASES["unequal"][1:], *CASES["partial tie"][1:]])
    unequal, tie = unequal / multiplicity, tie / multiplicity
    log_ratios = np.log(np.concatenate([unequal[1:] / unequal[0], tie[1:] / tie[0]]))

    def fit(values):
        slope = values @ log_ratios / (values @ values)
        return slope, float(np.sqrt(np.mean((log_ratios - slope * values) ** 2)))

    (slope, residual), (_, exponential) = fit(np.log(rewards)), fit(rewards - 1)
    good = residual <= FITS * np.abs(log_ratios).max() and residual < exponential
    return (1 / slope if slope > 1e-3 else float("inf")), residual, bool(good)


def _best_fit(cases: Mapping[str, Case]) -> tuple[float, float, bool, str]:
    """The fit of `fitted_alpha`, and `r`; or on walks, if it is better, that of their number n, and `n r`."""
    fits = [(*fitted_alpha(cases), "r")]
    if cases["unequal"].field.environment is not None:
        fits.append((*fitted_alpha(cases, MULTIPLICITY), "n r"))
    return min(fits, key=lambda fit: fit[1])


def word_for(cases: Mapping[str, Case], with_reference: Mapping[str, Case]) -> Word:
    """The word of `verdict`, from the cases with a uniform and with a skewed reference."""
    words = {_word_of_side(side) for side in (cases, with_reference)}
    if len(words) == 1 and "other" not in words:
        return words.pop()
    moved = max(np.abs(cases[name].limits - with_reference[name].limits).max() for name in CASES)
    return "reference-shaped" if moved > SAME else "other"


def _word_of_side(cases: Mapping[str, Case]) -> Word:
    binary = cases["binary"]
    correct = binary.limits[:, :2]
    probs = binary.probs
    if probs is not None and abs(probs[0] - probs[1]) < SAME and probs[2] <= RARE:
        ends = [cases[name].probs for name in ("unequal", "partial tie")]
        if all(probs is not None and probs.all() for probs in ends):
            alpha, _, good, _ = _best_fit(cases)
            if good and alpha < 10:
                return "reward-proportional"
        return "uniform over correct"
    if (correct > 0).all():
        starts = np.array(binary.starts)
        started = starts[:, 0] / starts[:, :2].sum(axis=1)
        if np.abs(correct[:, 0] / correct.sum(axis=1) - started).max() < SAME:
            return "neutral on ties"
    if ((correct > 0).sum(axis=1) == 1).all() and (binary.limits[:, 2] == 0).all():
        return "collapses"
    return "other"


def _evidence(word: Word, cases: Mapping[str, Case], with_reference: Mapping[str, Case]) -> str:
    binary = cases["binary"]
    if word == "reward-proportional":
        alpha, residual, _, outcome = _best_fit(cases)
        return f"p ~ {outcome}^(1/{alpha:.2f}), residual {residual:.2f}{_stability(cases['unequal'])}"
    if word == "uniform over correct":
        return f"two correct outcomes share evenly: {binary.text}{_stability(binary)}"
    if word == "neutral on ties":
        return "two correct outcomes keep the shares among them that they had"
    if word == "collapses":
        first, second = binary.ends[:, 0], binary.ends[:, 1]
        rarer = np.where(first < second, binary.exponents[:, 0], binary.exponents[:, 1])
        if rarer.max() > DYING:
            return f"one of two correct outcomes is left with less than {LOST:g}"
        fastest, slowest = f"{rarer.min():.2g}", f"{rarer.max():.2g}"
        power = f"t^{slowest}" if fastest == slowest else f"t^{slowest} to t^{fastest}"
        return f"the rarer of two correct outcomes is lost as {power}{binary.fate_of_even_split}"
    if word == "reference-shaped":
        name = "full tie" if with_reference["full tie"].probs is not None else "binary"
        texts = cases[name].text, with_reference[name].text
        return f"{name}: {texts[0]} by a uniform reference, {texts[1]} by {written(SKEWED)}"
    return f"binary rewards: {binary.text}; unequal: {cases['unequal'].text}"


def _stability(case: Case) -> str:
    """The rate of the slowest deviation from the distribution, among its present outcomes."""
    if case.rest is None or not len(case.rest.rates):
        return ""
    return f"; the slowest deviation fades at {case.rest.rates.max():.2g}"
