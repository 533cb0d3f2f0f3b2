"""Many runs as one program, with logs (`train_vmapped`) and without (`train_ensemble`), are the runs of the loop."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.loop import TrainSettings, train, train_vmapped
from ipsrl.training.optimizer import at_rate, make_optimizer
from ipsrl.training.step import WHOLE_BATCH, Batching
from ipsrl.training.trainer import Trainer
from tests.tiers import slow_after
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER

# More prompts than a step takes, so that it matters which ones are chosen.
BANDIT, ON_BANDIT = Bandit(((1.0, 0.5, 0.0), (0.0, 1.0, 1.0), (0.2, 0.0, 1.0), (1.0, 0.0, 0.0))), Tabular(4, 3)
SETTINGS = TrainSettings(
    steps=6,
    prompts_per_step=2,
    group_size=8,
    temperature=0.8,
    learning_rate=0.05,
    batching=Batching(epochs=2),
    evaluate_every=2,
)
# The third has the seed of the first: only its rate makes it another run.
SEEDS, RATES = (3, 11, 3), (0.05, 0.05, 0.2)


def at(rate, **changes):
    return dataclasses.replace(SETTINGS, learning_rate=rate, **changes)


def largest(step, parameters):
    return Evaluation({"largest": float(parameters["logits"].max()), "of_step": step})


def open_folder(path, number):
    return RunFolder.open(path / str(number), {"run": number}, resume=True)


def together(path, settings, objective="grpo", seeds=SEEDS, environment=BANDIT, policy=ON_BANDIT):
    folders = [open_folder(path, number) for number in range(len(seeds))]
    try:
        return train_vmapped(environment, policy, objectives.make(objective), settings, seeds, folders, largest)
    finally:
        for folder in folders:
            folder.close()


def alone(path, number, settings, objective="grpo", environment=BANDIT, policy=ON_BANDIT, stop=None):
    """The logits of every second step; the user presses control-C at step `stop`."""
    seen = []

    def evaluate(step, parameters):
        if step == stop:
            raise KeyboardInterrupt
        seen.append(np.array(parameters["logits"]))
        return largest(step, parameters)

    with open_folder(path, number) as folder:
        objective = objectives.make(objective)
        train(environment, policy, objective, settings, SEEDS[number], folder, own_device_mesh(), evaluate=evaluate)
    return np.stack(seen)


def records(path, number):
    return metric_log.read(path / str(number) / "metrics.jsonl")


def logits(parameters):
    return parameters["logits"]


def ensemble(objective="grpo", seeds=SEEDS, environment=BANDIT, policy=ON_BANDIT, more=None, **changes):
    """The logits of every second step of each run."""
    trainer = Trainer(environment, policy, objectives.make(objective), dataclasses.replace(SETTINGS, **changes))
    return np.asarray(train_ensemble(trainer, jnp.asarray(seeds), logits, 2, **more or {}))


@pytest.mark.parametrize(
    ("objective", "environment", "policy", "filters"),
    slow_after(
        1,
        [
            # With a reference policy, a running mean, and both sources of refinements.
            ("ips_grpo(kl=0.1)", BANDIT, ON_BANDIT, {}),
            ("ips_grpo(probability=exact)", Hypergrid(2, side=4), Tabular(16, 3), {}),
            ("critique_grpo", BANDIT, ON_BANDIT, {"wrappers": (OffPolicyAnswers(answers=3),)}),
            ("critique_grpo", BANDIT, ON_BANDIT, {"wrappers": (OffPolicyAnswers(answers=3, actor="reference"),)}),
            ("remax", BANDIT, ON_BANDIT, {"wrappers": (GreedyAnswers(),)}),
        ],
    ),
    ids=["bandit", "grid", "best of three", "best of three of the reference", "greedy"],
)
def test_metrics_and_parameters_are_those_of_separate_runs(objective, environment, policy, filters, tmp_path):
    settings = [at(rate, **filters) for rate in RATES]
    ends = together(tmp_path / "together", settings, objective, environment=environment, policy=policy)
    rates = {"learning_rates": jnp.asarray(RATES)}
    without_logs = ensemble(objective, SEEDS, environment, policy, rates, **filters)
    for number, each in enumerate(settings):
        path = alone(tmp_path / "alone", number, each, objective, environment, policy)
        assert path.shape == without_logs[number].shape == (4, environment.num_observations, 3)
        assert np.abs(np.diff(path, axis=0)).max(axis=(1, 2)).min() > 1e-3
        np.testing.assert_allclose(without_logs[number], path, atol=1e-6)
        np.testing.assert_allclose(ends[number]["logits"], path[-1], atol=1e-6)
        ours, theirs = (records(tmp_path / kind, number) for kind in ("together", "alone"))
        assert [record.keys() for record in ours] == [record.keys() for record in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
    assert records(tmp_path / "together", 0)[1]["reward"] == records(tmp_path / "together", 2)[1]["reward"]
    assert np.abs(ends[0]["logits"] - ends[2]["logits"]).max() > 0.01


def test_a_run_does_not_depend_on_its_neighbours():
    first, second = (ensemble("ips_grpo", seeds) for seeds in ([3, 11], [11, 40]))
    np.testing.assert_array_equal(first[1], second[0])
    assert len({run.tobytes() for run in (*first, *second)}) == 3


@pytest.mark.parametrize(
    ("objective", "wrappers"),
    [("grpo", ()), pytest.param("critique_grpo", (OffPolicyAnswers(3),), marks=pytest.mark.slow)],
)
def test_each_run_can_have_rewards_of_its_own(objective, wrappers):
    tables = jnp.array([((0.0, 1.0, 0.5),) * 4, BANDIT.rewards])
    without_logs = ensemble(objective, [3, 3], wrappers=wrappers, more={"reward": RewardTable(tables)})
    np.testing.assert_allclose(without_logs[1], ensemble(objective, [3], wrappers=wrappers)[0], atol=1e-6)
    assert np.abs(without_logs[0] - without_logs[1]).max() > 1e-2


def test_runs_may_differ_in_where_they_start_and_how_fast_they_go():
    starts, rates = jax.random.normal(jax.random.key(0), (3, 4, 3)), jnp.asarray(RATES)
    more = {"learning_rates": rates, "initial_parameters": {"logits": starts}}
    together = ensemble("ips_grpo", more=more, batching=WHOLE_BATCH)
    np.testing.assert_array_equal(together[:, 0], starts)
    more = {"initial_parameters": {"logits": starts[:2]}}
    built = ensemble("ips_grpo", SEEDS[:2], more=more, batching=WHOLE_BATCH)
    np.testing.assert_allclose(together[:2], built, atol=1e-6)
    # Adam's first step is its rate in every coordinate that has a gradient.
    first = np.abs(together[:, 1] - together[:, 0]).max(axis=(1, 2))
    np.testing.assert_allclose(first, 2 * rates, rtol=0.2)


def test_records_can_be_any_tree_and_as_rare_as_the_steps():
    tree = Tree()
    policy = Tabular(tree.num_observations, tree.vocabulary_size)

    def record(parameters):
        return {"largest": parameters["logits"].max(), "logits": parameters["logits"]}

    settings = TrainSettings(4, 1, 8, learning_rate=0.02)
    recorded = train_ensemble(Trainer(tree, policy, objectives.make("grpo"), settings), jnp.arange(3), record, 4)
    assert recorded["largest"].shape == (3, 2)
    assert recorded["logits"].shape == (3, 2, tree.num_observations, tree.vocabulary_size)
    np.testing.assert_array_equal(recorded["largest"], recorded["logits"].max(axis=(2, 3)))
    np.testing.assert_array_equal(recorded["largest"][:, 0], 0.0)
    assert (recorded["largest"][:, 1] > 0.0).all()


def test_a_run_that_leaves_the_real_numbers_ends_alone(tmp_path):
    settings = [at(rate, optimizer="sgd") for rate in (0.05, 1e38, 0.2)]
    ends = together(tmp_path, settings)
    assert isinstance(ends[1], NonFiniteLossError)
    assert str(ends[1]) == "step 1 has parameter_norm inf; last good checkpoint: none"
    assert records(tmp_path, 1) == [{"step": 0, "evaluation/largest": 0.0, "evaluation/of_step": 0}]
    for number in (0, 2):
        assert [record["step"] for record in records(tmp_path, number)] == list(range(7))
        assert all(math.isfinite(value) for record in records(tmp_path, number) for value in record.values())
    # Where all have ended, nothing is computed any more.
    ends = together(tmp_path / "all", [at(1e38, optimizer="sgd", steps=10**9)] * 3)
    assert all(isinstance(end, NonFiniteLossError) for end in ends)


def test_what_is_there_of_a_run_is_made_again(tmp_path):
    """Nothing of an earlier single run stays, so that it begins anew when it is alone again."""
    settings = at(0.05, checkpoint_every=2)
    whole = alone(tmp_path / "whole", 0, settings)
    with pytest.raises(KeyboardInterrupt):
        alone(tmp_path / "both", 0, settings, stop=4)
    with open_folder(tmp_path / "both", 0) as folder:
        folder.write_summary({})
    assert list(folder.checkpoint_directory.iterdir())
    folder.metrics_path.write_text(folder.metrics_path.read_text()[:-7])
    together(tmp_path / "both", [settings], seeds=SEEDS[:1])
    assert [record["step"] for record in records(tmp_path / "both", 0)] == list(range(7))
    assert not (folder.path / "summary.json").exists()
    assert not folder.checkpoint_directory.exists()
    np.testing.assert_array_equal(alone(tmp_path / "both", 0, settings), whole)
    assert records(tmp_path / "both", 0) == records(tmp_path / "whole", 0)


ON_HOST = "are made on the host, by a verifier or a batch filter"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": [at(0.1), at(0.1), at(0.1, group_size=4)]}, "differ in learning_rate, but group_size is 8 and 4"),
        ({"settings": [at(0.05)], "seeds": [3, 3]}, "2 runs need as many seeds, settings and folders"),
        ({"environment": FIRST_TOKEN, "policy": TRANSFORMER}, ON_HOST),
        ({"settings": [at(0.1, wrappers=(DynamicSampling(),))] * 3}, "are made on the host"),
        ({"settings": [at(0.1, optimizer="adagrad")] * 3}, "known: adam, sgd"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_one_program_is_refused_before_anything_is_written(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        together(tmp_path, **{"settings": [at(rate) for rate in RATES]} | arguments)
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"environment": FIRST_TOKEN, "policy": TRANSFORMER}, ON_HOST),
        ({"objective": "critique_grpo"}, "needs off-policy answers"),
    ],
)
def test_what_cannot_be_one_program_is_refused_without_logs_as_well(arguments, message):
    with pytest.raises(ValueError, match=message):
        ensemble(**arguments)


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


def test_records_that_do_not_fit_are_refused_at_once():
    settings = dataclasses.replace(SETTINGS, steps=10**9)
    with pytest.raises(ValueError, match=r"the records of these runs take .*, but there are .*: record less often"):
        train_ensemble(Trainer(BANDIT, ON_BANDIT, objectives.make("grpo"), settings), jnp.arange(1000), dict)
