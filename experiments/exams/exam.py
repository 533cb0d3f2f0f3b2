"""Exams: prompts of known difficulty, with batch filters that know it or choose by chance, as controls."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl import study
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.ties import all_equal
from ipsrl.policies.mlp import MLP
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.prompts import shuffled_prompts
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling, fill
from ipsrl.rollouts.sources.source import Actors, Groups, Request, Sampled, State, Wrapper, wrapped
from ipsrl.structures import Metrics, Prompts
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

UNITS = ("trajectories", "tokens")
"""Units in which a budget is counted."""


@dataclasses.dataclass(frozen=True)
class Exam(Bandit):
    """Questions in families. Every family has one right answer, and all have the same K answers, the arms of a bandit.

    A prompt is one token, its family: that is what a difficulty filter reads.

    Attributes:
      transfer: how much of what is learned on a question its family learns, see `policy`.
    """

    transfer: float = 1.0
    prompt_length = 1

    @classmethod
    def of(cls, prompts: int, families: int, transfer: float = 1.0) -> Self:
        """An exam with one arm for each family; prompt i belongs to family i modulo their number."""
        right = np.eye(families)[np.arange(prompts) % families]
        return cls.of_table(right, transfer=transfer)

    @property
    def policy(self) -> MLP:
        """Logits are a row of the family, times `transfer`, and a row of the question."""
        inputs = self.num_outcomes + self.num_prompts
        return MLP(self.features, inputs, self.num_outcomes, hidden=())

    def prompts(self, index: Array) -> Prompts:
        family = (index % self.num_outcomes)[:, None]
        return Prompts(index=index, tokens=family, mask=jnp.ones_like(family, bool))

    def features(self, index: Array) -> Array:
        """`[..., K + num_prompts]`: which family, and which question."""
        family = self.transfer * jax.nn.one_hot(index % self.num_outcomes, self.num_outcomes)
        return jnp.concatenate([family, jax.nn.one_hot(index, self.num_prompts)], axis=-1)

    def prior(self, spread: float) -> Parameters:
        """Parameters of success sigmoid(x), with x normal around the family's, which run from -spread to spread."""
        index, arms = np.arange(self.num_prompts), self.num_outcomes
        family = index % arms
        noise = np.random.default_rng(0).normal(size=len(index))
        x = np.linspace(-spread, spread, arms)[family] + noise
        kernel = np.zeros((arms + len(index), arms), np.float32)
        kernel[arms + index, family] = x + np.log(arms - 1)
        return {"layer_0": {"kernel": jnp.asarray(kernel), "bias": jnp.zeros(arms)}}

    def success(self, parameters: Parameters) -> Array:
        """`[num_prompts]`, the exact probability of the right answer."""
        index = jnp.arange(self.num_prompts)
        logits, _ = self.policy.step(parameters, (), index[None], jnp.asarray(0))
        return jax.nn.softmax(logits[0])[index, index % self.num_outcomes]

    def measures(self, group_size: int, parameters: Parameters) -> dict[str, Array]:
        """Exact means over prompts: `accuracy`, and the share of groups that are `silent`, all right or all wrong."""
        p = self.success(parameters)
        return {"accuracy": p.mean(), "silent": (p**group_size + (1 - p) ** group_size).mean()}


@dataclasses.dataclass(frozen=True)
class Discard(DynamicSampling):
    """Dynamic sampling whose rounds are all in one program, so that runs can be mapped; only rounds in use count.

    Attributes:
      at_random: whether it keeps as many groups of each round as are informative, but any of them.
    """

    at_random: bool = False
    on_host = False

    def __call__(
        self, state: State, actors: Actors, request: Request
    ) -> tuple[State, Groups, Metrics]:
        inner, batch = state[1], None
        kept = jnp.zeros(self.sampled.prompts_per_step, bool)
        rounds, tokens = 0, jnp.float32(0)
        for number in range(self.rounds):
            asked = dataclasses.replace(request, start=number * len(kept), round=number)
            inner, groups, _ = self.inner(inner, actors, asked)
            usable = ~all_equal(groups[1].rewards)
            if self.at_random:
                usable = jax.random.permutation(asked.key("discard"), usable)
            in_use = ~kept.all()
            rounds = rounds + in_use
            tokens = tokens + in_use * groups[0].token_mask.sum()
            batch, kept = fill(groups if batch is None else batch, kept, groups, usable)
        sampled = {
            "trajectories_sampled": (rounds * groups[1].rewards.size, 0),
            "tokens_sampled": (tokens, 0),
        }
        return (None, inner), batch, sampled | {"prompt_survival": (1.0, rounds)}


