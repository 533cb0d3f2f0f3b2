"""Every objective of the catalog trains the same on one device and on eight."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.environments.graphs.bandit import VectorBandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers, with_best_answer
from ipsrl.rollouts.sources.source import Sampled
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import Batching, TrainState, check_objective, compiled_update
from tests.sampled_groups import collect, sample_and_verify
from tests.tiers import slow_after
from tests.training.compilations import compilations_of
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER
from tests.training.one_update import moved, start

pytestmark = pytest.mark.eight_devices

TREE, VECTOR = Tree(), VectorBandit(((1.0, 0.0), (0.1, 0.8), (0.6, 0.5)))
PAIRS = (
    (FIRST_TOKEN, Tabular(FIRST_TOKEN.num_observations, FIRST_TOKEN.vocabulary_size)),
    (TREE, Tabular(TREE.num_observations, TREE.vocabulary_size)),
    (FIRST_TOKEN, TRANSFORMER),
    (VECTOR, Tabular(VECTOR.num_observations, VECTOR.vocabulary_size)),
)
PROMPTS, GROUP_SIZE, UPDATES = 32, 6, 2
# Small steps: large ones multiply what rounding has left.
SGD = make_optimizer("sgd", learning_rate=0.05, max_gradient_norm=None)
STATIC = {"optimizer": SGD, "batching": Batching(mini_batches=2, micro_batches=2), "temperature": 1.0}

# What looks at a whole batch or mini-batch, or carries something, has the most to say to other devices; these are
# scales of a batch, quantiles of a mini-batch, a running mean, a reference and the trainer's own probabilities of the
# batch. All take minutes together.
TELLING = (
    "reinforce_plus_plus",
    "ips_grpo(probability=exact, kl=0.1)",
    "forking_tokens",
    "grpo(correction=truncated(1.1, level=sequence))",
)
EVERY = slow_after(2, [*TELLING, *(name for name in objectives.names() if name not in TELLING)])


def able(objective, pairs):
    """The first environment and policy that give an objective what it needs."""
    for environment, policy in pairs:
        with contextlib.suppress(ValueError):
            sampled = Sampled(environment, policy, 1, GROUP_SIZE, top_tokens=objective.top_tokens)
            fields = GreedyAnswers().provides(OffPolicyAnswers(2).provides(sampled.optional_fields))
            check_objective(objective, environment, GROUP_SIZE, fields)
            return environment, policy
    raise AssertionError(f"nothing here gives {sorted(objective.needs)}")


def sample(objective, environment, policy, parameters):
    prompts = choose_prompts(environment, 3, 0, PROMPTS)
    top = objective.top_tokens
    groups = collect(environment, policy, parameters, prompts, 3, 0, GROUP_SIZE, 1.0, top)
    if "greedy_rewards" in objective.needs:
        # The answer of another key stands for the greedy one.
        _, others = sample_and_verify(environment, policy, parameters, prompts, jax.random.key(5), 1, 1.0, top)
        return groups[0], dataclasses.replace(groups[1], greedy_rewards=others.rewards[:, 0])
    if "off_policy" not in objective.needs:
        return groups
    refined = sample_and_verify(environment, policy, parameters, prompts, jax.random.key(5), 2, 1.0, top)
    return with_best_answer(policy, parameters, *groups, *refined, 1.0)


@pytest.mark.parametrize("text", EVERY)
def test_one_device_trains_as_eight_do(text):
    """Parameters, state and metrics agree after two updates of two optimiser steps of two micro-batches each."""
    # With the weight that it has by default, A*-PO moves less than rounding does.
    objective = objectives.make("a2po(beta2=0.1)" if text == "a2po" else text)
    # With rewards of 0 and 1 no group here has a single best answer, the only one that top_one learns from.
    environment, policy = able(objective, PAIRS[1:] if text == "top_one" else PAIRS)
    begun = start(policy, 0.1)
    behaviour, reference = moved(begun, 2, 0.1), moved(begun, 3, 0.1)
    groups = sample(objective, environment, policy, behaviour)

    def train(whole, split):
        state = TrainState.create(jax.tree.map(jnp.copy, begun), objective, SGD, environment)
        state = dataclasses.replace(state, reference=jax.tree.map(jnp.copy, reference))
        state, batch = whole(state), split(groups)
        found = []
        for number in range(UPDATES):
            state, metrics = compiled_update(
                state, *batch, jax.random.key(number), policy=policy, objective=objective, **STATIC
            )
            found.append(metrics)
        return jax.device_get((state, found))

    mesh = make_mesh("data:8")
    with compilations_of("update") as programs:
        alone = train(lambda tree: tree, lambda tree: tree)
        with jax.set_mesh(mesh):
            together = train(lambda tree: replicate(tree, mesh), lambda tree: shard_prompts(tree, mesh))
    assert len(programs) == 2
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), together, alone)
    parameters = jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(a - b).max(), alone[0].parameters, begun))
    assert max(parameters) > 1e-4
