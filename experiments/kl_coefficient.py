"""The coefficient of the KL divergence against a proxy reward that one wrong outcome hacks: is there a good one?

Claim     The coefficient is blunt: too small, and the policy hacks the reward; too large, and it stays where it was. KL
          in the reward, instead of in the loss, distorts the advantages.
Paper     arXiv 2402.03300 (k3 in the loss), 2402.14740 (k1 in the reward, RLOO). Our reading of blunt: no coefficient
          ends at nine tenths of the best true reward. The optimum at start x exp(proxy / beta) is derived.
Arms      A proxy pays 1 for right outcomes and 2 for one wrong outcome, which has 3.5 % at the start, right ones 30 %.
          Coefficients from 0.001 to 10: k3 in the loss of GRPO, k1 in its reward; placebo: k1 in the reward without std
          (RLOO). Beside them the optimum of reward less KL, and how far the divergence changes the exact update at a
          policy as GRPO leaves it on a clean reward, at accuracy 0.98.
Command   python -m experiments.kl_coefficient
Time      demo one CPU minute, smoke a third of one; paper, not run, an estimated ten.
Expected  20 seeds. KL in the reward ends at the optimum, with and without std: a true reward of 0.001 at 0.1 (hacked),
          0.23 at 0.3, 0.46 at 0.5, 0.47 at 1, 0.32 at 10 (0.3 at the start); in the loss the best is 0.396 [0.393,
          0.398] at 3. At 0.5 in the reward runs neither hack nor stagnate, so the extremes are not all there is, but no
          coefficient is good. At 0.001 the late update changes by 1.6 % in the loss, 1.5 % in the reward without std,
          and 109 % with std, as at any smaller one: in groups of right answers the divergence is all that differs.
Doubt     A right outcome that is likelier at the start: the hack wins by its reward, the right ones by what they had.
Smoke     python -m experiments.kl_coefficient --preset=smoke

A run hacks if the hack has more than half of the probability at the end; it stagnates if its divergence from the start
is below 0.1 nats. True reward and divergence are those of the policy itself.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

from ipsrl import study
from ipsrl.dynamics.verifier_errors import distance, exact_update
from ipsrl.fields import at_least, positive
from ipsrl.figures.layers import Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures import distances
from ipsrl.measures.seeds import Interval, share_of_runs
from ipsrl.records.tidy import Records
from ipsrl.rewards import NoisyVerifier, RewardTable
from ipsrl.study.worlds.right_and_wrong import BANDIT, HACK, POLICY, RECORD, RIGHT, policy

PROXY = np.array([[1.0, 1.0, 1.0, 2.0, 0.0, 0.0]], np.float32)
START = policy(0.3, 0.05)
LATE = tuple(np.log([0.83, 0.12, 0.03, 0.01, 0.005, 0.005]).tolist())  # As GRPO leaves a clean reward.
PLACES = {
    "in the loss": "grpo(kl=k3({}))",
    "in the reward": "grpo(kl=k1({}, place=reward))",
    "in the reward, no std": "rloo(kl={})",
}


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`betas` are the coefficients."""

    betas: tuple[float, ...] = study.rising((0.001, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 3.0, 10.0), least=1e-6, most=100)
    seeds: tuple[int, ...] = study.seeds(tuple(range(32, 52)), least=2)
    group_size: int = at_least(2, 8)
    steps: int = positive(5000)


PRESETS = {
    "smoke": Settings(seeds=(32, 33), steps=100, betas=(1.0,)),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32, 96)), steps=50_000, record_every=1000),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    given = {"initial_parameters": {"logits": np.array([START], np.float32)}, "reward": RewardTable(PROXY)}
    for (place, text), beta in itertools.product(PLACES.items(), settings.betas):
        labels = {"kind": "trained", "place": place, "beta": beta}
        yield study.trained(BANDIT, POLICY, text.format(beta), settings, RECORD, measures, labels, **given)
        exact = functools.partial(share_of_divergence, text.format(beta), settings.group_size)
        yield study.Curve({"kind": "exact", "place": place, "beta": beta}, exact)
    for beta in settings.betas:
        labels = {"kind": "optimum", "place": "optimum", "beta": beta}
        yield study.Curve(labels, functools.partial(optimum, beta))


def measures(probs: np.ndarray) -> dict[str, np.ndarray]:
    """From `[..., 6]`: the true reward, the probability of the hack, and KL(policy || start) in nats."""
    divergence = np.asarray(distances.reverse_kl(probs, softmax(START)), np.float64)
    return {"true": probs[..., :HACK].sum(axis=-1), "hack": probs[..., HACK], "divergence": divergence}


def optimum(beta: float) -> study.Points:
    """That of the proxy less beta KL: start x exp(proxy / beta), normalised."""
    return study.Points([0], measures(softmax(np.array(START) + PROXY[0] / beta)))


def share_of_divergence(text: str, group_size: int) -> study.Points:
    """How far the exact update late in training is from the one without a divergence, relative to the larger."""
    plain = text.partition("(")[0]
    updates = [exact_update(name, LATE, RIGHT, NoisyVerifier(), group_size, START) for name in (text, plain)]
    return study.Points([0], {"moved": distance(*updates)})


def hacked_or_stagnant(runs: Records) -> Interval:
    return share_of_runs((runs.ends("hack") > 0.5) | (runs.ends("divergence") < 0.1))


ABOUT = {
    "no coefficient ends at a true reward of 0.9": study.at_each(
        "beta", study.below(study.final("true"), 0.9), kind="trained"
    ),
    "at every coefficient most runs hack or stagnate": study.at_each(
        "beta", study.above(hacked_or_stagnant, 0.5), kind="trained"
    ),
    "a coefficient of 0.001 changes the late update by more than a tenth": study.above(
        study.final("moved", kind="exact", beta=0.001), 0.1
    ),
}
CLAIMS = {
    f"{place}: {sentence}": study.among(claim, place=place) for sentence, claim in ABOUT.items() for place in PLACES
}
LOSS, REWARD, NO_STD = PLACES
NUMBERS = {
    f"true reward, KL {place}, {beta:g}": study.final("true", kind="trained", place=place, beta=beta)
    for place, beta in ((LOSS, 0.01), (LOSS, 0.3), (LOSS, 3.0), (REWARD, 0.5), (NO_STD, 0.5))
} | {
    f"change of the late update, KL {place}, 0.001": study.final("moved", kind="exact", place=place, beta=0.001)
    for place in PLACES
}
TABLE = study.one_below_the_other(
    study.Table(("true", "hack", "divergence"), where={"kind": "trained"}, rows=("place", "beta")),
    study.Table(("true", "hack", "divergence"), where={"kind": "optimum"}, rows=("beta",)),
    study.Table(("moved",), where={"kind": "exact"}, rows=("place", "beta")),
)
AXES = {"xlabel": "coefficient", "xscale": "log"}
TRAINED, OPTIMAL, TRUE = {"kind": "trained"}, {"kind": "optimum"}, "true reward after training"
ALONG = [Line("true", at, "place", OPTIMAL, dashed=True) for at in ("beta", "divergence")]
PANELS = [
    Panel([ALONG[0], Markers("true", "beta", "place", TRAINED, at_end=True)], ylabel=TRUE, **AXES),
    Panel([ALONG[1], Markers("true", "divergence", "place", TRAINED, at_end=True)], xlabel="KL, nats", ylabel=TRUE),
    Panel([Line("moved", "beta", "place", {"kind": "exact"})], ylabel="change of the late exact update", **AXES),
]
FIGURE = Panels(PANELS)

if __name__ == "__main__":
    study.main(__name__)
