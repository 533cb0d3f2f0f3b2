import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.dynamics.softmax.finite_groups import count_weights, mean_field
from ipsrl.dynamics.softmax.two_outcome_training import (
    LARGEST_GROUP,
    Cell,
    advantage_weighted_frequencies,
    first_passage,
    sample_count,
    train,
)
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives import make, names
from ipsrl.policies.tabular import Tabular
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

pytestmark = pytest.mark.eight_devices

REWARDS = (4.0, 1.0)
RULES = {"no baseline": "ips_reinforce", "group mean": "ips_dr_grpo", "group mean and std": "ips_grpo"}


def cell(text, group_size=8, step_size=0.1, log_ratio=0.0, rewards=REWARDS):
    return Cell(make(text), rewards, group_size, step_size, log_ratio)


def first_probability(log_ratio):
    return 1 / (1 + np.exp(-np.float64(log_ratio)))


@pytest.mark.parametrize("group_size", [1, LARGEST_GROUP])
@pytest.mark.parametrize("log_ratio", [-9.0, 0.3, 4.0])
def test_equally_spaced_numbers_are_drawn_in_binomial_shares(group_size, log_ratio):
    numbers = 2**16
    uniform = (jnp.arange(numbers) + 0.5) / numbers
    # The recursion is longer than the smaller groups need.
    count = sample_count(uniform, jnp.full(numbers, log_ratio), jnp.full(numbers, float(group_size)), LARGEST_GROUP)
    found = np.bincount(count, minlength=group_size + 1)
    expected = numbers * binom.pmf(np.arange(group_size + 1), group_size, first_probability(log_ratio))
    np.testing.assert_allclose(found, expected, atol=1.5)


def test_rare_outcomes_are_drawn_with_their_chance():
    seen = 1 - (1 - first_probability(-12.0)) ** 16
    uniform = jnp.float32([seen * (1 - 1e-5), seen * (1 + 1e-5), 1.0])
    assert sample_count(uniform, jnp.full(3, -12.0), jnp.full(3, 16.0), 16).tolist() == [1, 0, 0]
    assert sample_count(uniform, jnp.full(3, 12.0), jnp.full(3, 16.0), 16).tolist() == [15, 16, 16]
    # A policy that has lost an outcome in float32 does not find it again.
    certain = sample_count(jnp.float32([2.0**-33, 1.0]), jnp.full(2, 200.0), jnp.full(2, 16.0), 16)
    assert certain.tolist() == [16, 16]


def test_pushes_are_compiled_once(caplog):
    compilations = []
    for _ in range(2):
        with jax.log_compiles():
            advantage_weighted_frequencies(make("ips_reinforce(alpha=0.123)"), REWARDS, 4)
        compilations.append(caplog.text.count("Compiling"))
        caplog.clear()
    assert compilations[0] > 0
    assert compilations[1] == 0


def refusal(name):
    try:
        advantage_weighted_frequencies(make(name), REWARDS, 3)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "ips_grpo" else pytest.mark.slow) for name in names()],
)
def test_pushes_average_to_the_expected_update_or_are_refused(name):
    group_size = max(6, *(part.smallest_group for part in make(name).parts))
    if reason := refusal(name):
        assert "is not a table of counts" in reason or "needs" in reason
        assert name not in ("reinforce", "dr_grpo", "grpo", *RULES.values())
        return
    weighted_frequencies = advantage_weighted_frequencies(make(name), REWARDS, group_size)
    for log_ratio in (-0.7, 1.9):
        probs = first_probability(np.array([log_ratio, -log_ratio]))
        updates = weighted_frequencies - probs * weighted_frequencies.sum(axis=1, keepdims=True)
        mean = binom.pmf(np.arange(group_size + 1), group_size, probs[0]) @ updates
        expected = expected_update(make(name), jnp.array([log_ratio, 0.0]), jnp.array(REWARDS), group_size)
        np.testing.assert_allclose(mean, expected, atol=2e-5)


@pytest.mark.parametrize("rule", RULES)
def test_one_sampled_step_is_the_mean_field_on_average(rule):
    cases = [(alpha, group_size, u) for alpha, group_size in ((0.7, 4), (1.0, 13)) for u in (-1.5, 0.0, 2.0)]
    seeds, step_size = 4096, 0.5
    cells = [cell(f"{RULES[rule]}(alpha={alpha})", group_size, step_size, u) for alpha, group_size, u in cases]
    moved = train(cells, range(seeds), 1, 1).log_ratio[:, :, 0].astype(np.float64)
    for one, (alpha, group_size, u), after in zip(cells, cases, moved, strict=True):
        probs = first_probability(np.array([u, -u]))
        weighted_frequencies = advantage_weighted_frequencies(one.objective, REWARDS, group_size)
        steps = 2 * (probs[1] * weighted_frequencies[:, 0] - probs[0] * weighted_frequencies[:, 1])
        chances = binom.pmf(np.arange(group_size + 1), group_size, probs[0])
        deviation = np.sqrt(chances @ (steps - chances @ steps) ** 2)
        field = mean_field(probs, np.array(REWARDS), count_weights(group_size, alpha), rule)
        # Where all groups push alike, only rounding is left.
        error = 4 * deviation / np.sqrt(seeds) + 2e-6
        assert np.mean((after - u) / step_size) == pytest.approx(field[0] - field[1], abs=error)


