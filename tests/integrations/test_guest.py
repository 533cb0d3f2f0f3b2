"""An objective in another trainer gives the weights, losses and gradients that it gives here."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.integrations.guest import FIRST_OUTCOMES, FIRST_PROMPTS, GuestObjective
from ipsrl.integrations.loss_of_rows import couples_answers, couples_groups, reads_entropy
from ipsrl.integrations.rows import Rows, groups_of, rollouts_of
from ipsrl.structures import PolicyScores, Sizes
from ipsrl.training.behaviour import fields_read
from tests.integrations.alike import one_of_each_kind
from tests.objectives.groups import random_rollouts

PROVIDED = frozenset({"reference_log_probs", "log_backward"})
PROMPTS, GROUP, LENGTH = 4, 4, 5


def guest(objective, group_size=GROUP):
    return GuestObjective(objective, group_size, "a trainer", PROVIDED, right_above=0.0)


def undrawn():
    """One row of each kind that a trainer can compute without drawing anything."""
    found = [(name, objectives.make(name)) for name in objectives.names()]
    names = [name for name, made in found if made.num_steps == 1 and made.needs <= PROVIDED]
    return one_of_each_kind(names, lambda objective: fields_read(objective, GROUP))


UNDRAWN = undrawn()


@functools.cache
def batch(seed=0):
    """Arrays of NumPy, parts of which are taken without compiling anything."""
    rollouts, scores = random_rollouts(seed, PROMPTS, GROUP, LENGTH, binary=False)
    found = Rows.of(rollouts), scores.log_probs.reshape(-1, LENGTH), scores.entropy.reshape(-1, LENGTH)
    return jax.device_get(found)


@functools.partial(jax.jit, static_argnames="objective")
def ours(objective, rows, log_probs, entropy, state, parameters):
    """Loss and gradients by the scores, of whole groups that lie one after the other."""
    groups = np.arange(PROMPTS * GROUP).reshape(PROMPTS, GROUP)
    rollouts = rollouts_of(rows, groups, jax.random.key(0))
    weights, _, _ = objective.weigh(rollouts, state)

    def loss(log_probs, entropy):
        output = objective.loss(PolicyScores(log_probs[groups], entropy[groups]), rollouts, weights, parameters)
        return output.loss_sum / output.count

    return jax.value_and_grad(loss, (0, 1))(log_probs, entropy)


@pytest.mark.parametrize("name", UNDRAWN)
def test_shuffled_and_cut_batches_have_the_same_gradient(name):
    objective, visitor = objectives.make(name), guest(name)
    rows, log_probs, entropy = batch()
    sizes = Sizes(PROMPTS)
    expected = ours(objective, rows, log_probs, entropy, objective.init(sizes), objective.init_parameters(sizes))
    order = np.random.default_rng(0).permutation(PROMPTS * GROUP)
    names = np.array([f"prompt {index}" for index in rows.prompt_index.tolist()])
    shuffled = jax.tree.map(lambda values: values[order], rows)
    shuffled = dataclasses.replace(shuffled, prompt_index=visitor.prompt_index(names[order].tolist()))
    weights, _ = visitor.weigh(shuffled)
    count = visitor.count(shuffled.token_mask)
    everything = np.arange(PROMPTS * GROUP)
    parts = groups_of(names[order].tolist(), GROUP) if couples_answers(visitor.objective) else everything.reshape(4, -1)
    parts = [everything] if couples_groups(visitor.objective) else parts
    total, gradients = 0.0, [np.zeros(log_probs.shape, np.float32) for _ in range(2)]
    for part in parts:
        some = [jax.tree.map(lambda values, part=part: values[part], tree) for tree in (shuffled, weights)]
        value, found, _ = visitor.loss(log_probs[order][part], entropy[order][part], *some, count)
        total += value
        for gradient, of_part in zip(gradients, found, strict=True):
            gradient[order[part]] = of_part
    np.testing.assert_allclose(total, expected[0], rtol=1e-5, atol=1e-6)
    for gradient, wanted in zip(gradients, expected[1], strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-6 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize(
    ("objective", "reads"),
    [("grpo", False), ("grpo(entropy=0.01)", True), ("aer", True), ("forking_tokens", False), ("bapo", False)],
)
def test_whether_a_loss_reads_entropies_is_found(objective, reads):
    """Entropies of the policy that sampled, which weights may read, do not count."""
    assert reads_entropy(guest(objective).objective) is reads


@pytest.mark.parametrize("name", ["ips_grpo(probability=exact)", "aer", "trajectory_balance"])
def test_state_goes_on_after_saving(tmp_path, name):
    one = guest(name)

    def learn(visitor, seed):
        rows, log_probs, entropy = batch(seed)
        rows = dataclasses.replace(rows, prompt_index=visitor.prompt_index(rows.prompt_index.tolist()))
        weights, _ = visitor.weigh(rows)
        value, _, _ = visitor.loss(log_probs, entropy, rows, weights, visitor.count(rows.token_mask))
        visitor.step()
        return np.asarray(weights.advantages), value

    learn(one, 0)
    one.save(tmp_path / "state.safetensors")
    other = guest(name)
    other.load(tmp_path / "state.safetensors")
    carried, fresh = (jax.tree.leaves(visitor._kept["state"]) for visitor in (other, guest(name)))
    assert name == "trajectory_balance" or not all(map(np.array_equal, carried, fresh))
    for found, wanted in zip(learn(other, 1), learn(one, 1), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_state_of_another_objective_is_refused(tmp_path):
    guest("grpo").save(tmp_path / "state")
    with pytest.raises(ValueError, match=r"is the state of .* resume with the same objective"):
        guest("dr_grpo").load(tmp_path / "state")
    (tmp_path / "damaged").write_bytes((tmp_path / "state").read_bytes()[:-1])
    for name in ("none", "damaged"):
        with pytest.raises(ValueError, match=f"cannot be read from .*{name}"):
            guest("grpo").load(tmp_path / name)


def test_an_evaluation_changes_nothing():
    visitor = guest("aer")
    rows, _, _ = batch()
    before = visitor.saved()
    weights, _ = visitor.weigh(rows, carry=False)
    assert visitor.saved() == before
    again, _ = visitor.weigh(rows)
    np.testing.assert_array_equal(weights.advantages, again.advantages)
    assert visitor.saved() != before


def test_there_is_room_for_more_prompts_than_at_first():
    visitor = guest("trajectory_balance")
    visitor._kept["parameters"]["log_partition"] += 1.0
    visitor.prompt_index(range(FIRST_PROMPTS + 1))
    after = visitor._kept["parameters"]["log_partition"]
    assert after.shape == (2 * FIRST_PROMPTS,)
    assert after[:FIRST_PROMPTS].tolist() == [1.0] * FIRST_PROMPTS
    assert after[FIRST_PROMPTS:].tolist() == [0.0] * FIRST_PROMPTS
    assert visitor.prompt_index([5]).tolist() == [5]


COUNTING = ["ips_grpo(probability=ema)", "outcome_exploration(bonus=ucb)"]


@pytest.mark.parametrize("name", COUNTING)
def test_outcomes_have_numbers_for_all_batches(tmp_path, name):
    """Batches of prompts in any order, with more outcomes than there is room for at first, and a pause."""
    visitor, random = guest(name), np.random.default_rng(0)
    most = FIRST_OUTCOMES + 4
    objective, sizes = visitor.objective, Sizes(PROMPTS, most)
    state = objective.init(sizes)
    for step in range(12):
        rows, _, _ = batch(step)
        groups = np.arange(PROMPTS * GROUP).reshape(PROMPTS, GROUP)
        # Early batches have few outcomes.
        outcomes = random.integers(-1, min(most, 2 + 2 * step), PROMPTS * GROUP)
        prompts = random.permutation(PROMPTS)[:, None].repeat(GROUP, axis=1).ravel()
        rows = dataclasses.replace(rows, prompt_index=jnp.asarray(prompts), outcome_id=jnp.asarray(outcomes))
        wanted, state, _ = objective.weigh(rollouts_of(rows, groups, jax.random.key(0)), state)
        names = [f"prompt {prompt}" for prompt in prompts], [None if one < 0 else f"<{one}>" for one in outcomes]
        rows = dataclasses.replace(
            rows, prompt_index=visitor.prompt_index(names[0]), outcome_id=visitor.outcome_id(*names)
        )
        found, _ = visitor.weigh(rows)
        np.testing.assert_allclose(found.advantages, wanted.advantages.reshape(found.advantages.shape), rtol=1e-6)
        if step == 6:
            visitor.save(tmp_path / "state")
            visitor = guest(name)
            visitor.load(tmp_path / "state")
    assert max(map(len, visitor._outcomes)) > FIRST_OUTCOMES


def test_what_an_objective_learns_moves_as_in_a_train_step():
    """Two parts of a batch give the step of the whole: log Z moves by its learning rate, towards a smaller loss."""
    visitor = guest("trajectory_balance(learning_rate=0.5)")
    rows, log_probs, entropy = batch()
    rows = dataclasses.replace(rows, prompt_index=visitor.prompt_index(rows.prompt_index.tolist()))
    weights, _ = visitor.weigh(rows)
    for part in np.split(np.arange(PROMPTS * GROUP), 2):
        some = [jax.tree.map(lambda values, part=part: values[part], tree) for tree in (rows, weights)]
        visitor.loss(log_probs[part], entropy[part], *some, visitor.count(rows.token_mask))
    visitor.step()
    moved = visitor._kept["parameters"]["log_partition"]
    np.testing.assert_allclose(np.abs(moved[:PROMPTS]), 0.5, rtol=1e-4)
    assert not moved[PROMPTS:].any()


@pytest.mark.parametrize(
    ("objective", "group_size", "message"),
    [
        ("ar_lopti", 4, "takes 2 optimiser steps for each mini-batch, and a trainer takes one"),
        ("lp_reg", 4, "needs top_log_probs, which a trainer does not give; it gives log_backward, reference_log_probs"),
        ("grpo(correction=truncated)", 4, "probabilities a trainer does not give: leave correction out, and set that"),
        ("grpo", 1, "a group needs 2 or more, not 1"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_a_sentence(objective, group_size, message):
    with pytest.raises(ValueError, match=message):
        guest(objective, group_size)


def test_a_reward_that_is_not_finite_is_refused():
    rows, _, _ = batch()
    with pytest.raises(ValueError, match="the reward of row 3 is nan"):
        guest("grpo").weigh(dataclasses.replace(rows, rewards=jnp.asarray(rows.rewards).at[3].set(jnp.nan)))
