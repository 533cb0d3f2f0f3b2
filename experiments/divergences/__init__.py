"""Preferences or rewards, under four divergences from the reference: which leaves most reward and most diversity?

Claim     f-DPO: of policies regularised by a divergence reverse KL (DPO) has the highest reward and least diversity,
          forward KL the opposite; Jensen-Shannon and alpha lie between. Calibration errors of two policies differ by no
          more than their divergence allows. Ours: from a uniform reference nothing earns more at equal entropy than the
          optimum of reverse KL, and where its loss is least each divergence has learned the same rewards.
Paper     arXiv 2309.16240; headline and bound are second-hand. The bound is our reading: c = sum |pi - q|, q = softmax
          r, differs by at most twice the total variation that D_f allows (Pinsker); also for c in ten bins. The penalty
          is `f_divergence`: GRPO without std on r - beta f'(pi / ref).
Arms      30 actions with normal rewards; a problem for each seed; reference uniform, or a softmax of normal numbers
          (exact only); alpha 0.5. By rewards: the exact optimum, and training with the penalty. By preferences: exact
          Bradley-Terry ones; 500 pairs, by the exact minimiser of the loss (the optimum of the rewards of largest
          likelihood) and by training on stored pairs, 400 steps of Adam. At equal entropy all are compared with optima
          of reverse KL. Settings of training and margins were set after trials with other seeds.
Command   python -m experiments.divergences
Time      demo three CPU minutes, smoke 11 seconds.
Expected  From a uniform reference the optimum of reverse KL at a beta of three tenths earns 1.72 at an entropy of 1.58
          nats, that of forward KL 1.66 at 1.38: less of both, and from there on less entropy at every beta.
          Jensen-Shannon has least entropy of all, as its f bends half as much at the reference. At equal entropy
          nothing earns more than reverse KL, and forward KL is up to 0.115 [0.100, 0.131] behind. Training with the
          penalty ends at the optimum. Training on pairs ends near the minimiser for DPO alone: the loss of the others
          is as near to its least value, their preferences are as well calibrated, but f' hardly grows where actions are
          likely, so that pairs hardly tell how likely. That acts as early stopping, and at equal entropy such policies
          are less behind than their minimisers. The bound holds; in bins it does not, as bins of a flat reference are
          arbitrary.
Doubt     With 20,000 steps two problems of other seeds are still 0.14 and 0.20 from forward KL's minimiser, 0.05 and
          0.00 from that of Jensen-Shannon (beta 0.3): what f-DPO gains may be its unfinished training, and another
          optimiser may undo it. Pairs cover all actions alike. Near a skewed reference entropy says little, and
          intervals are wide.
Smoke     python -m experiments.divergences --preset=smoke
"""

import dataclasses
import functools
import itertools

from experiments.divergences.preferred_actions import (
    REFERENCES,
    Problems,
    at_optimum,
    by_pairs,
    by_penalty,
    exact_preferences,
)
from ipsrl import study
from ipsrl.checking.fields import any_of, at_least, positive
from ipsrl.figures.layers import Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import above, at_each, at_some, below, final, near

REVERSE = "reverse_kl"
FORWARD = "forward_kl"
JENSEN_SHANNON = "jensen_shannon"
ALPHA = "alpha"
DIVERGENCES = (REVERSE, FORWARD, JENSEN_SHANNON, ALPHA)
OTHERS = DIVERGENCES[1:]
UNIFORM, SKEWED = REFERENCES

# Parts of the study.
PREFERENCES = "exact preferences"
OPTIMUM = "optimum"
MINIMISER = "minimiser"
PENALTY = "penalty"
PAIRS = "pairs"

TRAINED_BETAS = (0.1, 0.3, 1.0, 3.0)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """Exact policies at all `betas`, trained ones and exact preferences, of two problems, at `trained_betas`."""

    seeds: tuple[int, ...] = study.seeds(range(100, 116), least=2)
    betas: tuple[float, ...] = study.rising(
        (0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 10.0), least=0.01, most=100
    )
    trained_betas: tuple[float, ...] = study.rising(TRAINED_BETAS, least=0.01, most=100)
    pairs: int = at_least(2, 500)
    steps: int = positive(2000)
    group_size: int = at_least(2, 32)
    pair_steps: int = positive(400)
    divergences: tuple[str, ...] = study.selecting(any_of(DIVERGENCES))


