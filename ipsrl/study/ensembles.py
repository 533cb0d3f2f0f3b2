"""Curves of objectives; all seeds of one are trained as one compiled program."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import objectives
from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.study.curves import Curve, Points
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import check_objective


def trained(
    environment: Environment,
    policy: Policy,
    objective: str,
    settings: Any,
    record: Callable[[Parameters], Any],
    measure: Callable[[Any], Mapping[str, Any]] = dict,
    labels: Mapping[str, Any] | None = None,
    optimizer: str = "sgd",
    **changed: Any,
) -> Curve:
    """The curve of one objective with all seeds of the settings, without gradient clipping.

    Args:
      environment: has one prompt, and computes rewards under jit.
      policy: the initial policy, and the reference of a KL penalty.
      objective: its specification.
      settings: have `EnsembleSettings`' seeds, steps, record_every, group_size and learning_rate.
      record: parameters -> a pytree of arrays to keep; called under jit.
      measure: maps the recorded arrays, `[S, U, ...]` in float64, to name -> `[S, U]`.
      labels: of the curve; the objective by default.
      optimizer: sgd or adam.
      changed: overrides for these settings.

    Raises:
      ValueError: the objective is unknown, or cannot be trained here.
    """
    names = ("seeds", "steps", "record_every", "group_size", "learning_rate")
    chosen = {name: changed[name] if name in changed else getattr(settings, name) for name in names}
    chosen["optimizer"] = make_optimizer(optimizer, chosen.pop("learning_rate"), max_gradient_norm=None)
    made, labels = objectives.make(objective), labels or {"objective": objective}
    try:
        check_objective(made, environment, policy, chosen["group_size"])
    except ValueError as error:
        raise ValueError(f"{objective} cannot be trained here: {error}") from None

    def compute() -> Points:
        seeds = jnp.asarray(chosen["seeds"])
        recorded = train_ensemble(
            environment, policy, made, prompts_per_step=1, record=record, **chosen | {"seeds": seeds}
        )
        values = measure(jax.tree.map(lambda array: np.asarray(array, np.float64), recorded))
        steps = np.arange(0, chosen["steps"] + 1, chosen["record_every"])
        return Points(steps, values, chosen["seeds"])

    return Curve(labels, compute)
