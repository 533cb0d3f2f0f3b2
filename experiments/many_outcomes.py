"""Many equally good outcomes and few samples: counts lose the signal, exact probabilities do not.

Claim     With K equally good outcomes and groups of G samples, scaling by counts restores lost diversity ever more
          slowly, at about G (G - 1) / (2 K^2) of the ideal rate: where no outcome occurs twice in a group all counts
          are 1, and IPS-GRPO is GRPO. Scaling by the policy's exact probability restores it at every K.
Paper     Algorithm 1 of arXiv 2601.21669 (counts), whose stated limit this is; the rate is derived here.
Command   python -m experiments.many_outcomes
Time      demo three minutes on two CPU cores, five on busy ones, smoke under one; paper, not run, an estimated
          hour. Nearly all of it is drawing K random numbers for each sample.
Expected  effective outcomes / K, which start at 0.67 to 0.61, at K = 16 and K = 4096, 95 % intervals over four seeds:
          grpo 0.36 [0.32, 0.41] and 0.60 +- 0.01, by counts 0.85 [0.83, 0.87] and 0.65 +- 0.01, by moving averages of
          counts 0.89 [0.88, 0.90] and 0.80 +- 0.01, by exact probabilities 0.96 [0.94, 0.99] and 0.98 +- 0.01. Rates by
          counts 0.223 [0.216, 0.231] and 9e-6 [6e-6, 12e-6], closed form 0.240 and 6.2e-6 (the displacement costs 8 %
          of it), by exact probabilities 0.918 +- 0.003 at every K. At large K GRPO does not collapse here: it has
          nothing left to learn before it has seen most outcomes. But it never repairs, and counts hardly do: at
          K = 4096, from 0.61, they gain 0.04 where exact probabilities gain 0.37.
Smoke     python -m experiments.many_outcomes --preset=smoke
Figure    OUT/many_outcomes.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.

Training: K outcomes pay 1 and one more pays 0, at probability 1/2. The logits of the K start at normal quantiles of
standard deviation `spread`, nearly the same relative diversity at every K. Its clock: there are `passes` samples for
each outcome at every K, and the objectives normalise advantages in each group, so that under all of them a typical
sample moves a logit by learning_rate / G.

Rates: the policy is a little off uniform (logits +- `displacement`) and all outcomes pay 1. The rate is the share of
the displacement that the mean update of `ips_dr_grpo` takes back in a unit of time (updates x step size). Its clock is
that of r / p: the ideal rule, with infinitely many samples, has the rate 1 at every K. The group mean costs one sample,
so that the closed form is that of G - 1. GRPO has the rate 0, because a tie has no advantages.
"""

import dataclasses
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logit, logsumexp, softmax
from scipy.stats import norm

from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from ipsrl import objectives, specifications
from ipsrl.dynamics import finite_groups, flows, time_scales
from ipsrl.environments.bandit import Bandit
from ipsrl.figures import many_outcomes, style
from ipsrl.measures import diversity
from ipsrl.measures.seeds import Interval, mean_over_seeds
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.step import check_objective

WRONG_SHARE = 0.5
"""Probability at the start of the one outcome that pays 0."""
GROUPS_PER_BATCH = 32
BATCHES_AT_ONCE = 8
"""Of the measurement of a rate: 8 x 32 groups, whose samples are in memory with a number for each outcome."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment; a pass is K samples, and `rate_batches` are of 32 groups each."""

    objectives: str = "grpo,ips_grpo(probability=counts),ips_grpo(probability=ema),ips_grpo(probability=exact)"
    num_outcomes: str = "16,64,256,1024,4096"
    seeds: str = "0:4"
    group_size: int = 16
    passes: int = 16
    learning_rate: float = 1.6
    spread: float = 1.0
    rate_batches: int = 256
    displacement: float = 0.25

    def __post_init__(self):
        require_positive(self, "passes", "learning_rate", "spread", "displacement")
        if self.group_size < 3:
            raise ValueError(f"--group_size is {self.group_size}, but a pair and a group mean need 3 samples")
        sizes = read_numbers(self.num_outcomes, int)
        if list(sizes) != sorted(set(sizes)):
            raise ValueError(f"--num_outcomes={self.num_outcomes} must be different numbers in ascending order")
        for count in sizes:
            if count < 2 or count % self.group_size or count % 2:
                raise ValueError(
                    f"--num_outcomes={self.num_outcomes} must be even multiples of --group_size, {self.group_size}"
                )
        if len(read_seeds(self.seeds)) < 2:
            raise ValueError(f"--seeds={self.seeds} is one seed, but an interval needs at least 2")
        if self.rate_batches < 2:
            raise ValueError(f"--rate_batches is {self.rate_batches}, but an interval needs at least 2")


