"""An objective at the learning rate that suits it: without that, a comparison of objectives is one of step sizes."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.policies.policy import Parameters
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.trainer import Trainer


def at_best_rate(
    trainer: Trainer, record: Callable[[Parameters], Mapping[str, Array]], score: str, starts: Parameters, settings: Any
) -> dict[str, np.ndarray]:
    """Trains all seeds from all starts at the learning rate that is best for other seeds, as two programs.

    Args:
      trainer: of the objective; its learning rate is replaced.
      record: parameters -> name -> `[]`; called under jit.
      score: the name of which the final value, averaged over starts and `tuning_seeds`, is highest at the best rate.
      starts: initial parameters, leaves `[N, ...]`.
      settings: have `seeds`, `tuning_seeds`, `learning_rates` and `record_every`.

    Returns:
      name -> `[N, S, U]` float64, U points over training, and `learning_rate` beside them.
    """
    count = len(jax.tree.leaves(starts)[0])

    def trained(rates: tuple[float, ...], seeds: tuple[int, ...]) -> dict[str, np.ndarray]:
        rate, start, seed = map(np.ravel, np.meshgrid(rates, range(count), seeds, indexing="ij"))
        initial, rate = jax.tree.map(lambda leaf: leaf[start], starts), jnp.asarray(rate, jnp.float32)
        found = train_ensemble(trainer, jnp.asarray(seed), record, settings.record_every, rate, initial)
        shape = (len(rates), count, len(seeds), -1)
        return {name: np.asarray(values, np.float64).reshape(shape) for name, values in found.items()}

    final = trained(settings.learning_rates, settings.tuning_seeds)[score][..., -1]
    best = settings.learning_rates[final.mean(axis=(1, 2)).argmax()]
    found = {name: values[0] for name, values in trained((best,), settings.seeds).items()}
    return found | {"learning_rate": np.full_like(found[score], best)}
