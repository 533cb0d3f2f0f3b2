"""Exams: prompts of known difficulty, with batch filters that know it or choose by chance, as controls."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.objectives.objective import Objective, all_equal
from ipsrl.policies.mlp import MLP
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.prompts import shuffled_prompts
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling, fill
from ipsrl.rollouts.sources.source import (
    Actors,
    Groups,
    Metrics,
    Request,
    Sampled,
    State,
    Wrapper,
    wrapped,
)
from ipsrl.structures import Prompts
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer


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
        """As many arms as families; prompt i belongs to family i modulo their number."""
        right = np.eye(families)[np.arange(prompts) % families]
        return cls(tuple(map(tuple, right.tolist())), transfer)

    @property
    def policy(self) -> MLP:
        """Logits are a row of the family, times `transfer`, and a row of the question."""
        return MLP(
            self.features, self.num_outcomes + self.num_prompts, self.num_outcomes, hidden=()
        )

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
        x = np.linspace(-spread, spread, arms)[index % arms] + np.random.default_rng(0).normal(
            size=len(index)
        )
        kernel = np.zeros((arms + len(index), arms), np.float32)
        kernel[arms + index, index % arms] = x + np.log(arms - 1)
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
        inner, batch, kept, rounds = (
            state[1],
            None,
            jnp.zeros(self.sampled.prompts_per_step, bool),
            0,
        )
        tokens = jnp.float32(0)
        for number in range(self.rounds):
            asked = dataclasses.replace(request, start=number * len(kept), round=number)
            inner, groups, _ = self.inner(inner, actors, asked)
            usable = ~all_equal(groups[1].rewards)
            if self.at_random:
                usable = jax.random.permutation(asked.key("discard"), usable)
            rounds, tokens = rounds + ~kept.all(), tokens + ~kept.all() * groups[0].token_mask.sum()
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


def budgeted_runs(
    environment: Any,
    measure: Callable[[Parameters], Mapping[str, Array]],
    prior: Parameters,
    objective: Objective,
    training: TrainSettings,
    wrappers: Sequence[Wrapper],
    learning_rates: Sequence[float],
    seeds: Sequence[int],
) -> dict[str, np.ndarray]:
    """Trains every learning rate with every seed as one program, and counts what was sampled.

    Args:
      environment: has a `policy`, and computes rewards under jit.
      measure: parameters -> name -> number; called under jit at every step.
      prior: the initial parameters of every run, which are the reference of a KL penalty.
      objective, training: what a run learns by; the settings have no batch filters.
      wrappers: batch filters that work under jit.
      learning_rates, seeds: of the runs.

    Returns:
      name -> `[rate, seed, steps + 1]`: what was measured; `trajectories` and `tokens`, sampled so far, those that were
      thrown away included; and `prompt_survival`, the share of prompts or groups that the wrappers let through.
    """
    policy, size = environment.policy, training.prompts_per_step * training.group_size
    sampled = Sampled(environment, policy, training.prompts_per_step, training.group_size)
    trainer = Trainer(environment, policy, objective, training, wrapped(sampled, wrappers))
    trainer.check()

    def one_run(rate, seed):
        def step(carry, _):
            state, metrics = trainer.step(carry[0])
            trajectories = metrics.get("trajectories_sampled", jnp.float32(size))
            tokens = metrics.get("tokens_sampled", metrics["length"] * size)
            spent = {
                "trajectories": carry[1]["trajectories"] + trajectories,
                "tokens": carry[1]["tokens"] + tokens,
            }
            survival = {"prompt_survival": metrics.get("prompt_survival", jnp.float32(1))}
            return (state, spent), measure(state.parameters) | spent | survival

        state, nothing = trainer.begin(seed, rate, prior, None), jnp.float32(0)
        spent = {"trajectories": nothing, "tokens": nothing}
        first = measure(state.parameters) | spent | {"prompt_survival": jnp.float32(1)}
        _, later = jax.lax.scan(step, (state, spent), length=training.steps)
        return jax.tree.map(lambda start, rest: jnp.append(start, rest), first, later)

    grid = jax.jit(jax.vmap(jax.vmap(one_run, (None, 0)), (0, None)))
    found = grid(jnp.float32(learning_rates), jnp.int32(seeds))
    return {name: np.asarray(values, np.float64) for name, values in found.items()}


@functools.lru_cache(maxsize=1)
def runs_on_exam(
    wrappers: tuple[Wrapper, ...], group_size: int, settings: Any
) -> dict[str, np.ndarray]:
    """`budgeted_runs` of GRPO on an exam, with `Exam.measures` of all prompts.

    The last result is kept, for the curves of its learning rates.

    Args:
      wrappers: batch filters.
      settings: have prompts, families, spread and transfer of the exam, `batch` trajectories a step before any is
        thrown away, a `budget` of them for a run, learning_rates and seeds.
    """
    exam = Exam.of(settings.prompts, settings.families, settings.transfer)
    steps = (
        settings.budget // settings.batch
    )  # a run that throws groups away spends its budget in fewer
    training = TrainSettings(
        steps, settings.batch // group_size, group_size, max_gradient_norm=None
    )
    learner = exam.prior(settings.spread), objectives.make("grpo"), training, wrappers
    measure = functools.partial(exam.measures, group_size)
    return budgeted_runs(exam, measure, *learner, settings.learning_rates, settings.seeds)


def require_whole_batches(settings: Any) -> None:
    """Raises ValueError if settings of `runs_on_exam`, and their `group_sizes`, leave a part of the budget unspent."""
    for size in settings.group_sizes:
        if settings.batch % size:
            raise ValueError(
                f"--group_sizes has {size}, it must divide --batch, which is {settings.batch}"
            )
    if settings.budget % settings.batch:
        raise ValueError(
            f"--budget is {settings.budget}, it must be a multiple of --batch, which is {settings.batch}"
        )


def at_budget(
    runs: Mapping[str, np.ndarray], name: str, unit: str, places: np.ndarray
) -> np.ndarray:
    """`[rate, seed, place]`, a measure of `budgeted_runs` after given numbers of `unit`, interpolated between steps."""
    of_run = np.vectorize(np.interp, signature="(p),(s),(s)->(p)")
    return of_run(places, runs[unit], runs[name])


def of_best_rate(
    runs: Mapping[str, np.ndarray],
    judged: str,
    unit: str,
    places: np.ndarray,
    learning_rates: Sequence[float],
) -> dict[str, np.ndarray]:
    """`[seed, place]`, what `budgeted_runs` measured with the learning rate of the highest final mean of `judged`.

    It is the best one for the seeds that are returned, which flatters all arms with as many rates about equally;
    `ipsrl.study.tuning.best_for_others` chooses by other seeds, from records of all rates.

    Raises:
      ValueError: a run of that learning rate ended before it had spent the budget.
    """
    found = {
        name: at_budget(runs, name, unit, places)
        for name in runs
        if name not in ("trajectories", "tokens")
    }
    best = int(found[judged][..., -1].mean(axis=1).argmax())
    if (spent := runs[unit][best, :, -1].min()) < places[-1]:
        raise ValueError(f"a run ended after {spent:g} of {places[-1]:g} {unit}: take more updates")
    return {name: values[best] for name, values in found.items()} | {
        "learning_rate": np.array(learning_rates[best])
    }
