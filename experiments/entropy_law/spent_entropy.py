"""How training buys reward with entropy: both exactly, at every record of every run."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.state_graph import StateGraph
from ipsrl.measures import rewarded
from ipsrl.policies.policy import Parameters, Policy, entropy
from ipsrl.policies.state_table import log_probs_table, outcome_probs_at_prompts
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


def mean_token_entropy(environment: StateGraph, policy: Policy, parameters: Parameters) -> Array:
    """`[]` float32 in nats at the first prompt, what a batch measures on average: sum_s n_s H(pi(. | s)) / sum_s n_s.

    n_s is how often a walk is in state s. The mean over tokens of very many answers tends to it.
    """
    log_probs = log_probs_table(policy, parameters, environment)
    visits = environment.visits(log_probs)
    return (visits * entropy(log_probs)).sum() / visits.sum()