@dataclasses.dataclass(frozen=True)
class Skip(Wrapper):
    """A difficulty filter's window and exploration with the exact success of an `Exam` in the place of predictions.

    Attributes:
      at_random: whether as many prompts are kept, but any.
    """

    at_random: bool = False
    asks = "prompts"
    chooses_prompts = True

    def __call__(
        self, state: State, actors: Actors, request: Request
    ) -> tuple[State, Groups, Metrics]:
        exam, window = self.sampled.environment, DifficultyFilter()
        success = exam.success(actors.policy)
        explored = (
            jax.random.uniform(request.key("exploration"), success.shape) < window.exploration
        )
        passes = (window.lowest <= success) & (success <= window.highest) | explored
        if self.at_random:
            passes = jax.random.permutation(request.key("skip"), passes)
        order = shuffled_prompts(exam, request.seed, request.step)
        chosen = order[jnp.argsort(~passes[order], stable=True)][: self.sampled.prompts_per_step]
        asked = dataclasses.replace(request, prompts=exam.prompts(chosen))
        inner, groups, metrics = self.inner(state[1], actors, asked)
        return (None, inner), groups, metrics | {"prompt_survival": (passes.mean(), 1)}


def trainer_for(
    environment: Any, objective: Objective, training: TrainSettings, filters: Sequence[Wrapper]
) -> Trainer:
    """A trainer with batch filters that work under jit, on an environment that has a `policy`."""
    policy = environment.policy
    sampled = Sampled(environment, policy, training.prompts_per_step, training.group_size)
    return Trainer(environment, policy, objective, training, wrapped(sampled, filters))


@dataclasses.dataclass(frozen=True)
class BudgetedRuns:
    """Runs of every learning rate with every seed, of which all that they sample is counted.

    Attributes:
      trainer: of `trainer_for`.
      measure: parameters -> name -> number; called under jit at every step.
      prior: the initial parameters of every run, which are the reference of a KL penalty.
      learning_rates, seeds: of the runs.
      seed_offset: added to each seed in training, for other runs under the same seeds.
    """

    trainer: Trainer
    measure: Callable[[Parameters], Mapping[str, Array]]
    prior: Parameters
    learning_rates: Sequence[float]
    seeds: Sequence[int]
    seed_offset: int = 0

    @functools.cached_property
    def trained(self) -> dict[str, np.ndarray]:
        """Name -> `[rate, seed, steps + 1]`, of all runs, which are one program.

        What was measured; `trajectories` and `tokens`, sampled so far, those that were thrown away included; and
        `prompt_survival`, the share of prompts or groups that the filters let through.
        """
        self.trainer.check()
        settings = self.trainer.settings
        batch = settings.prompts_per_step * settings.group_size

        def one_run(rate, seed):
            def step(state, _):
                state, metrics = self.trainer.step(state)
                return state, self.measure(state.parameters) | {
                    "trajectories": metrics.get("trajectories_sampled", jnp.float32(batch)),
                    "tokens": metrics.get("tokens_sampled", metrics["length"] * batch),
                    "prompt_survival": metrics.get("prompt_survival", jnp.float32(1)),
                }

            state = self.trainer.begin(seed, rate, self.prior, None)
            start = {"trajectories": 0.0, "tokens": 0.0, "prompt_survival": 1.0}
            first = self.measure(state.parameters) | start
            _, later = jax.lax.scan(step, state, length=settings.steps)
            return jax.tree.map(lambda start, rest: jnp.append(start, rest), first, later)

        grid = jax.jit(jax.vmap(jax.vmap(one_run, (None, 0)), (0, None)))
        seeds = jnp.int32(self.seeds) + self.seed_offset
        found = grid(jnp.float32(self.learning_rates), seeds)
        found |= {unit: np.cumsum(found[unit], axis=-1) for unit in UNITS}
        return {name: np.asarray(values, np.float64) for name, values in found.items()}

    def curves(self, labels: Mapping[str, Any], unit: str, places: np.ndarray) -> study.Curves:
        """A curve for each learning rate, after given numbers of a unit, interpolated between steps.

        The first one that is computed trains all of them.
        """

        def points(number: int) -> study.Points:
            spent = self.trained[unit][number]
            if (least := spent[:, -1].min()) < places[-1]:
                raise ValueError(
                    f"a run ended after {least:g} of {places[-1]:g} {unit}: take more updates"
                )
            interpolated = np.vectorize(np.interp, signature="(p),(s),(s)->(p)")
            values = {
                name: interpolated(places, spent, of_rates[number])
                for name, of_rates in self.trained.items()
                if name not in UNITS
            }
            return study.Points(places.astype(int), values, self.seeds)

        for number, rate in enumerate(self.learning_rates):
            of_rate = {**labels, "learning_rate": rate}
            yield study.Curve(of_rate, functools.partial(points, number))
