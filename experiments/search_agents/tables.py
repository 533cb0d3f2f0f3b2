"""A small search agent, priors in its tables of logits, and their training: all seeds of an arm are one program."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl import study
from ipsrl.checking.fields import at_least, positive
from ipsrl.environments.agents.knowledge_graph import FIRST_ENTITY, STOP
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rewards import Reward
from ipsrl.rollouts.randomness import stream
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

small_agent = functools.partial(
    SearchAgent, entities=8, relations=3, synonyms=1, lookups=3, sees="state"
)
STAYS = 0.9
"""Probability with which a prior names the last result, and not the question's entity."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """A batch has a group for each of eight prompts; there is a record after each interval."""

    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
    learning_rates: tuple[float, ...] = positive((16.0, 64.0, 256.0))
    group_size: int = at_least(2, 16)
    intervals: int = positive(6)
    steps_between: int = positive(20)

    @property
    def steps(self) -> int:
        return self.intervals * self.steps_between

    @property
    def records(self) -> range:
        """The steps at which there is a record."""
        return range(0, self.steps + 1, self.steps_between)


SMOKE = {
    "seeds": (0, 1),
    "learning_rates": (64.0,),
    "group_size": 4,
    "intervals": 1,
    "steps_between": 2,
}
PAPER = {"seeds": tuple(range(20)), "steps_between": 200}


def prior_probs(task: SearchAgent, asked: tuple[int, ...], stops: float) -> np.ndarray:
    """`[*asked, N, N + 1, V]`, what a prior does where nothing else is said of it.

    It stops with probability `stops`, asks for all relations alike, and names the last result with `STAYS`. The axes
    are what it knows of the question, the last result, the entity just named or none, and the token.
    """
    probs = np.ones((*asked, task.entities, task.entities + 1, task.vocabulary_size))
    names = np.where(np.eye(task.entities), STAYS, 1 - STAYS)
    probs[..., -1, FIRST_ENTITY : task.first_word] = names
    probs[..., :-1, STOP] = stops
    probs[..., :-1, task.first_word :] = (1 - stops) / (2 * task.relations)
    return probs


def noise(seeds: Sequence[int], shape: tuple[int, ...]) -> Array:
    """`[seed, *shape]`, normal numbers of each seed, for its own prior."""

    def of_seed(seed):
        return jax.random.normal(stream(seed, 0, "prior"), shape)

    return jax.vmap(of_seed)(jnp.asarray(seeds))


def trained(
    task: SearchAgent,
    policy: Policy,
    objective: Objective,
    initial: Parameters,
    rate: float,
    settings: Settings,
    reward: Reward | None = None,
) -> Parameters:
    """Policies of runs that are rewarded, by SGD from an initial policy of each seed: leaves `[seed, record, ...]`."""
    training = TrainSettings(
        settings.steps,
        task.problems,
        settings.group_size,
        optimizer="sgd",
        max_gradient_norm=None,
    )
    return train_ensemble(
        Trainer(task, policy, objective, training),
        jnp.asarray(settings.seeds),
        itself,
        settings.steps_between,
        jnp.full(len(settings.seeds), rate, jnp.float32),
        initial,
        reward,
    )
