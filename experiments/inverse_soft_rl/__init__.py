"""Which reward does a policy reveal: how fast from its demonstrations, elsewhere, and after it has collapsed?

Claim     Inverse reinforcement learning with entropy learns a reward from one chain of n steps with an error of
          n^(-1/2), and the policy with a KL divergence of 1/n. Ours: a policy that expected return has collapsed
          reveals differences between equally good outcomes, and that lost ones are wrong; one of inverse probability
          scaling reveals the logarithm of the rewards, one with an entropy bonus the rewards.
Paper     arXiv 2512.06956, of which we know the setting; formulas, reference measure and estimator are our reading.
Arms      A process of 6 states and 3 actions, gamma 0.9, lambda 1: tabular maximum likelihood; a chain that holds its
          state in nine of ten steps; ten times the penalty; uniform weights of the least squares in the place of the
          invariant law; policies of rank 1, none of which is the expert. Discounts. Other moves, in 64 processes; the
          placebo is the expert's old policy, which the reward lambda log pi keeps. Eight outcomes, of which four are
          right (all 1, or 1, 1, 0.5, 0.5): logits are trained from the uniform policy in 2000 steps on groups of 16, of
          rate 1, or 0.2 with inverse probabilities; 1000 demonstrations of each policy.
Command   python -m experiments.inverse_soft_rl
Time      demo three minutes on two busy CPU cores, smoke 10 CPU seconds.
Expected  In the logarithm of n the reward's error has a slope of -0.511 [-0.519, -0.503], the KL divergence one of
          -1.01 [-1.03, -1.00], and both come to their exact limits; a slow chain does too. In the class of rank one the
          reward's error stays where it is. Where all moves have changed, the reward loses more than the expert's old
          policy, and that of uniform weights less: it is the posterior mean of normal rewards. Between two outcomes of
          reward one, GRPO reveals 7.1 [6.6, 7.6] over lambda, IPS-GRPO 0.14. Without its favourite outcome what GRPO
          reveals earns 0.43 [0.36, 0.50] of the best reward, IPS-GRPO's far more.
Doubt     From the uniform policy noise starts the differences that expected return widens: with smaller steps or fewer
          of them GRPO reveals smaller ones. Outcomes of one state have log-probabilities as rewards; where paths share
          states, the logarithm of the number of paths would be among them. One process has the rates, and the rewards
          are normal numbers: others may move better with the invariant law. Rates of real demonstrations are unknown.
Smoke     python -m experiments.inverse_soft_rl --preset=smoke
"""

import dataclasses
import functools
import itertools
import math
from typing import Any

from experiments.inverse_soft_rl.demonstrated_chains import LONGEST
from experiments.inverse_soft_rl.revealed_rewards import (
    CANDIDATES,
    KINDS,
    LOW,
    OUTCOMES,
    PENALISED,
    SLOW,
    TABULAR,
    UNIFORM,
    at_discount,
    errors,
    in_another_kernel,
    trained,
)
from ipsrl import study
from ipsrl.checking.fields import any_of, at_least, between, positive, probability
from ipsrl.figures.layers import Bars, Layer, Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study.claims import above, below, near

GRPO, ENTROPY, IPS, IPS_PLAIN = "grpo", "dr_grpo(entropy=0.2)", "ips_grpo", "ips_reinforce"
OTHERS = ENTROPY, IPS, IPS_PLAIN
RATES = {GRPO: 1.0, ENTROPY: 1.0, IPS: 0.2, IPS_PLAIN: 0.2}
LAMBDA = 0.2  # The weight of the entropy of `ENTROPY`, which is its temperature.


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """Chains of `lengths` steps for each of `chains`, a process for each of `problems`, a trained policy for each seed.

    A slow chain holds its state with the probability `held`. Trained policies give `draws` demonstrations.
    """

    lengths: tuple[int, ...] = study.rising(tuple(10**power for power in range(2, 8)), 2, LONGEST)
    chains: tuple[int, ...] = study.seeds(range(32), least=2)
    discount: float = between(0.0, 0.999, 0.9)
    discounts: tuple[float, ...] = between(0.0, 0.999, (0.0, 0.3, 0.6, 0.9, 0.97, 0.99, 0.999))
    held: float = between(0.0, 0.999, 0.9)
    shares: tuple[float, ...] = probability((0.0, 0.1, 0.3, 0.6, 1.0))
    problems: tuple[int, ...] = study.seeds(range(64), least=2)
    objectives: tuple[str, ...] = study.selecting(any_of(RATES))
    seeds: tuple[int, ...] = study.seeds(range(32), least=2)
    draws: int = at_least(1, 1000)
    group_size: int = at_least(2, 16)
    steps: int = positive(2000)

    def __post_init__(self):
        super().__post_init__()
        if len(self.lengths) < 2:
            raise ValueError(
                f"--lengths is {self.lengths}, it must have two numbers or more: a slope needs two"
            )


