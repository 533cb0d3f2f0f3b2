"""Many equally good outcomes and few samples: counts lose the signal, exact probabilities do not.

Claim     With K equally good outcomes and groups of G samples, scaling by counts restores lost diversity ever more
          slowly, at about G (G - 1) / (2 K^2) of the ideal rate: where no outcome occurs twice in a group all counts
          are 1, and IPS-GRPO is GRPO. Scaling by the policy's exact probability restores it at every K.
Paper     Algorithm 1 of arXiv 2601.21669 (counts), whose stated limit this is; the rate is derived here.
Arms      GRPO, and IPS-GRPO by counts in the group, by their moving averages, and by exact probabilities, with K = 16,
          64, 256, 1024 and 4096 and five seeds each: plain gradient ascent in groups of 16 at a rate of 1.6, which we
          chose, with 16 samples for each outcome at every K. Rates of IPS-Dr. GRPO, by counts and by exact
          probabilities, are of 256 batches of 32 groups, beside the exact mean and the closed form for small ones.
Command   python -m experiments.many_outcomes
Time      demo three minutes on two CPU cores, smoke under one; paper, not run, an estimated hour.
Expected  Effective outcomes at the largest K, as a share of it, which starts at 0.61: GRPO 0.60 +- 0.02, by counts 0.65
          +- 0.02, by their moving averages 0.80 +- 0.02, by exact probabilities 0.98 +- 0.02. At the smallest K counts
          do nearly as well as exact probabilities. Rates by counts fall with K as the claim says, from a quarter of
          those by exact probabilities to next to nothing.
Doubt     Outcomes in a table share nothing: a network that raises similar answers together may need fewer counts. One
          group size, one rate and one start; more samples for each outcome let counts go further, as their moving
          averages do. Exact probabilities can be had only where an answer is the outcome, or paths to it are summed.
Smoke     python -m experiments.many_outcomes --preset=smoke

K outcomes pay 1 and one more pays 0, at probability 1/2; the logits of the K start at normal quantiles of standard
deviation `spread`. There are `passes` samples for each outcome at every K. Rates: `restoring_rates`.
"""

import dataclasses
import functools

import jax
import numpy as np
from scipy.special import logit, logsumexp
from scipy.stats import norm

from experiments.many_outcomes.restoring_rates import ESTIMATES, Displaced
from ipsrl import study
from ipsrl.checking.fields import at_least, positive
from ipsrl.distributed import memory
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.figures.layers import Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures import diversity
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular

COUNTS = "ips_grpo(probability=counts)"
EMA = "ips_grpo(probability=ema)"
EXACT = "ips_grpo(probability=exact)"
LARGEST = 4096
"""Number of outcomes of which a claim is made."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """A pass is K samples; each of `rate_batches` has 32 groups."""

    objectives: tuple[str, ...] = study.objectives(("grpo", COUNTS, EMA, EXACT))
    num_outcomes: tuple[int, ...] = study.rising((16, 64, 256, 1024, LARGEST), least=2, most=2**20)
    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
    group_size: int = at_least(3, 16)
    passes: int = positive(16)
    learning_rate: float = positive(1.6)
    spread: float = positive(1.0)
    rate_batches: int = at_least(2, 256)
    displacement: float = positive(0.25)

    def __post_init__(self):
        super().__post_init__()
        if wrong := [count for count in self.num_outcomes if count % self.group_size or count % 2]:
            raise ValueError(
                f"--num_outcomes has {wrong[0]}, it must be an even multiple of {self.group_size} samples"
            )


PRESETS = {
    "smoke": Settings(("grpo", COUNTS, EXACT), (16, 512), (0, 1), passes=16, rate_batches=8),
    "demo": Settings(),
    "paper": Settings(
        num_outcomes=tuple(2**n for n in range(4, 13)),
        seeds=tuple(range(16)),
        passes=64,
        rate_batches=2048,
    ),
}


def curves(settings: Settings) -> study.Curves:
    updates = 12 * settings.rate_batches * max(settings.num_outcomes)
    memory.require(updates, "the updates of --rate_batches", "lower it, or --num_outcomes")
    for text in settings.objectives:
        for count in settings.num_outcomes:
            yield trained(text, count, settings)
    for estimate in ESTIMATES:
        for count in settings.num_outcomes:
            compute = functools.partial(rate, estimate, count, settings)
            yield study.Curve({"estimate": estimate, "K": count}, compute)


def trained(text: str, count: int, settings: Settings) -> study.Curve:
    """The curve of one objective with so many good outcomes, recorded after each pass."""
    bandit = Bandit((1.0,) * count + (0.0,))
    right = settings.spread * norm.ppf((np.arange(count) + 0.5) / count)
    logits = np.append(right, logsumexp(right) + logit(0.5)).astype(np.float32)
    updates = count // settings.group_size
    return study.trained(
        bandit,
        Tabular.of(bandit),
        text,
        settings,
        measures,
        functools.partial(dict, passes=np.arange(settings.passes + 1)),
        {"objective": text, "num_outcomes": count},
        initial_parameters={"logits": logits[None]},
        steps=settings.passes * updates,
        record_every=updates,
    )


def measures(parameters: Parameters) -> dict[str, jax.Array]:
    """`diversity`, the effective number of rewarded outcomes as a share of them, and `reward`, their probability."""
    right = jax.nn.softmax(parameters["logits"][0])[:-1]
    reward = right.sum()
    return {
        "diversity": diversity.effective_outcomes_of_distribution(right / reward) / len(right),
        "reward": reward,
    }


def rate(estimate: str, count: int, settings: Settings) -> study.Points:
    """The rates; each batch of groups counts as a seed."""
    displaced = Displaced(estimate, count, settings.group_size, settings.displacement)
    values = {
        "rate": displaced.sampled(settings.rate_batches)[:, None],
        "exact": displaced.exact(),
        "closed_form": displaced.closed_form(),
    }
    return study.Points([1], values, range(settings.rate_batches))


def kept(objective: str) -> study.Number:
    return study.final("diversity", objective=objective, num_outcomes=LARGEST)


AGREE = study.near(study.final("rate"), study.final("exact"), 0.02)
CLAIMS = {
    "at the largest K exact probabilities keep more than counts and than GRPO": study.every(
        study.above(kept(EXACT), kept(rival)) for rival in ("grpo", COUNTS)
    ),
    "measured rates are within 0.02 of the exact means": study.at_each(
        "estimate", study.at_each("K", AGREE)
    ),
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "With many equally good outcomes and small groups scaling by counts loses the signal; "
        "exact probabilities keep it."
    ),
    scope="up to 4096 equal outcomes in a table of logits, groups of 16",
    decided_by=tuple(CLAIMS),
)
KEPT = study.Table(
    {"diversity": "effective outcomes / K", "reward": "reward"}, rows=("objective", "num_outcomes")
)
RATES = study.Table(
    {"rate": "restoring rate", "exact": "exact", "closed_form": "small ones"},
    rows=("estimate", "K"),
)
TABLE = study.one_below_the_other(KEPT, RATES)
AXES = {
    "xlabel": "number of equally good outcomes K (groups of {group_size} samples)",
    "xscale": "log",
}
FIGURE = Panels(
    [
        Panel(
            [Line("diversity", "num_outcomes", at_end=True)],
            ylabel="effective outcomes / K after training",
            **AXES,
        ),
        Panel(
            [Line("closed_form", "K", "estimate", dashed=True), Markers("rate", "K", "estimate")],
            ylabel="restoring rate (1 = infinitely many samples)",
            yscale="log",
            **AXES,
        ),
    ]
)
