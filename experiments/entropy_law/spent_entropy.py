"""How training buys reward with entropy: both exactly, at every record of every run; how well a law foretells it."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.measures import rewarded
from ipsrl.measures.seeds import Interval
from ipsrl.policies.state_table import mean_token_entropy, outcome_probs_at_prompts
from ipsrl.records.tidy import NotRecorded, Records, interval_of
from ipsrl.study.claims import Claim, all_of, close
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.trainer import Trainer


def entropy_and_reward(trainer: Trainer, seeds: Sequence[int], every: int) -> dict[str, np.ndarray]:
    """Trains all seeds as one program; name -> `[S, U]` float64, of the policies `every` updates apart.

    entropy: mean over tokens, in nats, at the first prompt.
    reward: as a share of the best possible one.
    """
    environment, policy = trainer.environment, trainer.policy

    def record(parameters):
        probs = outcome_probs_at_prompts(environment, policy, parameters)
        return probs, mean_token_entropy(environment, policy, parameters)

    seeds = jnp.asarray(seeds)
    program = train_ensemble.lower(trainer, seeds, record, every)
    probs, entropy = program.compile({"xla_backend_optimization_level": 0})(seeds)
    # Programs of an objective are of no use to the next one, and the maps of hundreds of them are too many.
    jax.clear_caches()
    reward = rewarded.measures(probs, environment.reward_table())["reward"]
    return {"entropy": np.asarray(entropy, np.float64), "reward": np.asarray(reward, np.float64)}


def near(value: str, names: Sequence[str], most: float) -> Claim:
    """Whether, on one task, a value ends at most this far from 0 for each of these objectives."""
    return lambda task: all_of(
        close(task.final(value, objective=name), 0.0, most) for name in names
    )


def saved(task: Records) -> Interval:
    """By how much, on one task, the law's error of the rest is below that of GRPO's last fitted reward, repeated."""
    return interval_of(
        task.ends("constant_error", objective="grpo") - task.ends("rest_error", objective="grpo")
    )


def further_off(name: str, tasks: Sequence[str], by: float) -> Claim:
    """Whether on each task an objective's ceiling is further off than GRPO's, by more than this, paired by seed."""

    def on(task: Records) -> bool | None:
        errors = [
            abs(task.ends("ceiling_error", objective=objective)) for objective in (name, "grpo")
        ]
        return interval_of(errors[0] - errors[1]).exceeds(by)

    return lambda records: all_of(on(records.where(task=task)) for task in tasks)


def share_near(most: float) -> Callable[[Records], float]:
    """For NUMBERS: of all objectives on all tasks, the share whose mean ceiling is at most this far off."""
    return lambda records: float(
        np.mean([abs(error.mean) <= most for error in _ceiling_errors(records)])
    )


def most_near(most: float) -> Claim:
    """Whether three quarters of these are; undecided if that depends on those that their intervals do not decide.

    One without a number is not.
    """

    def holds(records: Records) -> bool | None:
        errors = _ceiling_errors(records)
        found = [False if np.isnan(error.mean) else close(error, 0.0, most) for error in errors]
        needed = 0.75 * len(found)
        return (
            True
            if found.count(True) >= needed
            else False
            if len(found) - found.count(False) < needed
            else None
        )

    return holds


def _ceiling_errors(records: Records) -> list[Interval]:
    if not (found := [of.final("ceiling_error") for _, of in records.each("task", "objective")]):
        raise NotRecorded("there is no record of a ceiling")
    return found