def test_runs_have_the_distribution_of_the_training_stack():
    seeds, steps = 1024, 30
    fast = train([cell("ips_reinforce(alpha=0.5)", 4)], range(seeds), steps, steps).log_ratio[0, :, -1]
    settings = TrainSettings(steps, 1, 4, optimizer="sgd", learning_rate=0.1, max_gradient_norm=None)
    trainer = Trainer(Bandit(REWARDS), Tabular(1, 2), make("ips_reinforce(alpha=0.5)"), settings)
    slow = train_ensemble(trainer, jnp.arange(seeds), lambda parameters: parameters["logits"][0], steps)
    slow = np.asarray(slow[:, -1, 0] - slow[:, -1, 1])
    for moment in (1, 2, 3):
        first, second = fast.astype(np.float64) ** moment, slow.astype(np.float64) ** moment
        error = np.sqrt((first.var() + second.var()) / seeds)
        assert abs(first.mean() - second.mean()) < 4 * error
    assert fast.std() > 0.1


def test_eight_devices_train_as_one_does():
    assert jax.device_count() == 8
    cells = [cell("ips_reinforce"), cell("ips_grpo(alpha=0.5)", 4), cell("grpo", 4, log_ratio=1.0)]
    whole, divided = (train(cells, (3, 4, 7), 60, 20, mesh) for mesh in (None, make_mesh()))
    np.testing.assert_array_equal(whole.log_ratio, divided.log_ratio)
    np.testing.assert_array_equal(whole.second, divided.second)
    left = [first_passage(cells, (3, 4, 7), -0.5, 1.1, 2000, mesh) for mesh in (None, make_mesh())]
    np.testing.assert_array_equal(*left)


def test_a_run_does_not_depend_on_the_others():
    cells = [cell("ips_reinforce"), cell("grpo", 4)]
    runs = train(cells, (5, 9), 40, 20).log_ratio
    np.testing.assert_array_equal(train(cells[:1], (9,), 40, 20).log_ratio[0, 0], runs[0, 1])
    np.testing.assert_array_equal(train([cells[0], cell("grpo", 13)], (5, 9), 40, 20).log_ratio[0], runs[0])
    np.testing.assert_array_equal(train(cells, (5, 9), 40, 40).log_ratio[..., 0], runs[..., 1])
    assert len(np.unique(runs[..., 1])) == 4
    # Two cells of the same kind are independent, too.
    twins = train([cells[0], cells[0]], (5,), 40, 40).log_ratio
    assert twins[0, 0, 0] != twins[1, 0, 0]


def test_steps_far_below_the_rounding_of_a_log_ratio_add_up():
    # Each is a tenth of the last digit of u = 20; the weaker outcome is not met: u(t) = ln(exp(u) + 2 r t) nearly.
    steps = 100_000
    end = train([cell("reinforce", 2, 10.0, 20.0)], (0,), steps, steps).log_ratio[0, 0, 0]
    exact = np.log(np.exp(20.0) + 2 * 4.0 * 10.0 * steps)
    assert exact - 20 > 0.01
    assert end == pytest.approx(exact, abs=4e-6)


def test_means_over_an_interval_are_of_its_policies():
    each = train([cell("ips_grpo", 4)], (1, 2), 12, 1)
    np.testing.assert_allclose(each.second, first_probability(-each.log_ratio), rtol=1e-5)
    whole = train([cell("ips_grpo", 4)], (1, 2), 12, 6)
    np.testing.assert_allclose(whole.second[..., 1], each.second[..., 6:].mean(axis=-1), rtol=1e-6)


def test_first_passage_is_the_first_step_outside():
    cells = [cell("reinforce", 4, 0.5), cell("reinforce", 4, 0.5, rewards=(1.0, 1.0)), cell("ips_reinforce", 13)]
    low, high = (-9.0, -1.0, -9.0), (2.0, 1.0, 9.0)
    most = 300
    passage = first_passage(cells, range(6), low, high, most)
    curves = train(cells, range(6), most, 1).log_ratio
    outside = (curves <= np.array(low)[:, None, None]) | (curves >= np.array(high)[:, None, None])
    expected = np.where(outside.any(axis=-1), 1.0 + outside.argmax(axis=-1), np.inf)
    np.testing.assert_array_equal(passage, expected)
    assert np.isfinite(passage[:2]).all()
    assert np.isinf(passage[2]).all()
