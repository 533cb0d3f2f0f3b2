"""Two equally good outcomes, one of which is reached by 35 paths and the other by 7: do paths decide what is kept?

Claim     GRPO ends on the outcome with more paths: true for plain gradient ascent, while under Adam noise decides in
          some seeds. Inverse probability scaling keeps both at equal shares, by counts and by exact probabilities.
          Exact ones must be those of the outcome: r / P(path), without a backward policy, aims at 35 : 7.
Paper     Section 6 of arXiv 2601.21669; the correction is that of arXiv 2106.04399. Our reading of the graph: lattice
          paths of 7 steps, of which 35 end in (3, 4) and 7 in (1, 6); all other ends pay nothing.
Command   python -m experiments.path_multiplicity
Time      demo one minute on two busy CPU cores, smoke half of it; paper, not run, an estimated twenty minutes.
Expected  share of the 35-path outcome among the two, 95 % interval over 64 seeds: grpo 0.980 [0.979, 0.981], above 0.9
          in every seed; ips_grpo 0.498 [0.491, 0.504], with exact probabilities 0.500 +- 0.001, without the backward
          policy 0.833 +- 0.001 = 35/42, where it started; trajectory_balance 0.499 +- 0.001. With --optimizer=adam
          --learning_rate=0.05 grpo is at 0.84 [0.76, 0.92]: 50 seeds on the 35-path outcome, 9 on both, 5 on the other;
          the rest as before, within 0.01.
Smoke     python -m experiments.path_multiplicity --preset=smoke
Figure    OUT/path_multiplicity.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.

All policies start with uniform actions, so that the shares start at 35 : 7, and are tables of logits. All numbers come
from the exact law of the ends.
"""

import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np

from experiments.launch import Output, launch, read_seeds, require_positive
from ipsrl import objectives, specifications
from ipsrl.environments.tree import Tree
from ipsrl.figures import path_multiplicity, style
from ipsrl.measures import diversity
from ipsrl.measures.seeds import mean_over_seeds
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.structures import Trajectories, Verdict
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.step import check_objective

ENDS_ON = 0.9
"""A seed ends on an outcome that has at least this share of the probability of both."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment; `uncorrected` is an objective that is also trained without a backward policy, or empty.

    `depth` is the length of the paths, `more_paths` and `fewer_paths` say how far right the rewarded ends lie.
    """

    objectives: str = "grpo,ips_grpo,ips_grpo(probability=exact),trajectory_balance"
    uncorrected: str = "ips_grpo(probability=exact)"
    depth: int = 7
    more_paths: int = 3
    fewer_paths: int = 1
    seeds: str = "0:64"
    group_size: int = 16
    optimizer: str = "sgd"
    learning_rate: float = 0.5
    steps: int = 4000
    record_every: int = 100

    def __post_init__(self):
        require_positive(self, "depth", "group_size", "learning_rate", "steps", "record_every")
        if len(read_seeds(self.seeds)) < 2:
            raise ValueError(f"--seeds={self.seeds} is one seed, but an interval needs at least 2")
        if self.steps % self.record_every:
            raise ValueError(f"--steps is {self.steps}, it must be a multiple of --record_every, {self.record_every}")
        for name in ("more_paths", "fewer_paths"):
            if not 0 <= getattr(self, name) <= self.depth:
                raise ValueError(f"--{name} is {getattr(self, name)}, it must be in 0 .. depth = 0 .. {self.depth}")
        paths = Tree(self.depth, 1, (0.0,) * (self.depth + 1)).path_counts()
        if paths[self.more_paths] <= paths[self.fewer_paths]:
            raise ValueError(
                f"{paths[self.more_paths]} paths lead to --more_paths={self.more_paths} and {paths[self.fewer_paths]} "
                f"to --fewer_paths={self.fewer_paths}: the first must have more"
            )


PRESETS = {
    "smoke": Settings(seeds="0:4", steps=200, record_every=20),
    "demo": Settings(),
    "paper": Settings(seeds="0:256", steps=40_000, record_every=400),
}


class UncorrectedTree(Tree):
    """A tree that leaves the backward policy out, log q = 0, so that `probability=exact` is that of a path.

    Each path into x then has the weight r(x) / P(path), and the m(x) paths together aim at m(x) r(x).
    """

    def verify(self, trajectories: Trajectories) -> Verdict:
        verdict = super().verify(trajectories)
        return dataclasses.replace(verdict, log_backward=jnp.zeros_like(verdict.log_backward))


