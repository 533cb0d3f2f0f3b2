"""Counts of an agent's ways to search: different behaviours, right and wrong ones, among sampled answers."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.search_diversity.agents import ALL, POLICY, TRAINED
from ipsrl.measures.diversity import distinct_outcomes, effective_outcomes
from ipsrl.measures.pass_at_k import pass_at_k
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups

ANSWERS = 256
"""The number of answers to each question."""
TRIES = (1, 4, 16, 64)
"""The k of pass@k."""
HELD_OUT = "held_out_"


def counted_searches(recorded: Parameters, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Measures from 256 sampled answers to each question, by name.

    They are means over trained questions and, with the prefix `held_out_`, over the others: `pass_1` (the accuracy) to
    `pass_64`; `right` and `wrong`, the numbers of different behaviours that end in the right answer and in another; and
    `effective`, exp of the entropy of the right behaviours, 0 without any.

    Args:
      recorded: leaves `[seed, record, ...]`.
      seeds: of the sampling, which is the same in all records.

    Returns:
      name -> `[seed, record]` float64.
    """
    counts = jax.tree.map(np.asarray, _counted(recorded, jnp.asarray(seeds)))
    correct = counts.pop("correct")
    counts |= {f"pass_{k}": pass_at_k(correct, ANSWERS, k) for k in TRIES}
    parts = {"": slice(None, TRAINED), HELD_OUT: slice(TRAINED, None)}
    return {
        prefix + name: np.asarray(value[..., part], np.float64).mean(axis=-1)
        for prefix, part in parts.items()
        for name, value in counts.items()
    }


@jax.jit
def _counted(recorded: Parameters, seeds: Array) -> dict[str, Array]:
    """name -> `[seed, record, question]`."""
    prompts = ALL.prompts(jnp.arange(ALL.problems))

    def of_record(parameters, key):
        sampled = sample_groups(ALL, POLICY, parameters, prompts, key, ANSWERS)
        done = ALL.searches(sampled)
        is_right = done.answer == jnp.asarray(ALL.answers)[:, None]
        right = jnp.where(is_right, done.behaviour, -1)
        wrong = jnp.where(is_right, -1, done.behaviour)
        return {
            "correct": is_right.sum(axis=-1),
            "right": distinct_outcomes(right),
            "wrong": distinct_outcomes(wrong),
            "effective": effective_outcomes(right),
        }

    def of_seed(run):
        parameters, seed = run
        key = stream(seed, 0, "measured")
        return jax.lax.map(lambda record: of_record(record, key), parameters)

    return jax.lax.map(of_seed, (recorded, seeds))
