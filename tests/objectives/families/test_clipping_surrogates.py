import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.balanced_clipping import BalancedClip
from ipsrl.objectives.catalog.clipping import DivergenceMask, FlippedRatio, GradientPreservingClip, TruncatedRatio
from ipsrl.objectives.catalog.signs import TaperedRatio
from ipsrl.objectives.catalog.token_probability import BoundedRatio
from ipsrl.objectives.catalog.trust_region import ClippedGeometricMean, GammaWeight, ProbabilityClip, SoftGate
from ipsrl.objectives.surrogates import ClippedRatio, ClippedSequenceRatio, ImportanceRatio
from ipsrl.structures import PolicyScores, Sizes
from tests.objectives.groups import assert_close, by_log_probs, random_rollouts, rollouts_of, scores_of
from tests.tiers import slow_after


def judged(surrogate, behaviour, policy, advantages):
    """Values, gradient by log pi, and metrics of one answer, given the probabilities of its tokens."""
    rollouts = rollouts_of(np.log(behaviour).reshape(1, 1, -1))
    log_probs, advantages = (
        jnp.asarray(a, jnp.float32).reshape(rollouts.tokens.shape) for a in (np.log(policy), advantages)
    )

    def total(log_probs):
        scores = scores_of(log_probs)
        statistics = surrogate.statistics(scores, rollouts, advantages)
        values, metrics = surrogate.evaluate(scores, rollouts, advantages, {}, statistics)
        return values.sum(), (values[0, 0], metrics)

    gradient, (values, metrics) = jax.grad(total, has_aux=True)(log_probs)
    return values, gradient[0, 0], metrics


def by_ratio(surrogate, ratios, advantages):
    """The same with a behaviour probability of 0.1 for every token."""
    return judged(surrogate, np.full(len(ratios), 0.1), 0.1 * np.array(ratios), advantages)


@pytest.mark.parametrize(
    ("surrogate", "clipped"),
    [
        (ClippedRatio(0.2, 0.28, dual_clip=3.0), 4),
        (GradientPreservingClip(), 3),
        (GradientPreservingClip(dual_clip=3.0), 4),
        (TruncatedRatio(), 2),
        (TruncatedRatio(cap=1.2, floor=0.8), 6),
        (DivergenceMask(), 1),
        (TaperedRatio(), 5),
        (FlippedRatio(), 3),
        (ClippedGeometricMean(), 3),
    ],
)
def test_clipped_tokens_are_counted(surrogate, clipped):
    metrics = by_ratio(surrogate, [0.5, 1, 2, 6] * 2, [1.0] * 4 + [-1.0] * 4)[2]
    assert_close(metrics["clip_fraction"], (clipped, 8))
    # Of the answer there is one ratio.
    of_answer = 8 * np.exp((0.4 + np.log(6)) / 8)
    ratios = of_answer if isinstance(surrogate, ClippedGeometricMean) else 19
    assert_close(metrics["importance_ratio"], (ratios, 8))


def test_the_weight_of_an_answer_is_measured():
    """Ratios 3 and 1/2 of one answer: W = 3/2."""
    metrics = judged(GammaWeight(), [0.2, 0.4], [0.6, 0.2], [1, -1])[2]
    assert_close(metrics["answer_weight"], (1.5**2 * np.exp(-1.5) + 1.5**3 * np.exp(-1), 2))


