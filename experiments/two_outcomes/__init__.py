"""Two outcomes, two objectives: expected return runs to one side, inverse probability scaling comes to rest.

Claim     With rewards r_1 > r_2, expected return drives u = ln(p_1/p_2) without bound, along u + sinh u =
          (r_1 - r_2) t + c; inverse probability scaling settles at p proportional to r, u = ln(r_1/r_2).
          Sampled training follows both.
Paper     Theorems 3.1 and 4.1, Corollary 4.2 of arXiv 2601.21669.
Arms      REINFORCE without a baseline, and the same with rewards divided by exact probabilities, each with 64 seeds in
          groups of 64: 2000 steps of plain gradient ascent of size 0.02, with rewards 2 and 1, from p_1 = 0.27. Beside
          them the closed forms of both flows at the same times.
Command   python -m experiments.two_outcomes
Time      demo and smoke under half a minute on two CPU cores, paper about one.
Expected  At the end ln(p_1/p_2) is 4.21 +- 0.01 by expected return, whose closed form has 4.208, and 0.69 +- 0.01
          by inverse probability scaling, which has 0.693; at every time both lie closer than 0.05 to it.
Doubt     The closed forms are limits of small steps: longer ones, and the noise of smaller groups, drift from them.
          Scaling by counts is not among the arms: while both outcomes are in every group its update has no noise. Up to
          the last time, 40, without bound is what the closed form says and not what is seen. The margin of 0.05 is
          ours.
Smoke     python -m experiments.two_outcomes --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives, study
from ipsrl.checking.fields import Range, any_of, between, in_range, positive
from ipsrl.distributed.runs import filled, runs_mesh
from ipsrl.dynamics.softmax import flows
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.figures.layers import Level, Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import RewardTable
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

# The flow that each objective follows as steps become small: alpha of `flows.flow_velocity`, and whether its clock runs
# slower by the sum of the rewards, because exact scaling divides by its running mean. Scaling by counts is not here: as
# long as both outcomes are in every group, its update is r - R p whatever the counts are: no noise to compare with.
FLOWS = {"reinforce": (0.0, False), "ips_reinforce(probability=exact)": (1.0, True)}

# Runs that a device computes at a time: the same number always, so that a run has the bits of a run alone. A core of a
# CPU computes 256 of the smoke preset, with one objective, in 0.7 s of its time with 8, and in 1.2 s all at once.
BLOCK = 8
VMAPPED = ("seeds", "rewards", "initial_log_ratio", "learning_rate")
TWO_POSITIVE = Range(
    "be two positive numbers", lambda rewards: len(rewards) == 2 and min(rewards) > 0, of_whole=True
)


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`learning_rate` is the step size h; time is steps times h."""

    objectives: tuple[str, ...] = any_of(FLOWS)
    rewards: tuple[float, ...] = in_range(TWO_POSITIVE, (2.0, 1.0))
    initial_log_ratio: float = between(-flows.LARGEST_LOG_RATIO, flows.LARGEST_LOG_RATIO, -1.0)
    seeds: tuple[int, ...] = study.seeds(range(64))
    group_size: int = positive(64)
    learning_rate: float = positive(0.02)
    steps: int = positive(2000)


PRESETS = {
    "smoke": Settings(steps=400, record_every=20),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(128)), steps=20000, record_every=400, learning_rate=0.002),
}


def curves(settings: Settings) -> study.Curves:
    return vmapped([settings], [None])[0]


