"""Curves of objectives; all seeds of one are trained as one compiled program."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives
from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_table import outcome_probs
from ipsrl.rewards import Reward
from ipsrl.study.curves import Curve, Points
from ipsrl.study.settings import EnsembleSettings
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer


def trained(
    environment: Environment,
    policy: Policy,
    objective: str,
    settings: EnsembleSettings,
    record: Callable[[Parameters], Any] | None = None,
    measure: Callable[[Any], Mapping[str, Any]] = dict,
    labels: Mapping[str, Any] | None = None,
    optimizer: str = "sgd",
    initial_parameters: Parameters | None = None,
    reward: Reward | None = None,
    epochs: int = 1,
    whole_runs: bool = False,
    prompts_per_step: int = 1,
    temperature: float = 1.0,
    trainer_of: Callable[..., Trainer] = Trainer,
    **changed: Any,
) -> Curve:
    """The curve of one objective with all seeds of the settings, without gradient clipping.

    Args:
      environment: computes rewards under jit.
      policy: see its protocol; the initial policy is the reference of a KL penalty.
      objective: its specification.
      settings: have `EnsembleSettings`' seeds, steps, record_every, group_size and learning_rate.
      record: parameters -> a pytree of arrays to keep; called under jit. By default the exact distribution `[K]` of
        outcomes at the first prompt, which a `StateGraph` has.
      measure: maps the recorded arrays, `[S, U, ...]` in float64, to name -> `[S, U]`, or with `whole_runs` `[S, 1]`.
      labels: of the curve; the objective by default.
      optimizer: sgd or adam.
      initial_parameters: of every seed; fresh ones by default.
      reward: of the answers, such as a noisy verifier; the environment's own by default.
      epochs: optimiser steps on each batch.
      whole_runs: whether `measure` makes one number of each run; the curve is then a single point, at the last step.
      prompts_per_step: prompts of a batch, each with a group.
      temperature: of sampling and scoring.
      trainer_of: (environment, policy, objective, settings) -> the trainer, such as an `EvolutionTrainer` with a noise.
      changed: overrides for these settings.

    Raises:
      ValueError: the objective is unknown, or cannot be trained here.
    """
    names = ("seeds", "steps", "record_every", "group_size", "learning_rate")
    chosen = {name: changed[name] if name in changed else getattr(settings, name) for name in names}
    seeds, record_every, labels = chosen.pop("seeds"), chosen.pop("record_every"), labels or {"objective": objective}
    training = TrainSettings(
        prompts_per_step=prompts_per_step,
        temperature=temperature,
        optimizer=optimizer,
        max_gradient_norm=None,
        batching=Batching(epochs),
        **chosen,
    )
    record = record or _distribution(environment, policy)
    trainer = trainer_of(environment, policy, objectives.make(objective), training)
    try:
        trainer.check()
    except ValueError as error:
        raise ValueError(f"{objective} cannot be trained here: {error}") from None

    def compute() -> Points:
        of_runs = {"initial_parameters": initial_parameters, "reward": reward}
        of_runs = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(seeds), *jnp.shape(leaf))), of_runs)
        recorded = train_ensemble(trainer, jnp.asarray(seeds), record, record_every, **of_runs)
        values = measure(jax.tree.map(lambda array: np.asarray(array, np.float64), recorded))
        recorded_at = np.arange(0, training.steps + 1, record_every)
        return Points(recorded_at[-1:] if whole_runs else recorded_at, values, seeds)

    return Curve(labels, compute)


# One function for each policy, because each new one would be compiled anew.
@functools.cache
def _distribution(environment: Any, policy: Policy) -> Callable[[Parameters], jax.Array]:
    return functools.partial(outcome_probs, environment, policy)