PRESETS = {
    "smoke": Settings(
        objectives="grpo,ips_grpo(probability=counts),ips_grpo(probability=exact)",
        num_outcomes="16,64",
        seeds="0:2",
        passes=2,
        rate_batches=16,
    ),
    "demo": Settings(),
    "paper": Settings(num_outcomes="16,32,64,128,256,512,1024,2048,4096", seeds="0:16", passes=64, rate_batches=2048),
}


# The two estimates of the probability, and whether the clock of one runs slower by K: exact scaling divides rewards by
# their running mean, which is K for K rewards of 1.
RATE_RULES = {"ips_dr_grpo(probability=counts)": False, "ips_dr_grpo(probability=exact)": True}


def run(settings: Settings, output: Output) -> None:
    sizes = read_numbers(settings.num_outcomes, int)
    made = {name: objectives.make(name) for name in specifications.split(settings.objectives)}
    for name, objective in made.items():
        try:
            check_objective(objective, *arena(sizes[0], settings.spread), settings.group_size)
        except ValueError as error:
            raise ValueError(f"{name} cannot be trained here: {error}") from None
    style.line_styles([*made, *RATE_RULES])  # Refuses more lines than the figure can tell apart.
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        kept = {name: [] for name in made}
        for name, objective in made.items():
            for count in sizes:
                with working(f"training {name}, K = {count}"):
                    kept[name].append(train(count, objective, settings))
                print(f"trained {name}, K = {count}", file=sys.stderr, flush=True)
        with working("measuring rates"):
            rates = {name: [measure_rate(count, name, settings) for count in sizes] for name in RATE_RULES}
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            write_curves(log, sizes, kept, settings)
        results = {name: summarise(sizes, curves) for name, curves in kept.items()}
        agree = all(rate.agrees for same in rates.values() for rate in same)
        print(tables(sizes, results, rates, settings))
        print(f"{'holds' if agree else 'DOES NOT HOLD'}: measured rates within 3 standard errors of the exact means")
        shown = drawn_numbers(sizes, kept, rates, settings)
        drawn = many_outcomes.draw(**shown, group_size=settings.group_size, passes=settings.passes)
        png = style.save(drawn, folder.path / "many_outcomes", many_outcomes.data(**shown))
        folder.write_summary(
            {
                "objectives": results,
                "rates": {
                    name: {str(count): dataclasses.asdict(rate) for count, rate in zip(sizes, same, strict=True)}
                    for name, same in rates.items()
                },
                "rates_agree": agree,
            }
        )
    print(f"figure: {png}")


def arena(num_outcomes: int, spread: float) -> tuple[Bandit, Tabular]:
    """K outcomes that pay 1 and one that pays 0, and the policy at the start."""
    right = spread * norm.ppf((np.arange(num_outcomes) + 0.5) / num_outcomes)
    wrong = logsumexp(right) + logit(WRONG_SHARE)
    environment = Bandit((1.0,) * num_outcomes + (0.0,))
    logits = (*right.tolist(), float(wrong))
    return environment, Tabular(environment.num_observations, environment.vocabulary_size, logits)