def run(settings: Settings, output: Output) -> None:
    rewarded = (settings.more_paths, settings.fewer_paths)
    rewards = tuple(float(outcome in rewarded) for outcome in range(settings.depth + 1))
    tree, uncorrected = (kind(settings.depth, 1, rewards) for kind in (Tree, UncorrectedTree))
    chosen = {name: (tree, name) for name in specifications.split(settings.objectives)}
    if settings.uncorrected:
        chosen[f"{settings.uncorrected} without backward policy"] = (uncorrected, settings.uncorrected)
    made = {label: (environment, objectives.make(name)) for label, (environment, name) in chosen.items()}
    for label, (environment, objective) in made.items():
        try:
            check_objective(objective, environment, policy_of(environment), settings.group_size)
        except ValueError as error:
            raise ValueError(f"{label} cannot be trained here: {error}") from None
    style.line_styles(made)  # Refuses more lines than the figure can tell apart.
    if settings.uncorrected and "log_backward" not in objectives.make(settings.uncorrected).needs:
        raise ValueError(f"--uncorrected={settings.uncorrected} reads no given backward policy that could be left out")
    updates = np.arange(0, settings.steps + 1, settings.record_every)
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        measures = {}
        for label, (environment, objective) in made.items():
            with working(f"training {label}"):
                measures[label] = measure(train(environment, objective, settings), *rewarded)
            print(f"trained {label}", file=sys.stderr, flush=True)
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            for label, curves in measures.items():
                for row, seed in enumerate(read_seeds(settings.seeds)):
                    for column, update in enumerate(updates):
                        point = {name: values[row, column] for name, values in curves.items()}
                        log.write(update, {"objective": label, "seed": seed} | point)
        results = {label: summarise(curves) for label, curves in measures.items()}
        names, paths = tree.outcome_names(), tree.path_counts()
        print(table(results, *(f"{names[outcome]} by {paths[outcome]} paths" for outcome in rewarded)))
        shares = {label: curves["share"] for label, curves in measures.items()}
        png = style.save(
            path_multiplicity.draw(updates, shares, paths, *rewarded),
            folder.path / "path_multiplicity",
            path_multiplicity.data(updates, shares),
        )
        folder.write_summary({"paths": paths.tolist(), "objectives": results})
    print(f"figure: {png}")


def policy_of(environment: Tree) -> Tabular:
    """A table of logits, all zero at the start."""
    return Tabular(environment.num_observations, environment.vocabulary_size)


def train(environment: Tree, objective: objectives.Objective, settings: Settings) -> np.ndarray:
    """`[S, U, K]`, the exact law of the ends for each seed, before training and at every record."""
    policy = policy_of(environment)
    laws = train_ensemble(
        environment,
        policy,
        objective,
        make_optimizer(settings.optimizer, settings.learning_rate, max_gradient_norm=None),
        seeds=jnp.asarray(read_seeds(settings.seeds)),
        steps=settings.steps,
        prompts_per_step=1,
        group_size=settings.group_size,
        record=functools.partial(exact_law, environment, policy),
        record_every=settings.record_every,
    )
    return np.asarray(laws, np.float64)


def exact_law(environment: Tree, policy: Tabular, parameters: Parameters) -> jax.Array:
    """`[K]`, the probability of every end."""
    return environment.terminal_distribution(log_probs_table(policy, parameters, environment))


def measure(law: np.ndarray, more_paths: int, fewer_paths: int) -> dict[str, np.ndarray]:
    """Of laws `[S, U, K]`, each `[S, U]`.

    `share`: what the outcome with more paths has of the probability of both; `effective_outcomes`: exp(H) of those two
    shares, 1 to 2; `reward`: the probability of both.
    """
    both = law[..., [more_paths, fewer_paths]]
    reward = both.sum(axis=-1)
    shares = both / reward[..., None]
    return {
        "share": shares[..., 0],
        "effective_outcomes": np.asarray(diversity.effective_outcomes_of_law(shares)),
        "reward": reward,
    }


def summarise(curves: dict[str, np.ndarray]) -> dict:
    """The state at the end: means over seeds with their intervals, and in how many seeds the outcomes are kept."""
    final = {name: values[:, -1] for name, values in curves.items()}
    ends_on_more, ends_on_fewer = final["share"] >= ENDS_ON, final["share"] <= 1 - ENDS_ON
    return {
        **{name: dataclasses.asdict(mean_over_seeds(values)) for name, values in final.items()},
        "seeds_on_more_paths": int(ends_on_more.sum()),
        "seeds_on_fewer_paths": int(ends_on_fewer.sum()),
        "seeds_on_both": int((~ends_on_more & ~ends_on_fewer).sum()),
    }


def table(results: dict[str, dict], more: str, fewer: str) -> str:
    """What is left at the end, one line for each objective."""
    seeds = next(iter(results.values()))["share"]["seeds"]
    width = max(map(len, results)) + 2
    on = f"seeds on it / on both / on the other (at {ENDS_ON:.0%})"
    lines = [
        f"share of {more} against {fewer}, equal rewards, mean over {seeds} seeds [95 % interval]",
        "objective".ljust(width) + "share".ljust(22) + on.ljust(len(on) + 2) + "effective outcomes  reward",
    ]
    for name, row in results.items():
        share = f"{row['share']['mean']:.3f} [{row['share']['low']:.3f}, {row['share']['high']:.3f}]"
        ends = f"{row['seeds_on_more_paths']} / {row['seeds_on_both']} / {row['seeds_on_fewer_paths']}"
        lines.append(
            name.ljust(width)
            + share.ljust(22)
            + ends.ljust(len(on) + 2)
            + f"{row['effective_outcomes']['mean']:.2f} of 2".ljust(20)
            + f"{row['reward']['mean']:.3f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    launch("path_multiplicity", PRESETS, run)