PRESETS = {
    "smoke": Settings(
        lengths=(300, 3_000, 30_000),
        chains=(0, 1, 2, 3),
        discounts=(0.0, 0.9),
        shares=(0.0, 1.0),
        problems=(0, 1),
        objectives=(GRPO, IPS_PLAIN),
        seeds=(0, 1, 2, 3),
        steps=1000,
    ),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    of_chains = settings.discount, settings.lengths, settings.chains
    for kind in KINDS:
        compute = functools.partial(errors, kind, *of_chains, settings.held, max(settings.shares))
        yield study.Curve({"part": "errors", "kind": kind}, compute)
    for discount in settings.discounts:
        length = min(100_000, settings.lengths[-1])
        compute = functools.partial(at_discount, discount, length, settings.chains)
        yield study.Curve({"part": "discounts", "discount": discount}, compute)
    for share, candidate in itertools.product(settings.shares, CANDIDATES):
        compute = functools.partial(
            in_another_kernel, candidate, settings.discount, share, settings.problems
        )
        yield study.Curve({"part": "moves", "share": share, "kind": candidate}, compute)
    of_training = settings.seeds, settings.group_size, settings.steps, settings.draws
    for world, objective in itertools.product(OUTCOMES, settings.objectives):
        yield trained(objective, RATES[objective], world, *of_training)


def of_chain(value: str, kind: str) -> study.Number:
    return study.final(value, part="errors", kind=kind)


def of_moves(kind: str) -> study.Number:
    """The regret where all moves are other ones."""
    return study.final("regret", part="moves", kind=kind, share=1.0)


def of_trained(value: str, objective: str, world: str = "graded") -> study.Number:
    return study.final(value, part="trained", world=world, kind=objective)


def largest_over_smallest(records: Records) -> float:
    limits = records.at_end().column("limit")
    return limits.max() / limits.min()


RATIO_OF_LIMITS = study.Computed(
    "the largest limit of n error^2 over the smallest", largest_over_smallest, {"part": "discounts"}
)
FOUND, APART, LOST = "told apart", "gap of equals", "without the favourite"
CLAIMS = {
    **{
        f"{kind}: the reward's error has a slope within 0.03 of -1/2 in log n": near(
            of_chain("slope of reward error", kind), -0.5, 0.03
        )
        for kind in (TABULAR, SLOW, UNIFORM, LOW)
    },
    **{
        f"{kind}: the (excess) KL divergence has a slope within 0.06 of -1 in log n": near(
            of_chain("slope of divergence", kind), -1.0, 0.06
        )
        for kind in (TABULAR, SLOW, LOW)
    },
    **{
        f"{kind}: n KL is within 15 % of S (A - 1) / 2, however slowly the chain mixes": near(
            of_chain("n KL / limit", kind), 1.0, 0.15
        )
        for kind in (TABULAR, SLOW)
    },
    **{
        f"{kind}: n error^2 is within 15 % of its exact limit": near(
            of_chain("n error^2 / limit", kind), 1.0, 0.15
        )
        for kind in (TABULAR, SLOW, PENALISED)
    },
    "rank 1: the reward's error stays above 0.1": above(of_chain("reward error", LOW), 0.1),
    "the limit of n error^2 varies by less than a tenth over all discounts": below(
        RATIO_OF_LIMITS, 1.1
    ),
    "from infinitely many demonstrations the reward still loses over 0.001 where all moves are other ones": above(
        of_moves("least squares"), 0.001
    ),
    "there the least-squares reward loses less than the expert's old policy": below(
        of_moves("least squares"), of_moves("log-policy")
    ),
    "there uniform weights lose more than those of the invariant law": above(
        of_moves("uniform weights"), of_moves("least squares")
    ),
    **{
        f"GRPO reveals over 1 between equally good outcomes ({world})": above(
            of_trained(APART, GRPO, world), 1.0
        )
        for world in OUTCOMES
    },
    **{
        f"{objective} reveals less than 0.5 between equally good outcomes ({world})": below(
            of_trained(APART, objective, world), 0.5
        )
        for world in OUTCOMES
        for objective in OTHERS
    },
    **{
        f"{objective} reveals log 2 between rewards 1 and 0.5, within 0.1": near(
            of_trained("gap of halves", objective), math.log(2), 0.1
        )
        for objective in (IPS_PLAIN, IPS)
    },
    "with an entropy bonus of 0.2 the rewards 1 and 0.5 are revealed 0.5 / 0.2 apart, within 0.25": near(
        of_trained("gap of halves", ENTROPY), 0.5 / LAMBDA, 0.25
    ),
    **{
        f"{objective}: from the demonstrations over 0.99 of right and wrong outcomes are told apart ({world})": above(
            of_trained(FOUND, objective, world), 0.99
        )
        for world in OUTCOMES
        for objective in OTHERS
    },
    **{
        f"GRPO: from the demonstrations less than 0.9 of them are told apart ({world})": below(
            of_trained(FOUND, GRPO, world), 0.9
        )
        for world in OUTCOMES
    },
    **{
        f"without the favourite, what GRPO reveals earns over 0.1 less than what IPS-GRPO reveals ({world})": above(
            of_trained(LOST, IPS, world), of_trained(LOST, GRPO, world), 0.1
        )
        for world in OUTCOMES
    },
}
HEADLINE = study.Headline(
    subject="Theories next door",
    claim=(
        "Entropy-regularised inverse reinforcement learning finds the reward with an error "
        "of n^(-1/2) from one chain."
    ),
    scope="tabular chains with exact limits",
    decided_by=(
        "tabular: the reward's error has a slope within 0.03 of -1/2 in log n",
        "tabular: the (excess) KL divergence has a slope within 0.06 of -1 in log n",
        "slow chain: the reward's error has a slope within 0.03 of -1/2 in log n",
    ),
)
TABLE = study.one_below_the_other(
    study.Table((), "errors of a chain of the greatest length", {"part": "errors"}),
    study.Table((), "discounts", {"part": "discounts"}, ("discount",)),
    study.Table((), "other moves", {"part": "moves"}, ("share", "kind")),
    study.Table(
        (),
        "trained policies, rewards in units of the temperature",
        {"part": "trained"},
        ("world", "kind"),
    ),
)


def drawn(value: str, part: str, along: str, **chosen: Any) -> list[Layer]:
    where = {"part": part}
    return [
        Markers(value, along, "kind", where, **chosen),
        Line(value, along, "kind", where, markers=False, **chosen),
    ]


def bars(value: str, title: str, label: str) -> Panel:
    return Panel(
        [Bars(value, by="kind", where={"part": "trained", "world": "graded"})], title, label
    )


STEPS, GAP = "steps of the chain", "revealed difference / temperature"
LOGS = {"xscale": "log", "yscale": "log"}
FIGURE = Panels(
    [
        Panel(
            drawn("reward error", "errors", "step"),
            "errors of rewards",
            STEPS,
            "distance in L2",
            **LOGS,
        ),
        Panel(
            drawn("divergence", "errors", "step", without=(UNIFORM,)),
            "(excess) divergence",
            STEPS,
            "KL",
            **LOGS,
        ),
        Panel(
            drawn("regret", "moves", "share", without=(CANDIDATES[0],)),
            "other moves",
            "their share",
            "regret",
        ),
        bars(APART, "between two outcomes of reward 1", GAP),
        bars("gap of halves", "between rewards 1 and 0.5", GAP),
        bars(LOST, "without the favourite", "reward earned by what is revealed"),
    ],
    columns=3,
)
