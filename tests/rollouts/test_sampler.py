"""Samples follow the policy's distribution, stay legal, end where they should, and do not depend on the devices."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.environments.environment import Environment
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.text import STOP
from ipsrl.policies.policy import Policy
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Trajectories

pytestmark = pytest.mark.eight_devices

TEMPERATURE = 0.7
GROUP_SIZE = 6
TEXT = HypospaceBoolean("basic", depth=1)
TRANSFORMER = Transformer(TEXT.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1)
FRESH = jax.jit(TRANSFORMER.init)
BANDIT = Bandit(((1.0, 0.0, 0.5), (0.0, 1.0, 2.0)))


def tabular(environment):
    return Tabular(environment.num_observations, environment.vocabulary_size)


def random_logits(environment):
    shape = (environment.num_observations, environment.vocabulary_size)
    return {"logits": jax.random.normal(jax.random.key(5), shape)}


class Case(NamedTuple):
    environment: Environment
    policy: Policy
    parameters: dict
    trajectories: Trajectories


@pytest.fixture(scope="module", params=["bandit", "tree", "hypergrid", "text"])
def case(request) -> Case:
    environment = {"bandit": BANDIT, "tree": Tree(), "hypergrid": Hypergrid(2, side=4), "text": TEXT}[request.param]
    if environment is TEXT:
        # Fresh parameters are nearly uniform; these have logits below 15, whose rounding is 1e-6.
        policy, parameters = TRANSFORMER, jax.tree.map(lambda leaf: 2 * leaf, FRESH(jax.random.key(5)))
    else:
        policy, parameters = tabular(environment), random_logits(environment)
    prompts = environment.prompts(jnp.array([0, 20, 34, 20]) % environment.num_prompts)
    trajectories = sample_groups(
        environment, policy, parameters, prompts, jax.random.key(1), GROUP_SIZE, Decoding(TEMPERATURE), top_tokens=3
    )
    return Case(environment, policy, parameters, trajectories)


def test_the_scorer_agrees_with_the_sampler(case):
    score = jax.jit(case.policy.score, static_argnums=2)
    sampled, scores = case.trajectories, score(case.parameters, case.trajectories, TEMPERATURE)
    mask = np.asarray(sampled.token_mask)
    np.testing.assert_allclose(scores.log_probs, sampled.behaviour_log_probs, atol=1e-5)
    np.testing.assert_allclose(scores.entropy, sampled.behaviour_entropy, atol=1e-5)
    assert sampled.top_tokens.shape == (*mask.shape, 3)
    np.testing.assert_allclose(scores.top_log_probs, sampled.top_log_probs, atol=1e-5)
    assert not np.asarray(scores.top_log_probs)[~mask].any()
    other = score(case.parameters, sampled, 1.0).log_probs
    assert np.abs(other - scores.log_probs).max() > 0.01


def test_the_likeliest_tokens_come_in_order_and_the_sampled_one_is_no_likelier(case):
    sampled, mask = case.trajectories, np.asarray(case.trajectories.token_mask)
    top, chosen = (np.asarray(leaf)[mask] for leaf in (sampled.top_log_probs, sampled.behaviour_log_probs))
    assert (np.diff(top, axis=-1) <= 0).all()
    # Up to rounding, because the compiler may sum either in its own order.
    assert (chosen <= top[:, 0] + 1e-6).all()
    first = np.asarray(sampled.tokens)[mask] == np.asarray(sampled.top_tokens)[mask][:, 0]
    assert 0 < first.mean() < 1
    np.testing.assert_allclose(chosen[first], top[first, 0], atol=1e-6)


def test_a_trajectory_is_a_walk_of_legal_actions_up_to_its_end(case):
    environment, sampled = case.environment, jax.device_get(case.trajectories)
    shape = (4, GROUP_SIZE, environment.max_tokens)
    assert {sampled.tokens.shape, sampled.token_mask.shape, sampled.behaviour_log_probs.shape} == {shape}
    for p, prompt in enumerate(sampled.prompts.index):
        for g in range(GROUP_SIZE):
            state = environment.reset(jax.random.key(0), jnp.int32(prompt), jnp.int32(g))
            for t in range(environment.max_tokens):
                finished = bool(environment.finished(state))
                assert sampled.token_mask[p, g, t] == (not finished)
                token, log_prob = sampled.tokens[p, g, t], sampled.behaviour_log_probs[p, g, t]
                if finished:
                    assert token == 0
                    assert log_prob == 0.0
                    continue
                assert log_prob <= 0.0
                assert sampled.observations[p, g, t] == environment.observe(state)
                legal = environment.legal(state)
                if legal is not None:
                    assert legal[token]
                    np.testing.assert_array_equal(sampled.legal_actions[p, g, t], legal)
                state = environment.step(state, token)
            assert sampled.truncated[p, g] == (not environment.finished(state))
    assert sampled.observations.dtype == sampled.tokens.dtype == np.int32
    assert sampled.token_mask.dtype == sampled.truncated.dtype == bool
    assert sampled.behaviour_log_probs.dtype == np.float32
    assert (sampled.legal_actions is None) == (environment is TEXT)
    # Groups of the same prompt differ.
    assert sampled.prompts.index[1] == sampled.prompts.index[3]
    assert (sampled.tokens[1] != sampled.tokens[3]).any()


@pytest.mark.parametrize(
    ("environment", "temperature"),
    [(Tree(), 1.0), (Bandit((1.0,) * 5), 2.0)],
    ids=str,
)
def test_outcomes_are_as_frequent_as_the_exact_distribution_says(environment, temperature):
    policy, parameters, samples = tabular(environment), random_logits(environment), 20_000
    prompts = environment.prompts(jnp.zeros(4, int))
    sampled = sample_groups(
        environment, policy, parameters, prompts, jax.random.key(2), samples // 4, Decoding(temperature)
    )
    outcomes = jax.jit(environment.verify)(sampled)
    counts = np.bincount(np.asarray(outcomes.outcome_id).ravel(), minlength=environment.num_outcomes)
    tempered = jax.tree.map(lambda logits: logits / temperature, parameters)
    probs = jax.jit(outcome_probs, static_argnums=(0, 1))(environment, policy, tempered)
    probs = np.asarray(probs, np.float64)
    assert probs.max() / probs.min() > 1.5
    deviation = (counts - samples * probs) / np.sqrt(samples * probs * (1 - probs))
    assert np.abs(deviation).max() < 4.5
    assert counts.sum() == samples


def test_an_answer_that_never_stops_is_truncated_and_one_that_ends_at_the_horizon_is_not():
    never = {"logits": jnp.zeros((TEXT.vocabulary_size,) * 2).at[:, STOP].set(-1e9)}
    sampled = sample_groups(TEXT, tabular(TEXT), never, TEXT.prompts(np.arange(3)), jax.random.key(0), 4)
    assert sampled.truncated.all()
    assert sampled.token_mask.all()
    assert (TEXT.verify(jax.device_get(sampled)).outcome_id == -1).all()

    lattice = Tree(depth=3, longest_step=1)
    sampled = sample_groups(
        lattice, tabular(lattice), random_logits(lattice), lattice.prompts(jnp.zeros(2, int)), jax.random.key(0), 4
    )
    assert sampled.token_mask.all()
    assert not sampled.truncated.any()


class LongHorizon(Tree):
    @property
    def max_tokens(self) -> int:
        return self.depth + 5


def test_the_loop_ends_with_the_longest_trajectory_and_leaves_nothing_behind():
    positions = []

    class CountingSteps(Tabular):
        def step(self, parameters, cache, observations, position):
            jax.debug.callback(positions.append, position)
            return super().step(parameters, cache, observations, position)

    parameters = random_logits(Tree())
    policy = CountingSteps(Tree().num_observations, Tree().vocabulary_size)
    prompts = Tree().prompts(jnp.zeros(2, int))
    short, long = (
        sample_groups(environment, policy, parameters, prompts, jax.random.key(3), 8)
        for environment in (Tree(), LongHorizon())
    )
    jax.effects_barrier()
    assert positions == [0, 1, 2, 0, 1, 2]
    for name in ("observations", "tokens", "token_mask", "behaviour_log_probs", "legal_actions"):
        one, other = np.asarray(getattr(short, name)), np.asarray(getattr(long, name))
        np.testing.assert_array_equal(one, other[:, :, :3])
        assert not other[:, :, 3:].any()
    assert not long.truncated.any()


class WildAfterTheEnd(Tree):
    # An environment may answer anything where a walk has ended.
    def step(self, state, token):
        return jnp.where(self.finished(state), -1000, super().step(state, token))


def test_finished_trajectories_stay_where_they_are():
    wild, prompts = WildAfterTheEnd(), Tree().prompts(jnp.zeros(2, int))
    sampled = sample_groups(wild, tabular(wild), random_logits(wild), prompts, jax.random.key(3), 8)
    assert sampled.token_mask.any(axis=(0, 1)).all()
    assert not sampled.token_mask.all()
    assert ((sampled.observations >= 0) & (sampled.observations < wild.num_observations)).all()


@pytest.mark.parametrize("name", ["text", "hypergrid", "penalised"])
def test_the_key_decides_everything_and_the_devices_nothing(name):
    environment = Hypergrid(2, side=4) if name == "hypergrid" else TEXT
    policy = tabular(environment) if name == "hypergrid" else TRANSFORMER
    decoding = Decoding(penalty=TokenPenalty((1, 2, 3), 1.0, 4)) if name == "penalised" else Decoding()
    # Fresh parameters have logits of order one, whose rounding stays far below the tolerance.
    parameters = random_logits(environment) if name == "hypergrid" else FRESH(jax.random.key(5))
    prompts = environment.prompts(jnp.arange(16) % environment.num_prompts)

    def sample(key, prompts=prompts, parameters=parameters):
        return sample_groups(environment, policy, parameters, prompts, jax.random.key(key), 4, decoding)

    one, again, other = sample(0), sample(0), sample(1)
    jax.tree.map(np.testing.assert_array_equal, one, again)
    assert (one.tokens != other.tokens).any()

    mesh = make_mesh("data:8")
    with jax.set_mesh(mesh):
        sharded = sample(0, shard_prompts(prompts, mesh), replicate(parameters, mesh))
    np.testing.assert_array_equal(sharded.tokens, one.tokens)
    np.testing.assert_array_equal(sharded.token_mask, one.token_mask)
    np.testing.assert_allclose(sharded.behaviour_log_probs, one.behaviour_log_probs, atol=1e-6)
    # Each device samples the groups of its own prompts only.
    assert {shard.data.shape for shard in sharded.tokens.addressable_shards} == {(2, 4, environment.max_tokens)}


def test_prompts_that_do_not_divide_are_sampled_on_a_mesh_as_well():
    prompts, mesh = BANDIT.prompts(jnp.arange(2)), make_mesh("data:8")
    sample = functools.partial(sample_groups, BANDIT, tabular(BANDIT), random_logits(BANDIT))
    with jax.set_mesh(mesh):
        on_mesh = sample(prompts, jax.random.key(0), 4)
    np.testing.assert_array_equal(on_mesh.tokens, sample(prompts, jax.random.key(0), 4).tokens)
