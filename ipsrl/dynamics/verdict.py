"""The effect of an objective on the set of outcomes, in one word: where its expected updates take a policy."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.arguments import checked
from ipsrl.dynamics.equal_fields import once_for_equal
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.field import AT_REST, Field, LogitField, follow, train
from ipsrl.dynamics.rest_points import NOTHING, RestPoint, nearest_rest_point, rest_point
from ipsrl.dynamics.setting import check_computable
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.tree import Tree
from ipsrl.objectives.objective import Objective, Surrogate
from ipsrl.objectives.surrogates.ratio import PolicyGradient
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes

CASES = {
    "full tie": (1.0, 1.0, 1.0),
    "partial tie": (1.0, 1.0, 0.5),
    "binary": (1.0, 1.0, 0.0),
    "unequal": (1.0, 0.6, 0.3),
}
"""Rewards of three outcomes."""
REFERENCES = {"uniform": None, "skewed": (0.3, 0.6, 0.1)}
"""Distributions of the reference policy."""
STARTS = tuple(start for probs in ((0.5, 0.3, 0.2), (0.9, 0.07, 0.03)) for start in itertools.permutations(probs))
"""Distributions `[12, 3]` from which the flows start: none is symmetric, and half are nearly collapsed."""
WALKS = Tree(depth=2, longest_step=1, rewards=(1.0, 1.0, 1.0))
"""Sequences: two moves, each right or up. After either first move two outcomes are possible, and one is common to both:
it is the third of the cases, which is wrong where one is wrong, and two walks end in it, RU and UR.
"""
MULTIPLICITY = (1, 1, 2)
"""Number of walks that end in each outcome of the cases."""
IN_TREE = [0, 2, 1]
"""The place of each outcome of the cases among those of `WALKS`, and the other way round."""
STARTS_OF_WALKS = tuple(STARTS[n] for n in (0, 2, 3, 6, 8, 9))
"""As `STARTS`, of which each half has here one led by each outcome."""
SPLIT = (0.6, 0.4)
"""The shares of the two walks in the probability of their outcome, at the start."""

SAME = 0.02
"""Difference in probability up to which distributions count as equal."""
LOST = 0.01
"""Probability below which an outcome counts as lost."""
DYING, STILL_THERE = -0.03, 0.4
"""Exponent d log p / d log t below which an outcome counts as lost, if its probability is below the second number."""
FITS = 0.2
"""Residual of log p, relative to its range, up to which a distribution follows a power of the rewards."""
RARE = 0.1
"""Probability up to which a wrong outcome is ignored when right ones are compared."""
STEP_SIZE, STEPS = 0.25, 2_000
"""Step size and steps of expected training, where a flow is not smooth."""

Word = Literal[
    "collapses", "neutral on ties", "reward-proportional", "uniform over correct", "reference-shaped", "other"
]


@dataclasses.dataclass(frozen=True)
class Case:
    """The limit of expected training, for some rewards and a reference.

    Attributes:
      field: of the expected update.
      ends: `[N, 3]`, distributions at the end of the flows from `starts`.
      exponents: `[N, 3]`, d log p / d log t there.
      starts: of N flows.
    """

    field: Field
    ends: np.ndarray
    exponents: np.ndarray
    starts: tuple[tuple[float, ...], ...] = STARTS

    @property
    def stays(self) -> bool:
        """Whether nothing moves, from any start."""
        return bool(np.abs(self.ends - self.starts).max() < SAME)

    @functools.cached_property
    def limits(self) -> np.ndarray:
        """`[N, 3]`, the ends without the lost outcomes."""
        return limits(self.ends, self.exponents)

    @property
    def probs(self) -> np.ndarray | None:
        """`[3]`, the distribution where all flows end; None if it depends on the start."""
        mean = self.limits.mean(axis=0)
        return mean if np.abs(self.limits - mean).max() < SAME else None

    @functools.cached_property
    def rest(self) -> RestPoint | None:
        """The rest point where all flows end, by root finding; None if it is not a rest point, or not found, as on
        walks.
        """
        if self.probs is None or self.field.environment is not None:
            return None
        point = nearest_rest_point(self.field, self.probs)
        is_end = point is not None and point.kind == "attracts" and np.abs(point.probs - self.probs).max() < SAME
        return point if is_end else None

    @functools.cached_property
    def fate_of_even_split(self) -> str:
        """What training does to an even split of two correct outcomes; empty if the split moves on, or on walks."""
        if self.field.environment is not None:
            return ""
        even = np.array([0.5, 0.5, 0.0])
        first, second, _ = self.field(np.log(np.maximum(even, NOTHING))[None])[0]
        if abs(first - second) > AT_REST * self.field.scale:
            return ""
        fate = {"neutral": "is not restored", "attracts": "is restored only from nearby"}
        return f"; an even split {fate.get(rest_point(self.field, even).kind, 'repels')}"

    @property
    def text(self) -> str:
        """A few words."""
        if self.stays:
            return "stays where it is"
        if self.probs is not None:
            return _written(self.probs)
        if np.all((self.limits > 0).sum(axis=1) == 1):
            winners = np.unique(self.limits.argmax(axis=1))
            return f"one of {len(winners)} outcomes"
        return f"depends on the start: {_written(self.limits[0])} from {_written(self.starts[0])}"


@once_for_equal
def case_of(field: Field) -> Case:
    """Follows the flows from all starts; several steps on a batch are a map, and repeated."""
    if field.environment is not None:
        return _case_of_walks(field)
    if field.steps is not None:
        return Case(field, *train(field, STARTS, field.steps.size, STEPS))
    return Case(field, *ends_of(field, STARTS))


def _case_of_walks(field: Field) -> Case:
    starts = _as_walks(STARTS_OF_WALKS)
    # One by one: on walks a policy may leave a corner late and fast, and would hold up those at rest.
    flows = list(itertools.takewhile(lambda flow: flow.finished, (follow(field, start[None]) for start in starts)))
    if len(flows) == len(starts):
        ends = np.concatenate([flow.distributions[-1] for flow in flows])
        exponents = np.concatenate([flow.exponents for flow in flows])
    else:
        # Two moves are learned more slowly than one.
        ends, exponents = train(field, starts, STEP_SIZE, 4 * STEPS)
    return Case(field, ends[:, IN_TREE], exponents[:, IN_TREE], STARTS_OF_WALKS)


def limits(ends: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """`[N, 3]`, distributions at the end of flows without the lost outcomes; arguments as in `Case`."""
    dying = (exponents < DYING) & (ends < STILL_THERE)
    kept = np.where((ends < LOST) | dying, 0.0, ends)
    return kept / kept.sum(axis=1, keepdims=True)


def ends_of(field: LogitField, starts: Sequence[Sequence[float]] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distributions `[N, K]` at the end of the flows, and exponents; of expected training where no flow exists."""
    flow = follow(field, starts)
    if flow.finished:
        return flow.distributions[-1], flow.exponents
    return train(field, starts, STEP_SIZE, STEPS)


