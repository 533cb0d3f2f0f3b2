"""An objective at the learning rate that suits it: without that, a comparison of objectives is one of step sizes."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.policies.policy import Parameters
from ipsrl.study.curves import Points
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.trainer import Trainer


def at_best_rate(
    trainer: Trainer, record: Callable[[Parameters], Mapping[str, Array]], score: str, starts: Parameters, settings: Any
) -> list[Points]:
    """Trains all seeds from all starts at the learning rate that is best for other seeds; a single rate needs none.

    Args:
      trainer: of the objective; its learning rate is replaced.
      record: parameters -> name -> `[]`; called under jit.
      score: the name of which the final value, averaged over starts and `tuning_seeds`, is highest at the best rate.
      starts: initial parameters, leaves `[N, ...]`.
      settings: have `seeds`, `tuning_seeds`, `learning_rates` and `record_every`.

    Returns:
      for each start what is recorded of each seed over training, and `learning_rate`.
    """
    count = len(jax.tree.leaves(starts)[0])

    def trained(rates: tuple[float, ...], seeds: tuple[int, ...]) -> dict[str, np.ndarray]:
        rate, start, seed = map(np.ravel, np.meshgrid(rates, range(count), seeds, indexing="ij"))
        initial, rate = jax.tree.map(lambda leaf: leaf[start], starts), jnp.asarray(rate, jnp.float32)
        found = train_ensemble(trainer, jnp.asarray(seed), record, settings.record_every, rate, initial)
        shape = (len(rates), count, len(seeds), -1)
        return {name: np.asarray(values, np.float64).reshape(shape) for name, values in found.items()}

    best = settings.learning_rates[0]
    if len(settings.learning_rates) > 1:
        final = trained(settings.learning_rates, settings.tuning_seeds)[score][..., -1]
        best = settings.learning_rates[final.mean(axis=(1, 2)).argmax()]
    found, steps = trained((best,), settings.seeds), range(0, trainer.settings.steps + 1, settings.record_every)
    return [
        Points(
            steps, {name: values[0, start] for name, values in found.items()} | {"learning_rate": best}, settings.seeds
        )
        for start in range(count)
    ]