def vmapped(
    settings: Sequence[Settings], outputs: Sequence[study.Output | None]
) -> list[list[study.Curve]]:
    """The curves of each of several settings that differ only in `VMAPPED`; one program for each objective."""
    train = functools.cache(functools.partial(log_ratios, settings))

    def points(run: int, name: str) -> study.Points:
        each = settings[run]
        steps = np.arange(0, each.steps + 1, each.record_every)
        times = steps * each.learning_rate
        sampled = train(name)[run]
        theory = closed_form(name, each.rewards, each.initial_log_ratio, tuple(times))
        values = {
            "time": times,
            "log_ratio": sampled,
            "closed_form": theory,
            "deviation": sampled - theory,
        }
        return study.Points(steps, values, each.seeds)

    return [
        [
            study.Curve({"objective": name}, functools.partial(points, run, name))
            for name in each.objectives
        ]
        for run, each in enumerate(settings)
    ]


def log_ratios(settings: Sequence[Settings], name: str) -> list[np.ndarray]:
    """ln(p_1 / p_2) of the policies of each settings object, `[seed, time]`, trained as one program."""
    shared = settings[0]
    environment = Bandit()
    training = TrainSettings(
        shared.steps, 1, shared.group_size, optimizer="sgd", max_gradient_norm=None
    )
    each_run = [
        (seed, each.learning_rate, each.initial_log_ratio / 2, each.rewards)
        for each in settings
        for seed in each.seeds
    ]
    runs = len(each_run)
    with jax.set_mesh(runs_mesh()):
        places = filled(runs, BLOCK)
        seeds, rates, halves, rewards = (
            np.array(column)[places] for column in zip(*each_run, strict=True)
        )
        logits = np.stack([halves, -halves], axis=-1)[:, None]
        found = train_ensemble(
            Trainer(environment, Tabular.of(environment), objectives.make(name), training),
            jnp.asarray(seeds),
            lambda parameters: parameters["logits"][0, 0] - parameters["logits"][0, 1],
            shared.record_every,
            learning_rates=jnp.asarray(rates, jnp.float32),
            initial_parameters={"logits": jnp.asarray(logits, jnp.float32)},
            reward=RewardTable(jnp.asarray(rewards[:, None], jnp.float32)),
            block=BLOCK,
        )
    ends = np.cumsum([len(each.seeds) for each in settings])[:-1]
    return np.split(np.asarray(found, np.float64)[:runs], ends)


@functools.cache
def closed_form(
    name: str, rewards: tuple[float, ...], initial: float, times: tuple[float, ...]
) -> np.ndarray:
    """ln(p_1 / p_2) of the flow at the given times, shared by all seeds."""
    alpha, slower = FLOWS[name]
    scale = sum(rewards) if slower else 1.0
    velocity = functools.partial(
        flows.flow_velocity, rewards=np.array(rewards) / scale, alpha=alpha
    )
    logits = flows.integrate(velocity, np.array([initial / 2, -initial / 2]), np.array(times))
    return logits[:, 0] - logits[:, 1]


CLAIMS = {
    "the closed forms lie within 0.05 of the means at every time": study.at_each(
        "objective", study.at_each("step", study.near(study.final("deviation"), 0, 0.05))
    )
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "Expected return drives ln(p_1/p_2) along u + sinh u; inverse probability scaling rests "
        "where p is proportional to reward."
    ),
    scope="two outcomes in a table of logits, groups of 64",
    decided_by=tuple(CLAIMS),
)
TABLE = study.Table({"log_ratio": "final log-ratio", "closed_form": "closed form"})
PROPORTIONAL = Level(
    lambda settings: np.log(settings.rewards[0] / settings.rewards[1]), "reward-proportional"
)
LAYERS = [Line("closed_form", "time", markers=False), Markers("log_ratio", "time"), PROPORTIONAL]
TIME = "time t = updates × step size"
COURSE = Panel(
    LAYERS,
    title="rewards {rewards}; lines: closed form, markers: means of seeds",
    xlabel=TIME,
    ylabel="log-ratio ln(p₁/p₂)",
)
DEVIATION = [Line("deviation", "time", named=False), Level(0.0)]
FIGURE = Panels(
    [COURSE, Panel(DEVIATION, xlabel=TIME, ylabel="mean less closed form, with 95 % bands")]
)