def _as_walks(distributions: Sequence[Sequence[float]]) -> np.ndarray:
    """`[N, 4]`, the probabilities of RR, RU, UR and UU, see `WALKS`, that have the given ones of outcomes `[N, 3]`."""
    up, right, both = np.asarray(distributions).T
    return np.stack([right, SPLIT[0] * both, SPLIT[1] * both, up], axis=1)


class Cases(Mapping[str, Case]):
    """Cases by the names of their rewards; each is followed when it is first asked for."""

    def __init__(self, field: Callable[[tuple[float, ...]], Field]):
        """`field` is that of some rewards."""
        self._field, self._found = field, dict[str, Case]()

    def __getitem__(self, name: str) -> Case:
        if name not in self._found:
            self._found[name] = case_of(self._field(CASES[name]))
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(CASES)

    def __len__(self) -> int:
        return len(CASES)


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
    policy = Tabular(environment.num_observations, environment.vocabulary_size)
    check_computable(objective, environment, policy, group_size, off_policy)
    if "keys" in objective.needs:
        raise ValueError("the objective samples at random: its mean update is not exact, and ties would show its error")


def is_idle(surrogate: Surrogate) -> bool:
    """Whether a surrogate of importance ratios is the plain policy gradient, up to a factor, when all ratios are 1.

    Then the policy is the one that sampled the batch, as with one update on each batch: nothing is clipped, and
    objectives that differ only in their clips are the same.
    """
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

    def gradient(part: Surrogate) -> np.ndarray:
        parameters = part.init_parameters(synthetic_sizes(prompts=2))

        def value(log_probs):
            now = dataclasses.replace(scores, log_probs=log_probs)
            return part.evaluate(now, rollouts, advantages, parameters, None)[0].sum()

        return np.asarray(jax.grad(value)(scores.log_probs))

    plain, own = gradient(PolicyGradient()), gradient(surrogate)
    factor = (own * plain).sum() / (plain * plain).sum()
    has_ratios = not surrogate.on_policy or "proximal_log_probs" in surrogate.needs
    return bool(has_ratios and factor > 0 and np.allclose(own, factor * plain, atol=1e-5))


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
            return Field(objective, rewards, group_size, reference, off_policy, steps)
        rewards = tuple(rewards[place] for place in IN_TREE)
        reference = reference and tuple(_as_walks([reference])[0].tolist())
        return Field(objective, rewards, group_size, reference, off_policy, steps, WALKS)

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
        return f"two correct outcomes share evenly: {_written(binary.probs)}{_stability(binary)}"
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
        return f"{name}: {texts[0]} by a uniform reference, {texts[1]} by {_written(REFERENCES['skewed'])}"
    return f"binary rewards: {binary.text}; unequal: {cases['unequal'].text}"


def _stability(case: Case) -> str:
    """The rate of the slowest deviation from the distribution, among its present outcomes."""
    if case.rest is None or not len(case.rest.rates):
        return ""
    return f"; the slowest deviation fades at {case.rest.rates.max():.2g}"


def _written(probs) -> str:
    return " : ".join(f"{p:.2f}" if p else "0" for p in probs)
