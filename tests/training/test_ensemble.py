"""Many seeds in one program are the same runs as one after the other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from first_token import FIRST_TOKEN, TRANSFORMER
from jax.sharding import AxisType
from tiers import slow_after

from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.environments.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_folder import RunFolder
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.loop import TrainSettings, train
from ipsrl.training.optimizer import at_rate, make_optimizer
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

GRID, ON_GRID = Hypergrid(2, side=4), Tabular(16, 3)
# More prompts than a step takes, so that it matters which ones are chosen.
BANDIT, ON_BANDIT = Bandit(((1.0, 0.5, 0.0), (0.0, 1.0, 1.0), (0.2, 0.0, 1.0), (1.0, 0.0, 0.0))), Tabular(4, 3)
STEPS, PROMPTS, GROUP_SIZE = 6, 2, 8
SETTINGS = TrainSettings(STEPS, PROMPTS, GROUP_SIZE, learning_rate=0.02)


def logits(parameters):
    return parameters["logits"]


def ensemble(text, seeds, environment=BANDIT, policy=ON_BANDIT, more=None, **changes):
    trainer = Trainer(environment, policy, objectives.make(text), dataclasses.replace(SETTINGS, **changes))
    return np.asarray(train_ensemble(trainer, jnp.asarray(seeds), logits, 2, **more or {}))


@pytest.mark.parametrize(
    ("text", "environment", "policy", "off_policy"),
    slow_after(
        1,
        [
            ("ips_grpo", BANDIT, ON_BANDIT, None),
            ("ips_grpo(probability=exact)", GRID, ON_GRID, None),
            ("critique_grpo", BANDIT, ON_BANDIT, OffPolicyAnswers(answers=3)),
            ("critique_grpo", BANDIT, ON_BANDIT, OffPolicyAnswers(answers=3, source="reference")),
        ],
    ),
    ids=["bandit", "grid", "best of three", "best of three of the reference"],
)
def test_a_seed_of_the_ensemble_is_the_loop_with_that_seed(text, environment, policy, off_policy, tmp_path):
    batching = Batching(epochs=2)
    recorded = ensemble(text, [3, 11], environment, policy, batching=batching, temperature=0.8, off_policy=off_policy)
    assert recorded.shape == (2, STEPS // 2 + 1, environment.num_observations, 3)

    settings = TrainSettings(
        STEPS, PROMPTS, GROUP_SIZE, temperature=0.8, learning_rate=0.02, batching=batching, evaluate_every=2,
        off_policy=off_policy,
    )  # fmt: skip
    mesh = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
    for number, seed in enumerate([3, 11]):
        seen = {}

        def evaluate(step, parameters, seen=seen):
            seen[step] = np.array(parameters["logits"])
            return Evaluation({})

        with RunFolder.open(tmp_path / str(seed), {"seed": seed}) as folder:
            train(environment, policy, objectives.make(text), settings, seed, folder, mesh, evaluate=evaluate)
        assert list(seen) == [0, 2, 4, 6]
        np.testing.assert_allclose(recorded[number], np.stack(list(seen.values())), atol=1e-6)
        assert np.abs(np.diff(recorded[number], axis=0)).max(axis=(1, 2)).min() > 1e-3


def test_a_run_does_not_depend_on_its_neighbours():
    batching = Batching(epochs=2)
    first, second = (ensemble("ips_grpo", seeds, batching=batching, temperature=0.8) for seeds in ([3, 11], [11, 40]))
    np.testing.assert_array_equal(first[1], second[0])
    assert len({run.tobytes() for run in (*first, *second)}) == 3


@pytest.mark.parametrize(
    ("text", "off_policy"), [("grpo", None), pytest.param("critique_grpo", OffPolicyAnswers(3), marks=pytest.mark.slow)]
)
def test_each_run_can_have_rewards_of_its_own(text, off_policy):
    tables = jnp.array([((0.0, 1.0, 0.5),) * 4, BANDIT.rewards])
    together = ensemble(text, [3, 3], off_policy=off_policy, more={"reward": RewardTable(tables)})
    np.testing.assert_allclose(together[1], ensemble(text, [3], off_policy=off_policy)[0], atol=1e-6)
    assert np.abs(together[0] - together[1]).max() > 1e-2


def test_records_can_be_any_tree_and_as_rare_as_the_steps():
    tree = Tree()
    policy = Tabular(tree.num_observations, tree.vocabulary_size)

    def record(parameters):
        return {"largest": parameters["logits"].max(), "logits": parameters["logits"]}

    settings = TrainSettings(4, 1, GROUP_SIZE, learning_rate=0.02)
    recorded = train_ensemble(Trainer(tree, policy, objectives.make("grpo"), settings), jnp.arange(3), record, 4)
    assert recorded["largest"].shape == (3, 2)
    assert recorded["logits"].shape == (3, 2, tree.num_observations, tree.vocabulary_size)
    np.testing.assert_array_equal(recorded["largest"], recorded["logits"].max(axis=(2, 3)))
    np.testing.assert_array_equal(recorded["largest"][:, 0], 0.0)
    assert (recorded["largest"][:, 1] > 0.0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"environment": FIRST_TOKEN, "policy": TRANSFORMER}, "are made on the host, by a verifier or a batch filter"),
        ({"steps": 5}, "steps is 5, it must be a multiple of record_every, 2"),
        ({"text": "critique_grpo"}, "needs off-policy answers"),
        ({"batching": Batching(mini_batches=4)}, "2 prompts cannot be split into 4 mini-batches"),
    ],
)
def test_what_cannot_be_one_program_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ensemble(**{"text": "grpo", "seeds": [0]} | arguments)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_rate_that_a_program_is_given_makes_the_steps_of_that_rate_bit_by_bit(name):
    gradient = {"logits": jax.random.normal(jax.random.key(0), (4, 3))}
    given, built = at_rate(make_optimizer(name, 1.0, 0.5), jnp.float32(0.3)), make_optimizer(name, 0.3, 0.5)

    def three_steps(rule):
        state, steps = rule.init(gradient), []
        update = jax.jit(rule.update)
        for _ in range(3):
            step, state = update(gradient, state)
            steps.append(step["logits"])
        return steps

    np.testing.assert_array_equal(three_steps(given), three_steps(built))


def test_runs_may_differ_in_where_they_start_and_how_fast_they_go():
    starts = jax.random.normal(jax.random.key(0), (3, 4, 3))
    rates = jnp.asarray([0.02, 0.02, 0.1])
    more = {"learning_rates": rates, "initial_parameters": {"logits": starts}}
    together = ensemble("ips_grpo", [3, 11, 3], more=more)
    np.testing.assert_array_equal(together[:, 0], starts)
    built = ensemble("ips_grpo", [3, 11], more={"initial_parameters": {"logits": starts[:2]}})
    np.testing.assert_allclose(together[:2], built, atol=1e-6)
    # Adam's first step is its rate in every coordinate that has a gradient.
    first = np.abs(together[:, 1] - together[:, 0]).max(axis=(1, 2))
    np.testing.assert_allclose(first, 2 * rates, rtol=0.2)
