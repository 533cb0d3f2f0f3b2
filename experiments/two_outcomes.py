"""Two outcomes, two objectives: expected return runs to one side, inverse probability scaling comes to rest.

Claim     With rewards r_1 > r_2, expected return drives u = ln(p_1/p_2) without bound, along u + sinh u =
          (r_1 - r_2) t + c; inverse probability scaling settles at p proportional to r, u = ln(r_1/r_2).
          Sampled training follows both.
Paper     Theorems 3.1 and 4.1, Corollary 4.2 of arXiv 2601.21669.
Command   python -m experiments.two_outcomes
Time      demo and smoke under half a minute on two CPU cores, paper about one.
Expected  the closed form within 3 standard errors of the mean over seeds, at every recorded time.
Smoke     python -m experiments.two_outcomes --preset=smoke
Figure    OUT/two_outcomes.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from ipsrl import objectives, specifications
from ipsrl.dynamics import flows
from ipsrl.environments.bandit import Bandit
from ipsrl.figures import style, two_outcomes
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.run_folder import RunFolder


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
        if len(read_seeds(self.seeds)) < 2:
            raise ValueError(f"--seeds={self.seeds} names one run, but a standard error needs two")
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


def run(settings: Settings, output: Output) -> None:
    rewards = read_numbers(settings.rewards, count=2)
    chosen = specifications.split(settings.objectives)
    for name in chosen:
        if name not in FLOWS:
            raise ValueError(f"{name} has no noisy training with a closed form here; take one of {', '.join(FLOWS)}")
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        comparisons = [compare(name, rewards, settings) for name in chosen]
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
        png = style.save(
            two_outcomes.draw(comparisons, rewards), folder.path / "two_outcomes", two_outcomes.data(comparisons)
        )
        outside = {comparison.name: share_outside_band(comparison) for comparison in comparisons}
        folder.write_summary({"share_outside_3_standard_errors": outside, "agrees": max(outside.values()) == 0})
    for comparison in comparisons:
        print(
            f"{comparison.name:34s} final log-ratio {comparison.sampled_mean[-1]:.4f} "
            f"+- {comparison.standard_error[-1]:.4f}, closed form {comparison.closed_form[-1]:.4f}, "
            f"{outside[comparison.name]:.1%} of the points outside 3 standard errors"
        )
    print(f"figure: {png}")


def compare(name: str, rewards: tuple[float, ...], settings: Settings) -> two_outcomes.Comparison:
    """Trains one policy for each seed with an objective, and integrates the flow it should follow."""
    environment = Bandit(rewards)
    start = (settings.initial_log_ratio / 2, -settings.initial_log_ratio / 2)
    log_ratios = train_ensemble(
        environment,
        Tabular(environment.num_observations, environment.vocabulary_size, initial_logits=start),
        objectives.make(name),
        make_optimizer("sgd", settings.learning_rate, max_gradient_norm=None),
        seeds=jnp.asarray(read_seeds(settings.seeds)),
        steps=settings.steps,
        prompts_per_step=1,
        group_size=settings.group_size,
        record=log_ratio,
        record_every=settings.record_every,
    )
    sampled = np.asarray(log_ratios, np.float64)
    times = np.arange(sampled.shape[1]) * settings.record_every * settings.learning_rate
    alpha, slower = FLOWS[name]
    scale = sum(rewards) if slower else 1.0
    velocity = functools.partial(flows.flow_velocity, rewards=np.array(rewards) / scale, alpha=alpha)
    logits = flows.integrate(velocity, np.array(start), times)
    return two_outcomes.Comparison(
        name=name,
        times=times,
        closed_form=logits[:, 0] - logits[:, 1],
        sampled_mean=sampled.mean(axis=0),
        standard_error=sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled)),
    )


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
