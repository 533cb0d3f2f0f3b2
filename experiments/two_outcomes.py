"""Two outcomes, two objectives: expected return runs to one side, inverse probability scaling comes to rest.

Claim     With rewards r_1 > r_2, expected return drives u = ln(p_1/p_2) without bound, along u + sinh u =
          (r_1 - r_2) t + c; inverse probability scaling settles at p proportional to r, u = ln(r_1/r_2).
          Sampled training follows both.
Paper     Theorems 3.1 and 4.1, Corollary 4.2 of arXiv 2601.21669.
Command   python -m experiments.two_outcomes
Time      demo and smoke under half a minute on two CPU cores, paper about one.
Expected  the closed form within 3 standard errors of the mean over seeds, at every recorded time.
Smoke     python -m experiments.two_outcomes --preset=smoke
Figure    OUT/two_outcomes.png, .pdf and .csv, drawn by the same command from two seeds on; --resume computes it again.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from experiments.together import take_folders
from ipsrl import objectives, specifications
from ipsrl.distributed.runs import filled, runs_mesh
from ipsrl.dynamics import flows
from ipsrl.environments.bandit import Bandit
from ipsrl.figures import style, two_outcomes
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.together import require_alike


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment; `learning_rate` is the step size h, so that time is steps times h."""

    objectives: str = "reinforce,ips_reinforce(probability=exact)"
    rewards: str = "2.0,1.0"
    initial_log_ratio: float = -1.0
    seeds: str = "0:64"
    group_size: int = 64
    learning_rate: float = 0.02
    steps: int = 2000
    record_every: int = 100

    def __post_init__(self):
        require_positive(self, "group_size", "learning_rate", "steps", "record_every")
        if self.steps % self.record_every:
            raise ValueError(f"--steps is {self.steps}, it must be a multiple of --record_every, {self.record_every}")
        read_seeds(self.seeds)
        if min(read_numbers(self.rewards, count=2)) <= 0:
            raise ValueError(f"--rewards={self.rewards} must be positive: reward-proportional laws need it")


PRESETS = {
    "smoke": Settings(steps=400, record_every=20),
    "demo": Settings(),
    "paper": Settings(seeds="0:128", steps=20000, record_every=400, learning_rate=0.002),
}

# The flow that each objective follows as steps become small: alpha of `flows.flow_velocity`, and whether its clock runs
# slower by the sum of the rewards, because exact scaling divides by its running mean. Scaling by counts is not here: as
# long as both outcomes are in every group, its update is r - R p whatever the counts are: no noise to compare with.
FLOWS = {"reinforce": (0.0, False), "ips_reinforce(probability=exact)": (1.0, True)}

BLOCK = 8
"""Runs that a device computes at a time: the same number always, so that a run has the bits of a run alone. A core of a
CPU computes 256 of the smoke preset, with one objective, in 0.7 s of its time with 8, and in 1.2 s all at once."""

TOGETHER = ("seeds", "rewards", "initial_log_ratio", "learning_rate")
"""Settings in which the runs of one program may differ."""


def run(settings: Settings, output: Output) -> None:
    check_objectives(settings)
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        with working(f"training {settings.objectives}"):
            (log_ratios,) = trained([settings])
        comparisons = compare(settings, log_ratios)
        png = write(settings, comparisons, folder)
    for comparison in comparisons:
        print(described(comparison))
    print(f"figure: {png or 'none, one seed has no standard error'}")


def run_together(settings: Sequence[Settings], outputs: Sequence[Output]) -> list[Exception | None]:
    """Does what `run` does for each of many settings, which differ in `TOGETHER` alone; prints nothing.

    All are trained in one program over all devices.

    Returns:
      for each, why its folder cannot be used, or what there is no closed form for; None where all is written.
    """
    require_alike(settings, TOGETHER)
    check_objectives(settings[0])
    with take_folders([dataclasses.asdict(each) for each in settings], outputs) as (folders, failures):
        with working(f"training {len(folders)} runs together"):
            log_ratios = trained([settings[run] for run in folders]) if folders else []
        for (run, folder), of_run in zip(folders.items(), log_ratios, strict=True):
            try:
                write(settings[run], compare(settings[run], of_run), folder)
            except ValueError as error:
                failures[run] = error
    return failures


def check_objectives(settings: Settings) -> None:
    """Raises ValueError where one of the objectives has no flow here."""
    for name in specifications.split(settings.objectives):
        if name not in FLOWS:
            raise ValueError(f"{name} has no noisy training with a closed form here; take one of {', '.join(FLOWS)}")


def write(settings: Settings, comparisons: Sequence[two_outcomes.Comparison], folder: RunFolder) -> Path | None:
    """Writes what a run leaves, and returns the path of its figure; one seed has none, as it has no band to draw."""
    with MetricLog(folder.metrics_path) as log:
        log.truncate_after(-1)
        for comparison in comparisons:
            for point in range(len(comparison.times)):
                log.write(
                    point * settings.record_every,
                    {
                        "objective": comparison.name,
                        "time": comparison.times[point],
                        "closed_form": comparison.closed_form[point],
                        "sampled_mean": comparison.sampled_mean[point],
                        "standard_error": comparison.standard_error[point],
                    },
                )
    summary = {"final_log_ratio": {comparison.name: comparison.sampled_mean[-1] for comparison in comparisons}}
    png = None
    if len(read_seeds(settings.seeds)) > 1:
        rewards = read_numbers(settings.rewards, count=2)
        png = style.save(
            two_outcomes.draw(comparisons, rewards), folder.path / "two_outcomes", two_outcomes.data(comparisons)
        )
        outside = {comparison.name: share_outside_band(comparison) for comparison in comparisons}
        summary |= {"share_outside_3_standard_errors": outside, "agrees": max(outside.values()) == 0}
    folder.write_summary(summary)
    return png


