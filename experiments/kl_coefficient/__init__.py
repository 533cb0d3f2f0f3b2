"""The coefficient of the KL divergence against a proxy reward that one wrong outcome hacks: is there a good one?

Claim     The coefficient is blunt: too small, and the policy hacks the reward; too large, and it stays where it was. KL
          in the reward, instead of in the loss, distorts the advantages.
Paper     arXiv 2402.03300 (k3 in the loss), 2402.14740 (k1 in the reward, RLOO). Our reading of blunt, which decides:
          at every coefficient most runs hack or stay where they were. Another, that none ends at a true reward of 0.9,
          is asked beside it. Derived: the optimum of reward less KL is start x exp(proxy / beta), of a true reward of
          at most a / (a + 2 sqrt(h w)), for a right, h of the hack and w other wrong outcomes at the start.
Arms      A proxy pays 1 for right outcomes and 2 for one wrong outcome, the hack. Two starts with 30 % right outcomes,
          on both sides of what the bound allows: a hack of 3.5 % (at most 0.50) and of 0.007 % (at most 0.96).
          Coefficients from 0.001 to 10: k3 in the loss of GRPO, k1 in its reward; ablation: k1 in the reward without
          std (RLOO). Beside them the optimum itself, and how far the divergence from the first start changes the exact
          update at a policy as GRPO leaves it on a clean reward, at accuracy 0.98.
Command   python -m experiments.kl_coefficient
Time      demo two CPU minutes, smoke half a one; paper, not run, an estimated twenty.
Expected  From the common hack KL in the reward ends at the optimum, with and without std: hacked at small coefficients,
          with a true reward of 0.47 at the best, near the start's at the largest; in the loss the best is 0.396 [0.393,
          0.398]. That no coefficient is good there is what the bound says of that start, not of the coefficient, and at
          middle ones runs neither hack nor stagnate. From the rare hack there are good ones, with 0.944 in the loss and
          0.985 in the reward (above the optimum: the hack is hardly found). The smallest coefficient changes the late
          update by 109 % in the reward with std, as any smaller one does, because in groups of right answers the
          divergence is all that differs; elsewhere by hardly anything.
Doubt     A reward model that is hacked by degrees, by many outcomes: here one outcome is right or wrong as a whole.
Smoke     python -m experiments.kl_coefficient --preset=smoke

A run hacks if the hack has more than half of the probability at the end; it stagnates if its divergence from the start
is below 0.1 nats. True reward and divergence are those of the policy itself. The bound is one of reward less
KL(policy || start); k3 in the loss has the gradient of KL(start || policy), so that it holds there by no proof.
"""

import dataclasses
import functools
import itertools
from typing import ClassVar

import numpy as np

from experiments.kl_coefficient.hacked_proxy import (
    COMMON,
    PROXY,
    RARE,
    STARTS,
    bound,
    measures,
    optimum,
    share_of_divergence,
)
from experiments.verifiers.right_and_wrong import BANDIT, POLICY
from ipsrl import study
from ipsrl.checking.fields import at_least, positive
from ipsrl.figures.layers import Layer, Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.rewards import RewardTable
from ipsrl.study import above, at_each, below, final, share

PLACES = {
    "in the loss": "grpo(kl=k3({}))",
    "in the reward": "grpo(kl=k1({}, place=reward))",
    "in the reward, no std": "rloo(kl={})",
}


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`betas` are the coefficients; the objectives are `PLACES`."""

    objectives: ClassVar[tuple[str, ...]] = ()
    betas: tuple[float, ...] = study.rising(
        (0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 10.0), least=1e-6, most=100
    )
    seeds: tuple[int, ...] = study.seeds(range(32, 52), least=2)
    group_size: int = at_least(2, 8)
    steps: int = positive(5000)


PRESETS = {
    "smoke": Settings(seeds=(32, 33), steps=100, betas=(1.0,)),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32, 96)), steps=50_000, record_every=1000),
}


def curves(settings: Settings) -> study.Curves:
    for (place, text), beta in itertools.product(PLACES.items(), settings.betas):
        for start, logits in STARTS.items():
            yield study.trained(
                BANDIT,
                POLICY,
                text.format(beta),
                settings,
                measure=functools.partial(measures, start=start),
                labels={"kind": "trained", "start": start, "place": place, "beta": beta},
                initial_parameters={"logits": np.array([logits], np.float32)},
                reward=RewardTable(PROXY),
            )
        exact = functools.partial(share_of_divergence, text.format(beta), settings.group_size)
        yield study.Curve({"kind": "exact", "place": place, "beta": beta}, exact)
    for start, beta in itertools.product(STARTS, settings.betas):
        labels = {"kind": "optimum", "start": start, "place": "optimum", "beta": beta}
        yield study.Curve(labels, functools.partial(optimum, beta, start))


STUCK = "from 30 % right and {}, KL {}: at every coefficient most runs hack or stagnate"
CLAIMS = {
    **{
        f"from 30 % right and {COMMON}, KL {place}: some coefficient ends within 0.05 of the "
        "largest true reward of an optimum": study.at_some(
            "beta",
            above(final("true"), bound(COMMON) - 0.05),
            kind="trained",
            start=COMMON,
            place=place,
        )
        for place in PLACES
    },
    **{
        f"from 30 % right and {RARE}, KL {place}: no coefficient ends at a true reward of 0.9": at_each(
            "beta", below(final("true"), 0.9), kind="trained", start=RARE, place=place
        )
        for place in PLACES
    },
    **{
        STUCK.format(start, place): at_each(
            "beta", above(share("wasted"), 0.5), kind="trained", start=start, place=place
        )
        for start in STARTS
        for place in PLACES
    },
    **{
        f"KL {place}: a coefficient of 0.001 changes the late update by more than a tenth": above(
            final("moved", kind="exact", place=place, beta=0.001), 0.1
        )
        for place in PLACES
    },
}
HEADLINE = study.Headline(
    subject="Verifiers and reward models",
    claim=(
        "The coefficient of the KL divergence is blunt: too small, and the proxy is hacked; "
        "too large, and nothing moves."
    ),
    scope="a bandit with one wrong outcome that the proxy pays",
    decided_by=tuple(
        STUCK.format(start, place) for start in STARTS for place in ("in the loss", "in the reward")
    ),
)
TABLE = study.Table(title="{kind}", each="kind")
AXES = {"xlabel": "coefficient", "xscale": "log"}
TRUE = "true reward after training"


def against(along: str, start: str) -> list[Layer]:
    """The true reward of runs and, dashed, of optima."""
    trained, optimal = ({"kind": kind, "start": start} for kind in ("trained", "optimum"))
    return [
        Line("true", along, "place", optimal, dashed=True),
        Markers("true", along, "place", trained, at_end=True),
    ]


MOVED = Line("moved", "beta", "place", {"kind": "exact"})
PANELS = [
    *(Panel(against("beta", start), f"from {start}", ylabel=TRUE, **AXES) for start in STARTS),
    Panel(against("divergence", COMMON), f"from {COMMON}", "KL, nats", TRUE),
    Panel([MOVED], ylabel="change of the late exact update", **AXES),
]
FIGURE = Panels(PANELS, columns=2)
