"""Equally right answers under evolution strategies and policy gradients: on a table, and with shared parameters."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from experiments.evolution.random_rewards import RandomRewards
from experiments.evolution.smoothed_return import smoothed_velocity
from experiments.evolution.strategies import EvolutionTrainer
from experiments.words.shared_words import SharedTable, Words
from ipsrl import study
from ipsrl.dynamics.softmax import flows
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.measures import rewarded
from ipsrl.policies.tabular import Tabular
from ipsrl.records.equal_reward import at_reward
from ipsrl.study.curves import Curves, Points
from ipsrl.training.trainer import Trainer

TABLED, SHARED = "table", "shared"
REWARDS, START = (1.0, 1.0, 0.0), (0.3, 0.2, 0.5)
BARS, SHARED_BAR, TRIES = (0.65, 0.9, 0.99), 0.6, 4
"""Accuracies at which arms of different speed are compared, and the k of pass@k."""
GREEDY = 1e-3
"""A temperature at which the likeliest answer is nearly always given."""
LAST = 1000.0
"""Time of the exact flows; without noise accuracy is then above 0.999."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """An objective under policy gradients, or where there is noise, under an evolution strategy.

    Attributes:
      kind: its name, which arms of several noises share.
      objective: its specification.
      rate: the learning rate.
      noise: of an evolution strategy; 0 for a policy gradient.
      greedy: whether answers are the likeliest ones in training; measures are of temperature 1 in any case.
      random: whether its rewards are those of answers chosen at random.
    """

    kind: str
    objective: str
    rate: float
    noise: float = 0.0
    greedy: bool = False
    random: bool = False


def sampled(
    arms: Sequence[Arm], world: str, seeds: Sequence[int], group_size: int, steps: int
) -> Curves:
    """The curves of these arms in a world, of the same seeds and with as many answers in each step."""
    if world == TABLED:
        environment = Bandit(REWARDS)
        policy = Tabular.of(environment, np.log(START))
        of_world = {"measure": of_table}
    else:
        environment = Words(asked=8, length=3, right=16)
        policy = SharedTable.of(environment)
        of_world = {
            "record": functools.partial(environment.distribution, policy),
            "measure": functools.partial(of_words, rewards=environment.reward_table()),
            "prompts_per_step": environment.asked,
            "optimizer": "adam",
        }
    for arm in arms:
        strategy = functools.partial(EvolutionTrainer, noise=arm.noise) if arm.noise else Trainer
        yield study.trained(
            environment,
            policy,
            arm.objective,
            None,
            labels={"world": world, "kind": arm.kind, "noise": arm.noise},
            reward=RandomRewards() if arm.random else None,
            whole_runs=True,
            temperature=GREEDY if arm.greedy else 1.0,
            trainer_of=strategy,
            seeds=seeds,
            group_size=group_size,
            steps=steps,
            record_every=math.gcd(steps, 5),
            learning_rate=arm.rate,
            **of_world,
        )


def of_table(probs: np.ndarray) -> dict[str, np.ndarray]:
    """Measures distributions `[S, U, 3]`; each value is `[S, 1]`.

    accuracy: probability of the right outcomes at the end.
    rarer at the end, rarer at B: share of the rarer one among these at the end, and where accuracy first reaches B, NaN
    in runs that never do.
    """
    accuracy = probs[..., :2].sum(axis=-1)
    rarer = probs[..., :2].min(axis=-1) / accuracy
    found = {"accuracy": accuracy[:, -1:], "rarer at the end": rarer[:, -1:]}
    return found | {f"rarer at {bar}": at_each_run(accuracy, rarer, bar) for bar in BARS}


def of_words(probs: np.ndarray, rewards: np.ndarray) -> dict[str, np.ndarray]:
    """Measures distributions `[S, U, P, K]` under rewards `[P, K]`: means over prompts, each `[S, 1]`.

    accuracy, effective: probability of right words, and exp(H) of their shares, at the end.
    effective at B, pass@k at B: exp(H), and exact pass@k with k = `TRIES`, where accuracy first reaches `SHARED_BAR`.
    """
    of_prompts = (probs * rewards).sum(axis=-1)
    accuracy = of_prompts.mean(axis=-1)
    passed = (1 - (1 - of_prompts) ** TRIES).mean(axis=-1)
    found = rewarded.measures(jnp.asarray(probs), rewards)
    effective = np.asarray(found["effective_outcomes"], np.float64)
    return {
        "accuracy": accuracy[:, -1:],
        "effective": effective[:, -1:],
        f"effective at {SHARED_BAR}": at_each_run(accuracy, effective, SHARED_BAR),
        f"pass@{TRIES} at {SHARED_BAR}": at_each_run(accuracy, passed, SHARED_BAR),
    }


def at_each_run(accuracy: np.ndarray, values: np.ndarray, bar: float) -> np.ndarray:
    """`[S, 1]`, values `[S, U]` where accuracy first reaches the bar."""
    return np.array([at_reward(*run, bar) for run in zip(accuracy, values, strict=True)])[:, None]


def exact(noise: float) -> Points:
    """The flow of `smoothed_velocity` from START, as `of_table`."""
    rewards, times = np.array(REWARDS), np.append(0.0, np.geomspace(0.1, LAST, 400))
    velocity = functools.partial(smoothed_velocity, rewards=rewards, noise=noise)
    logits = flows.integrate(velocity, np.log(START), times)
    return Points([0], of_table(softmax(logits, axis=-1)[None]))