def described(comparison: two_outcomes.Comparison) -> str:
    """The end of one objective's training, in a line."""
    mean, error, theory = (
        values[-1] for values in (comparison.sampled_mean, comparison.standard_error, comparison.closed_form)
    )
    beginning = f"{comparison.name:34s} final log-ratio {mean:.4f}"
    if np.isnan(error):
        return f"{beginning} of one seed, closed form {theory:.4f}"
    outside = f"{share_outside_band(comparison):.1%} of the points outside 3 standard errors"
    return f"{beginning} +- {error:.4f}, closed form {theory:.4f}, {outside}"


def trained(settings: Sequence[Settings]) -> list[dict[str, np.ndarray]]:
    """For each of the settings and its objectives ln(p_1 / p_2) of policies, `[seed, time]`; one program an objective.

    Args:
      settings: differ in `TOGETHER` alone.
    """
    shared = settings[0]
    environment = Bandit()
    seeds = [read_seeds(each.seeds) for each in settings]
    counts = [len(some) for some in seeds]
    rates = np.repeat([each.learning_rate for each in settings], counts)
    halves = np.repeat([each.initial_log_ratio / 2 for each in settings], counts)
    rewards = np.repeat([read_numbers(each.rewards, count=2) for each in settings], counts, axis=0)
    by_objective = {}
    with jax.set_mesh(runs_mesh()):
        runs = filled(sum(counts), BLOCK)
        for name in specifications.split(shared.objectives):
            log_ratios = train_ensemble(
                environment,
                Tabular(environment.num_observations, environment.vocabulary_size),
                objectives.make(name),
                make_optimizer("sgd", 1.0, max_gradient_norm=None),
                seeds=jnp.asarray(np.concatenate(seeds)[runs]),
                steps=shared.steps,
                prompts_per_step=1,
                group_size=shared.group_size,
                record=log_ratio,
                record_every=shared.record_every,
                learning_rates=jnp.asarray(rates[runs], jnp.float32),
                initial_parameters={
                    "logits": jnp.asarray(np.stack([halves, -halves], axis=-1)[runs, None], jnp.float32)
                },
                rewards=jnp.asarray(rewards[runs, None], jnp.float32),
                block=BLOCK,
            )
            whole = np.asarray(log_ratios, np.float64)[: sum(counts)]
            by_objective[name] = np.split(whole, np.cumsum(counts)[:-1])
    return [{name: by_objective[name][run] for name in by_objective} for run in range(len(settings))]


def compare(settings: Settings, log_ratios: Mapping[str, np.ndarray]) -> list[two_outcomes.Comparison]:
    """Each objective beside the flow that it should follow.

    Raises:
      ValueError: the flow cannot be integrated so far.
    """
    times = np.arange(0, settings.steps + 1, settings.record_every) * settings.learning_rate
    rewards = read_numbers(settings.rewards, count=2)

    def comparison(name: str, sampled: np.ndarray) -> two_outcomes.Comparison:
        deviation = sampled.std(axis=0, ddof=1) if len(sampled) > 1 else np.full(len(times), np.nan)
        return two_outcomes.Comparison(
            name=name,
            times=times,
            closed_form=closed_form(name, rewards, settings.initial_log_ratio, tuple(times)),
            sampled_mean=sampled.mean(axis=0),
            standard_error=deviation / np.sqrt(len(sampled)),
        )

    return [comparison(*one) for one in log_ratios.items()]


@functools.cache
def closed_form(
    name: str, rewards: tuple[float, ...], initial_log_ratio: float, times: tuple[float, ...]
) -> np.ndarray:
    """ln(p_1 / p_2) of the flow at some times; runs that differ in their seeds share it."""
    alpha, slower = FLOWS[name]
    scale = sum(rewards) if slower else 1.0
    velocity = functools.partial(flows.flow_velocity, rewards=np.array(rewards) / scale, alpha=alpha)
    logits = flows.integrate(velocity, np.array([initial_log_ratio / 2, -initial_log_ratio / 2]), np.array(times))
    return logits[:, 0] - logits[:, 1]


def log_ratio(parameters: dict[str, jax.Array]) -> jax.Array:
    """ln(p_1 / p_2) of a bandit policy with two arms."""
    first, second = parameters["logits"][0]
    return first - second


def share_outside_band(comparison: two_outcomes.Comparison) -> float:
    """Share of the recorded times after the start at which theory lies outside 3 standard errors of the mean."""
    deviation = np.abs(comparison.sampled_mean - comparison.closed_form)[1:]
    return float(np.mean(~(deviation <= 3 * comparison.standard_error[1:])))


if __name__ == "__main__":
    launch("two_outcomes", PRESETS, run)