def train(num_outcomes: int, objective: objectives.Objective, settings: Settings) -> dict[str, np.ndarray]:
    """Trains one policy for each seed; what `measure` gives, `[S, passes + 1]`, at the start and after each pass."""
    environment, policy = arena(num_outcomes, settings.spread)
    updates_per_pass = num_outcomes // settings.group_size
    measures = train_ensemble(
        environment,
        policy,
        objective,
        make_optimizer("sgd", settings.learning_rate, max_gradient_norm=None),
        seeds=jnp.asarray(read_seeds(settings.seeds)),
        steps=settings.passes * updates_per_pass,
        prompts_per_step=1,
        group_size=settings.group_size,
        record=measure,
        record_every=updates_per_pass,
    )
    return jax.tree.map(lambda values: np.asarray(values, np.float64), measures)


def measure(parameters: Parameters) -> dict[str, jax.Array]:
    """`diversity`, effective outcomes that pay over their number, and `reward`, their probability."""
    right = jax.nn.softmax(parameters["logits"][0])[:-1]
    reward = right.sum()
    return {"diversity": diversity.effective_outcomes_of_law(right / reward) / len(right), "reward": reward}


@dataclasses.dataclass(frozen=True)
class Rate:
    """How fast one rule restores K equal outcomes, relative to the ideal rule.

    Attributes:
      measured: mean over batches of groups.
      standard_error: of that mean.
      exact: the exact mean of the same, at the same displacement.
      closed_form: its limit for small displacements.
    """

    measured: Interval
    standard_error: float
    exact: float
    closed_form: float

    @property
    def agrees(self) -> bool:
        return bool(abs(self.measured.mean - self.exact) <= 3 * self.standard_error)


