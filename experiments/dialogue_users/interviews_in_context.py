"""A transformer as the manager of `interview`: it reads the dialogue so far, so that it can infer the kind of user."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.dialogue_users.interviews import LATER, Managers, described
from ipsrl import objectives
from ipsrl.environments.agents.interview_users import PHASES
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer


def learned_in_context(
    managers: Managers, seeds: Sequence[int], updates: int, samples: int = 256
) -> dict[str, np.ndarray]:
    """`described` of transformers trained by GRPO and Adam, name -> `[S, 1, ...]`, at the end; nothing is adapted.

    Args:
      managers: whose task and group size they have.
      samples: dialogues with each user by which all is measured. The information of phase and user is then too large
        by about (users - 1) (phases - 1) / (2 users samples) nats, 0.004 for three users and 256 samples.
    """
    task = dataclasses.replace(managers.environment, sees="tokens")
    policy = Transformer(
        task.vocabulary_size,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        num_key_value_heads=2,
        intermediate_size=64,
    )
    settings = TrainSettings(updates, task.users, managers.group_size, learning_rate=3e-3)
    trainer = Trainer(task, policy, objectives.make("grpo"), settings)
    policies = train_ensemble(trainer, jnp.asarray(seeds), dict, updates)
    prompts = task.prompts(np.arange(task.users))

    @jax.jit
    @jax.vmap
    def measured(parameters, seed):
        key = stream(seed, LATER, "sampling")
        sampled = sample_groups(task, policy, parameters, prompts, key, samples)
        first = jnp.arange(task.blocks) * (2 * task.every + 1)
        phases = (sampled.tokens[..., first, None] == jnp.arange(len(PHASES))).mean(axis=1)
        return described(phases, task.verify(sampled).rewards.mean(axis=1), managers.best_returns)

    found = measured(jax.tree.map(lambda leaf: leaf[:, -1], policies), jnp.asarray(seeds))
    return {name: np.asarray(values)[:, None] for name, values in found.items()}