PRESETS = {
    "smoke": Settings(
        (0, 1),
        (0.3,),
        (0.3,),
        steps=300,
        pair_steps=200,
        divergences=(REVERSE, FORWARD),
    ),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    def curve(part, compute, weight, problems, *given):
        labels = {"part": part, "reference": problems.reference}
        labels |= dict(zip(("divergence", "beta"), weight, strict=True))
        return study.Curve(labels, functools.partial(compute, *weight, problems, *given))

    by_reference = [Problems(settings.seeds, reference) for reference in REFERENCES]
    exact = itertools.product(by_reference, settings.divergences, settings.betas)
    for problems, *weight in exact:
        yield curve(OPTIMUM, at_optimum, weight, problems)
        yield curve(MINIMISER, at_optimum, weight, problems, settings.pairs)
    uniform, _ = by_reference
    for weight in itertools.product(settings.divergences, settings.trained_betas):
        for reference in REFERENCES:
            two = Problems(settings.seeds[:2], reference)
            yield curve(PREFERENCES, exact_preferences, weight, two)
        yield curve(PENALTY, by_penalty, weight, uniform, settings.steps, settings.group_size)
        yield curve(PAIRS, by_pairs, weight, uniform, settings.pairs, settings.pair_steps)


REWARD = "true reward"
ENTROPY = "entropy"
BEST = "behind the best"
BEHIND = "behind reverse KL"
CALIBRATION = "error of preferences"


def each_beta(claim: study.Claim, part: str, divergence: str) -> study.Claim:
    """Whether a claim holds at each weight, from the uniform reference."""
    return at_each("beta", claim, part=part, divergence=divergence, reference=UNIFORM)


def ordered(part: str, *divergences: str) -> study.Claim:
    """Whether, at each weight, each divergence earns less than the next one and has more entropy."""

    claims = [
        below(final(value, divergence=less), final(value, divergence=more))
        for one, other in itertools.pairwise(divergences)
        for value, less, more in ((REWARD, one, other), (ENTROPY, other, one))
    ]
    return at_each("beta", study.every(claims), part=part, reference=UNIFORM)


def behind(part: str, divergence: str, beta: float) -> study.Number:
    """The reward that a policy lacks to the best policy of its entropy, from the uniform reference."""
    return final(BEST, part=part, beta=beta, divergence=divergence, reference=UNIFORM)


def as_calibrated(divergence: str) -> study.Claim:
    """Whether preferences have the error that they have under reverse KL, within 0.01."""
    own = final(CALIBRATION, divergence=divergence)
    return near(own, final(CALIBRATION, divergence=REVERSE), 0.01)


def never_positive(value: str) -> study.Claim:
    """Whether a value is 0 at most in every policy, but for rounding."""
    largest = study.Computed(f"largest {value}", lambda records: records.column(value).max())
    return below(largest, 1e-6)


EXACT = (OPTIMUM, MINIMISER)
BY = {
    OPTIMUM: "exact, rewards",
    MINIMISER: "exact, 500 pairs",
    PENALTY: "trained, rewards",
    PAIRS: "trained, 500 pairs",
}
AT_EQUAL_BETA = "at each equal beta forward KL earns less than reverse KL and has more entropy"
ENDS = {
    PENALTY: "with the penalty ends within 0.05 (total variation) of where the optimum is",
    PAIRS: "on 500 pairs ends within 0.05 (total variation) of where the minimum of the loss is",
}
CLAIMS = {
    **{
        f"{divergence}: exact preferences end at the regularised optimum, pi / ref to 1e-4, "
        "from both references": at_each(
            "beta",
            at_each("reference", below(final("error"), 1e-4)),
            part=PREFERENCES,
            divergence=divergence,
        )
        for divergence in DIVERGENCES
    },
    **{
        f"{divergence}: training {ends}, at each beta": each_beta(
            below(final("distance"), 0.05), part, divergence
        )
        for part, ends in ENDS.items()
        for divergence in DIVERGENCES
    },
    **{
        f"{divergence}: training on 500 pairs leaves less than 2 % of what the loss can fall, at each beta": each_beta(
            below(final("loss left"), 0.02), PAIRS, divergence
        )
        for divergence in DIVERGENCES
    },
    **{f"{AT_EQUAL_BETA} ({BY[part]})": ordered(part, FORWARD, REVERSE) for part in EXACT},
    **{
        f"at each equal beta Jensen-Shannon is between reverse and forward KL in reward "
        f"and entropy ({BY[part]})": ordered(part, FORWARD, JENSEN_SHANNON, REVERSE)
        for part in EXACT
    },
    **{
        f"{divergence}: at equal entropy it is over 0.02 ahead of reverse KL's optima at no beta "
        f"({by}, uniform)": each_beta(above(final(BEHIND), -0.02), part, divergence)
        for part, by in BY.items()
        for divergence in OTHERS
    },
    **{
        f"{divergence}: at equal entropy it is over 0.02 behind reverse KL's optima at some beta "
        f"({BY[part]}, {reference})": at_some(
            "beta",
            above(final(BEHIND), 0.02),
            part=part,
            divergence=divergence,
            reference=reference,
        )
        for part in EXACT
        for reference in REFERENCES
        for divergence in OTHERS
    },
    **{
        f"{divergence}: at equal entropy training on 500 pairs earns less than with the penalty, "
        "at each beta": study.every(
            above(behind(PAIRS, divergence, beta), behind(PENALTY, divergence, beta))
            for beta in TRAINED_BETAS
        )
        for divergence in DIVERGENCES
    },
    **{
        f"{divergence}: preferences are as well calibrated as those of reverse KL, within 0.01 "
        f"({BY[part]})": at_each("beta", as_calibrated(divergence), part=part, reference=UNIFORM)
        for part in (MINIMISER, PAIRS)
        for divergence in OTHERS
    },
    "the calibration error sum |pi - q| differs from the reference's by no more than the "
    "divergence allows": never_positive("over the bound"),
    "the calibration error in ten bins differs from the reference's by no more than the "
    "divergence allows": never_positive("over the bound, in bins"),
}
HEADLINE = study.Headline(
    subject="Imitation, critiques and preferences",
    claim=(
        "Of policies regularised by a divergence, reverse KL has the highest reward and least"
        " diversity, forward KL the opposite."
    ),
    scope="bandits with preferences or rewards, exact and trained",
    decided_by=tuple(f"{AT_EQUAL_BETA} ({BY[part]})" for part in EXACT),
)
COLUMNS = ("error", REWARD, ENTROPY, "distance", BEST, BEHIND, CALIBRATION)
TABLE = study.Table(COLUMNS, "{part}", each="part")


def against_entropy(exact: str, trained: str, by: str, reference: str) -> Panel:
    """The exact policies as lines and, of the uniform reference, trained ones as markers."""
    look = {"value": REWARD, "along": "mean entropy", "by": "divergence"}
    lines = Line(where={"part": exact, "reference": reference}, markers=False, **look)
    markers = Markers(where={"part": trained, "reference": reference}, **look)
    return Panel([lines, markers], f"{by}, {reference} reference", "entropy, nats", REWARD)


REWARDS = (OPTIMUM, PENALTY, "rewards, with the penalty")
PREFERRED = (MINIMISER, PAIRS, "500 pairs")
FIGURE = Panels(
    [
        *(
            against_entropy(*parts, reference)
            for reference in REFERENCES
            for parts in (REWARDS, PREFERRED)
        ),
        Panel(
            [Line(BEHIND, "beta", "divergence", {"part": MINIMISER, "reference": UNIFORM})],
            "500 pairs, minimisers, uniform reference",
            "beta",
            "behind reverse KL at equal entropy",
            xscale="log",
        ),
        Panel(
            [Line("distance", "beta", "divergence", {"part": PAIRS})],
            "500 pairs, uniform reference",
            "beta",
            "trained: distance from the minimiser",
            xscale="log",
        ),
    ],
    columns=2,
    caption="Above, lines are exact policies, one for each beta, and markers trained ones.",
)