def measure_rate(num_outcomes: int, name: str, settings: Settings) -> Rate:
    """The rate of one of `RATE_RULES` at K outcomes, from one sampled update of each batch of groups."""
    start = settings.displacement * np.repeat([1.0, -1.0], num_outcomes // 2)
    environment = Bandit((1.0,) * num_outcomes)
    policy = Tabular(environment.num_observations, environment.vocabulary_size, tuple(start.tolist()))

    def one_batch(seed: jax.Array) -> jax.Array:
        logits = train_ensemble(
            environment,
            policy,
            objectives.make(name),
            make_optimizer("sgd", 1.0, max_gradient_norm=None),
            seeds=seed[None],
            steps=1,
            prompts_per_step=GROUPS_PER_BATCH,
            group_size=settings.group_size,
            record=logits_of,
        )
        return logits[0, 1] - logits[0, 0]

    updates = jax.lax.map(one_batch, jnp.arange(settings.rate_batches), batch_size=BATCHES_AT_ONCE)
    clock = num_outcomes if RATE_RULES[name] else 1.0
    taken_back = clock * share_taken_back(np.asarray(updates, np.float64), start)
    ideal = time_scales.ideal_restoring_rate(num_outcomes, alpha=1.0)
    ones, group_size = np.ones(num_outcomes), settings.group_size
    if RATE_RULES[name]:
        exact = (1 - 1 / group_size) * share_taken_back(flows.flow_velocity(start, ones, alpha=1.0), start)
    else:
        weights = finite_groups.count_weights(group_size)
        exact = share_taken_back(finite_groups.mean_field(softmax(start), ones, weights, "group mean"), start)
    return Rate(
        measured=mean_over_seeds(taken_back / ideal),
        standard_error=float(taken_back.std(ddof=1) / np.sqrt(len(taken_back)) / ideal),
        exact=float(exact / ideal),
        closed_form=float(closed_form(np.array([num_outcomes]), name, group_size)[0]),
    )


def logits_of(parameters: Parameters) -> jax.Array:
    """`[K]`, the logits of a bandit policy with one prompt."""
    return parameters["logits"][0]


def share_taken_back(updates: np.ndarray, displacement: np.ndarray) -> np.ndarray:
    """What updates `[..., K]` take back of a displacement `[K]` from uniform logits, as a share of it."""
    return -(updates @ displacement) / (displacement @ displacement)


def closed_form(sizes: np.ndarray, name: str, group_size: int) -> np.ndarray:
    """The rates of one of `RATE_RULES` at each K, relative to the ideal rule, for small displacements."""
    if RATE_RULES[name]:
        return np.full(len(sizes), 1 - 1 / group_size)
    weights = finite_groups.without_one_sample(finite_groups.count_weights(group_size))
    return np.array([time_scales.restoring_rate(k, weights) / time_scales.ideal_restoring_rate(k, 1.0) for k in sizes])


def write_curves(
    log: MetricLog, sizes: tuple[int, ...], kept: dict[str, list[dict[str, np.ndarray]]], settings: Settings
) -> None:
    """One record for each K, objective, seed and pass."""
    for name, curves in kept.items():
        for count, measures in zip(sizes, curves, strict=True):
            for row, seed in enumerate(read_seeds(settings.seeds)):
                for column in range(settings.passes + 1):
                    point = {measured: values[row, column] for measured, values in measures.items()}
                    run_of = {"objective": name, "num_outcomes": count, "seed": seed, "passes": column}
                    log.write(column * count // settings.group_size, run_of | point)


def summarise(sizes: tuple[int, ...], curves: list[dict[str, np.ndarray]]) -> dict[str, dict]:
    """K -> measures at the end, means over seeds with their intervals."""
    return {
        str(count): {name: dataclasses.asdict(mean_over_seeds(values[:, -1])) for name, values in measures.items()}
        for count, measures in zip(sizes, curves, strict=True)
    }


def drawn_numbers(
    sizes: tuple[int, ...],
    kept: dict[str, list[dict[str, np.ndarray]]],
    rates: dict[str, list[Rate]],
    settings: Settings,
) -> dict[str, Any]:
    """What training kept, and the measured rates over their closed forms, by their names in the figure."""
    grid = np.unique(np.geomspace(sizes[0], sizes[-1], 60).astype(int))
    asymptote = np.array([time_scales.restoring_share(count, settings.group_size - 1) for count in grid])
    return {
        "num_outcomes": sizes,
        "start": [curves["diversity"][0, 0] for curves in next(iter(kept.values()))],
        "kept": {name: [measures["diversity"][:, -1] for measures in curves] for name, curves in kept.items()},
        "rates": {name: [rate.measured for rate in same] for name, same in rates.items()},
        "closed_forms": {name: (grid, closed_form(grid, name, settings.group_size)) for name in rates},
        "asymptote": (grid, asymptote, "(G - 1) (G - 2) / (2 K²)"),
    }


def tables(
    sizes: tuple[int, ...], results: dict[str, dict[str, dict]], rates: dict[str, list[Rate]], settings: Settings
) -> str:
    """What training keeps, and the rates, one line for each K."""
    seeds = len(read_seeds(settings.seeds))
    width = max(22, *(len(name) + 2 for name in results))
    lines = [f"effective outcomes / K after {settings.passes} samples of each outcome, mean over {seeds} seeds"]
    lines.append("K".ljust(6) + "".join(name.ljust(width) for name in results).rstrip())
    for count in sizes:
        cells = [str(Interval(**by_size[str(count)]["diversity"])) for by_size in results.values()]
        lines.append(f"{count:<6d}" + "".join(cell.ljust(width) for cell in cells).rstrip())
    groups = settings.rate_batches * GROUPS_PER_BATCH
    lines.append(f"\nrate at which diversity is restored, 1 = ideal; measured in {groups} groups at logits +- ")
    lines[-1] += f"{settings.displacement:g}, the closed form is for small ones"
    for name, same in rates.items():
        lines.append("K".ljust(6) + f"{name}, measured".ljust(46) + "exact mean".ljust(12) + "closed form")
        for count, rate in zip(sizes, same, strict=True):
            measured = f"{rate.measured.mean:.3g} [{rate.measured.low:.3g}, {rate.measured.high:.3g}]"
            lines.append(f"{count:<6d}{measured:46s}{rate.exact:<12.3g}{rate.closed_form:.3g}")
    return "\n".join(lines)


if __name__ == "__main__":
    launch("many_outcomes", PRESETS, run)