@pytest.mark.parametrize(
    "surrogate",
    [
        ImportanceRatio(),
        GradientPreservingClip(),
        DivergenceMask(threshold=1.0),
        ClippedRatio(),
        ClippedSequenceRatio(0.2, 0.2),
        ClippedSequenceRatio(0.2, 0.2, per_token=True),
        BoundedRatio(),
        SoftGate(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("log_ratio", [21.0, -21.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_ratio_beyond_the_limit_has_no_gradient(surrogate, log_ratio, advantage):
    rollouts = rollouts_of(np.full((1, 1, 1), -1.0 - log_ratio))
    actual, gradient, _ = by_log_probs(surrogate, np.full((1, 1, 1), -1.0), rollouts, jnp.full((1, 1, 1), advantage))
    assert np.isfinite(actual).all()
    assert gradient.ravel() == 0.0


def test_ratios_at_the_limits_are_not_clipped():
    for surrogate in (GradientPreservingClip(0.5, 1.0), TruncatedRatio(2.0, 0.5)):
        _, gradient, metrics = by_ratio(surrogate, [0.5, 2.0], [-1.0, 1.0])
        assert_close(gradient, [-0.5, 2.0])
        assert metrics["clip_fraction"][0] <= 1  # exp(log 0.5) may be just below 0.5


def literal_search(part, ratios, advantages, behaviour):
    """Limits by the paper's loop, or by that of the released code, in float64; limits are counted in steps."""
    weight = np.abs(advantages) * (behaviour if part.form == "paper" else 1.0)
    last_low = round((part.low_end - part.low_start) / part.low_step)
    last_high = round((part.high_end - part.high_start) / part.high_step)
    low_steps = high_steps = 0
    while True:
        low, high = part.low_start + low_steps * part.low_step, part.high_start + high_steps * part.high_step
        positive = (weight * np.minimum(ratios, high))[advantages > 0].sum()
        negative = (weight * np.maximum(ratios, low))[advantages < 0].sum()
        measure = positive / (positive + negative) if part.form == "paper" else positive / negative
        if measure >= part.target:
            return low, high
        if part.form == "paper" and high_steps < last_high:
            high_steps += 1
        elif low_steps < last_low:
            low_steps += 1
        elif part.form == "code" and high_steps < last_high:
            high_steps += 1
        else:
            return low, high


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("target", slow_after(3, [0.45, 0.9, 2.0, 0.1]))
def test_limits_are_those_of_the_published_loop(form, target):
    arguments = {"low_start": 0.6, "low_end": 0.8, "low_step": 0.05, "high_start": 1.2, "high_end": 2.0}
    part = BalancedClip(form, target, **arguments)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        ratios, advantages = np.exp(rng.normal(0, 0.6, 9)), rng.normal(0, 1, 9)
        behaviour = rng.uniform(0.05, 0.3, 9)
        metrics = judged(part, behaviour, behaviour * ratios, advantages)[2]
        found = [metrics[name][0] / metrics[name][1] for name in ("clip_low", "clip_high")]
        assert_close(found, literal_search(part, ratios, advantages, behaviour))


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("high_end", slow_after(1, [1.5, 1.2]))
def test_a_whole_mini_batch_finds_the_limits_of_its_pieces(form, high_end):
    """Targets that the pairs of the path just reach, each in turn, and one that nothing reaches."""
    part = BalancedClip(form, low_end=0.7, low_step=0.05, high_end=high_end)
    rng = np.random.default_rng(0)
    rollouts = rollouts_of(np.log(rng.uniform(0.05, 0.3, (3, 4, 5))), rng.random((3, 4, 5)) < 0.8)
    change = jnp.array(rng.normal(0, 0.6, (3, 4, 5)), jnp.float32)
    batch = PolicyScores(rollouts.behaviour_log_probs + change, change), rollouts, change[::-1]
    sums = part.statistics(*batch)
    positive, negative = np.asarray(sums["positive"])[part.path[:, 1]], np.asarray(sums["negative"])[part.path[:, 0]]
    measures = positive / (positive + negative if form == "paper" else negative)
    found = set()
    for target in [*(0.9999 * measures), 100.0]:
        aimed = dataclasses.replace(part, target=float(target))
        limits = aimed.searched(*batch)
        np.testing.assert_array_equal(limits, aimed.found(sums))
        found.add(tuple(map(float, limits)))
    # The start, every other upper limit, and the end of the path where that is yet another pair.
    assert len(found) == (7 if high_end == 1.5 else 1) + (form == "paper" or high_end == 1.2)


def test_limits_of_a_mini_batch_do_not_depend_on_its_pieces():
    """The first half alone would go to the end of the path; with the second the start is enough."""
    rollouts, scores = random_rollouts(prompts=4)
    objective = make("bapo(target=0.5)")
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(4)))
    whole = scores, rollouts, weights
    pieces = [jax.tree.map(lambda leaf, half=half: leaf[half], whole) for half in (np.s_[:2], np.s_[2:])]
    sums = jax.tree.map(jnp.add, *(objective.statistics(*piece) for piece in pieces))

    def limits(metrics):
        return [metrics[name][0] / metrics[name][1] for name in ("clip_low", "clip_high")]

    assert_close(limits(objective.loss(*pieces[0]).metrics), [0.9, 3.0])
    for batch in (whole, *pieces):
        assert_close(limits(objective.loss(*batch, statistics=sums).metrics), [0.6, 1.2])


MU, PI = [0.6, 0.2, 0.1, 0.05, 0.05], [0.4, 0.3, 0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("mu", "pi", "likeliest", "sampled"),
    [(MU, PI, 2, 3), (MU, PI, 2, 0), (MU, PI, 4, 3), (MU, PI, 5, 3), ([0.6, 0.4, 0.0], [0.5, 0.5, 0.0], 3, 0)],
)
def test_divergences_over_the_likeliest_tokens(mu, pi, likeliest, sampled):
    """Buckets: the likeliest, the sampled one unless it is among them, and the rest; illegal tokens have no mass."""
    kept = sorted({*range(likeliest), sampled})
    masses = [np.maximum([*np.array(probs)[kept], 1 - np.array(probs)[kept].sum()], 1e-12) for probs in (mu, pi)]
    top_mu, top_pi = (jnp.log(jnp.float32(probs[:likeliest])).reshape(1, 1, 1, -1) for probs in (mu, pi))
    rollouts = rollouts_of(
        np.log([[[mu[sampled]]]]),
        tokens=np.full((1, 1, 1), sampled),
        top_tokens=np.arange(likeliest).reshape(top_mu.shape),
        top_log_probs=top_mu,
    )
    scores = PolicyScores(jnp.log(jnp.full((1, 1, 1), pi[sampled])), jnp.zeros((1, 1, 1)), top_pi)
    for divergence, expected in (
        ("top_tv", np.abs(masses[0] - masses[1]).sum() / 2),
        ("top_kl", (masses[0] * np.log(masses[0] / masses[1])).sum()),
    ):
        np.testing.assert_allclose(DivergenceMask(divergence).between(scores, rollouts), [[[expected]]], atol=1e-6)


@pytest.mark.parametrize(
    ("divergence", "threshold", "likeliest"),
    [("binary_tv", 0.15, 0), ("top_tv", 0.15, 20), ("binary_kl", 0.05, 0), ("top_kl", 0.05, 20)],
)
def test_each_divergence_has_a_threshold_and_a_number_of_tokens(divergence, threshold, likeliest):
    objective = make(f"dppo(divergence={divergence})")
    assert (objective.surrogate.threshold, objective.top_tokens) == (threshold, likeliest)


def test_unlikely_tokens_may_change_more():
    """The limits of the paper's own table: probabilities 0.9 to 0.69 or 1 (1.18), 0.01 to 0.005 or 0.05."""
    for q, lowest, highest in ((0.9, 0.69 / 0.9, 1.06 / 0.9), (0.01, 0.5, 5.0)):
        for advantage, ratio, limit in ((-1, lowest - 0.1, lowest), (1, highest + 0.1, highest)):
            values, gradient, _ = judged(ProbabilityClip(), [q], [q * ratio], [advantage])
            np.testing.assert_allclose(values, [advantage * limit], rtol=0.01)
            assert_close(gradient, [0])
    assert_close(judged(ProbabilityClip(), [1e-30], [1e-28], [1])[0], [10])
    assert_close(judged(ProbabilityClip(), [1e-30], [1e-28], [-1])[0], [-10])
    assert_close(judged(ProbabilityClip(), [1e-30], [4e-31], [-1])[0], [-0.5])
