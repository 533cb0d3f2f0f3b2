import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.collectives import collectives
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.structures import Rollouts
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import WHOLE_BATCH, Batching, group_metrics
from tests.objectives.groups import rollouts_of
from tests.sampled_groups import check_run
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER
from tests.training.one_update import GROUP_SIZE, TABLE, TREE, assert_close, moved, sample, start, step, steps_by_hand

pytestmark = pytest.mark.eight_devices

PROMPTS = 16


def test_the_expected_return_update_is_the_one_derived_by_hand():
    """logits += learning rate * mean over samples of r (one-hot(a) - p) / temperature."""
    temperature = 0.5
    bandit = Bandit((2.0, 1.0, 0.0))
    policy = Tabular(1, 3, initial_logits=(0.3, -0.2, 0.5))
    logits = policy.init(jax.random.key(0))["logits"][0]
    sampled = sample(bandit, policy, {"logits": logits[None]}, temperature=temperature)
    objective = objectives.make("reinforce")
    state, metrics = step(objective, sampled, {"logits": logits[None]}, policy=policy, temperature=temperature)

    probs = np.asarray(jax.nn.softmax(logits / temperature), np.float64)
    arms = np.asarray(sampled[0].tokens).ravel()
    gradient = np.mean([bandit.rewards[arm] * (np.eye(3)[arm] - probs) for arm in arms], axis=0) / temperature
    np.testing.assert_allclose(state.parameters["logits"][0], logits + 0.5 * gradient, atol=1e-6)
    np.testing.assert_allclose(metrics["gradient_norm"], np.linalg.norm(gradient), rtol=1e-5)
    np.testing.assert_allclose(metrics["token_entropy"], -np.sum(probs * np.log(probs)), rtol=1e-5)
    np.testing.assert_allclose(metrics["parameter_norm"], np.linalg.norm(state.parameters["logits"]), rtol=1e-6)
    assert state.step == 1


def test_ratios_leave_one_only_after_the_first_optimiser_step():
    objective, sampled = objectives.make("grpo"), sample()
    _, once = step(objective, sampled)
    assert once["clip_fraction"] == 0.0
    assert once["importance_ratio"] == pytest.approx(1.0, abs=1e-6)
    fast = make_optimizer("sgd", learning_rate=5.0, max_gradient_norm=None)
    _, often = step(objective, sampled, batching=Batching(epochs=4), optimizer=fast)
    assert often["clip_fraction"] > 0.05
    assert abs(often["importance_ratio"] - 1.0) > 1e-3
    assert once["behaviour_kl"] < 1e-10
    assert often["behaviour_kl"] > 1e-3


def test_the_divergence_from_the_behaviour_policy_is_a_mean_over_its_samples():
    trajectories, outcomes = sample()
    mask, log_probs = trajectories.token_mask, trajectories.behaviour_log_probs
    shift = jax.random.normal(jax.random.key(0), log_probs.shape)
    shifted = dataclasses.replace(trajectories, behaviour_log_probs=jnp.where(mask, log_probs - shift, 7.0))
    _, metrics = step(objectives.make("grpo"), (shifted, outcomes))
    expected = np.asarray(jnp.exp(shift) - 1 - shift)[np.asarray(mask)].mean()
    assert metrics["behaviour_kl"] == pytest.approx(expected, rel=1e-5)


def test_a_disagreement_of_sampler_and_scorer_is_measured():
    objective, (trajectories, outcomes), batching = objectives.make("grpo"), sample(), Batching(2, 2, 2)
    _, metrics = step(objective, (trajectories, outcomes), batching=batching)
    assert metrics["sampler_scorer_difference"] < 1e-5
    # Prompt 4 is in the first mini-batch, in its first or second micro-batch; what lies behind the mask does not count.
    behaviour = trajectories.behaviour_log_probs.at[4, 1, 0].add(-0.25)
    behaviour = jnp.where(trajectories.token_mask, behaviour, 7.0)
    wrong = dataclasses.replace(trajectories, behaviour_log_probs=behaviour)
    _, metrics = step(objective, (wrong, outcomes), batching=batching)
    assert metrics["sampler_scorer_difference"] == pytest.approx(0.25, abs=1e-5)


def sampled_elsewhere():
    """Groups of a policy with other parameters than those at the start."""
    return sample(parameters=moved(start(), 9, 0.2))


@pytest.mark.parametrize(
    "text",
    [
        "grpo(correction=truncated(1.1))",
        "bapo(correction=masked(0.8, 1.2, geometric))",
        "grpo(correction=sequence_mask(0.02))",
    ],
)
def test_a_correction_compares_the_sampler_with_the_policy_before_the_first_step(text):
    """All optimiser steps agree with the same steps by hand."""
    objective, batching, sampled = objectives.make(text), Batching(2, 2, 2), sampled_elsewhere()
    rollouts = Rollouts.of(*sampled, proximal_log_probs=TABLE.score(start(), sampled[0], 1.0).log_probs)
    parameters, found = steps_by_hand(objective, batching, sampled[0], rollouts)
    after, metrics = step(objective, sampled, batching=batching)
    assert_close(after.parameters, parameters)
    tokens, of_all = np.sum([of_step["correction_fraction"] for of_step in found], axis=0)
    assert metrics["correction_fraction"] == pytest.approx(tokens / of_all)
    assert 0.01 < metrics["correction_fraction"] < 0.99
    assert metrics["sampler_scorer_difference"] > 0.1
    without, _ = step(dataclasses.replace(objective, correction=None), sampled, batching=batching)
    assert np.abs(after.parameters["logits"] - without.parameters["logits"]).max() > 1e-3


def test_values_count_from_the_policy_before_the_first_step():
    """ROVER's, at all optimiser steps on a batch, whoever sampled it."""
    objective, batching, sampled = objectives.make("rover"), Batching(2, 2, 2), sampled_elsewhere()
    at_first = TABLE.score(start(), sampled[0], 1.0)
    fields = {"proximal_log_probs": at_first.log_probs, "proximal_mean_log_probs": at_first.mean_log_probs}
    after, _ = step(objective, sampled, batching=batching)
    assert_close(after.parameters, steps_by_hand(objective, batching, sampled[0], Rollouts.of(*sampled, **fields))[0])
    # The mean over all tokens makes a difference.
    fields["proximal_mean_log_probs"] = fields["proximal_mean_log_probs"] + 0.1
    others, _ = steps_by_hand(objective, batching, sampled[0], Rollouts.of(*sampled, **fields))
    assert np.abs(after.parameters["logits"] - others["logits"]).max() > 1e-3


def communication(*texts):
    """The collectives of a program that weighs one batch by all these objectives, and computes once what they share."""
    mesh = make_mesh("data:8")
    rollouts, _ = synthetic_rollouts(0, PROMPTS, GROUP_SIZE, length=7)
    weighed = [objectives.make(text) for text in texts]
    states = replicate([objective.init(synthetic_sizes(PROMPTS)) for objective in weighed], mesh)

    def weigh(rollouts, states):
        return [objective.weigh(rollouts, state) for objective, state in zip(weighed, states, strict=True)]

    compiled = jax.jit(weigh).lower(shard_prompts(rollouts, mesh), states).compile()
    sent = {(one.kind, shape) for one in collectives(compiled.as_text()) for shape in one.shapes}
    # The share of degenerate groups is a sum over all groups, and so is the scale of a whole batch.
    assert ("all-reduce", ()) in sent
    return sent - {("all-reduce", ()), ("all-reduce", (1,))}


def keeps_prompts(name):
    state = jax.eval_shape(lambda: objectives.make(name).init(synthetic_sizes(PROMPTS)))
    return any(leaf.shape[:1] == (PROMPTS,) for leaf in jax.tree.leaves(state))


def test_the_statistics_of_groups_need_no_communication():
    names = [name for name in objectives.names() if not keeps_prompts(name)]
    if communication(*names):
        assert {name: sent for name in names if (sent := communication(name))} == {}


@pytest.mark.parametrize(
    "text", ["ips_grpo(probability=exact)", *(name for name in objectives.names() if keeps_prompts(name))]
)
def test_a_table_of_prompts_costs_some_numbers_for_each_group(text):
    """It is shared by all devices."""
    assert all(GROUP_SIZE not in shape and math.prod(shape) <= 2 * PROMPTS for _, shape in communication(text))


def test_the_divergence_is_taken_to_the_reference():
    objective, sampled = objectives.make("grpo(kl=0.5)"), sample()
    parameters = start()
    reference = moved(parameters, 9, 0.4)
    same, same_metrics = step(objective, sampled, reference=parameters)
    away, away_metrics = step(objective, sampled, reference=reference)
    without, without_metrics = step(objectives.make("grpo"), sampled)
    assert same_metrics["reference_kl"] == pytest.approx(0.0, abs=1e-6)
    assert_close(same.parameters, without.parameters, 1e-5)

    mask = np.asarray(sampled[0].token_mask)
    difference = np.asarray(
        TABLE.score(parameters, sampled[0], 1.0).log_probs - TABLE.score(reference, sampled[0], 1.0).log_probs
    )
    divergence = np.where(mask, np.exp(-difference) + difference - 1, 0.0)
    assert away_metrics["reference_kl"] == pytest.approx(divergence.sum() / mask.sum(), rel=1e-4)
    cost = 0.5 * (divergence.sum(axis=-1) / mask.sum(axis=-1)).mean()
    assert away_metrics["loss"] - without_metrics["loss"] == pytest.approx(cost, rel=1e-4)
    assert np.abs(away.parameters["logits"] - without.parameters["logits"]).max() > 1e-3


@pytest.mark.slow
def test_hidden_states_are_those_of_the_reference():
    """One update by hand, in micro-batches."""
    objective = objectives.make("rep_exp(beta=3.0, standardise=False)")
    parameters, elsewhere = start(TRANSFORMER, scale=0.1), start(TRANSFORMER, scale=0.3)
    sampled = sample(FIRST_TOKEN, TRANSFORMER, parameters)

    def after(reference):
        rollouts = Rollouts.of(*sampled, answer_features=TRANSFORMER.answer_features(reference, sampled[0]))
        return steps_by_hand(objective, WHOLE_BATCH, sampled[0], rollouts, TRANSFORMER, parameters)[0]

    expected, other = after(elsewhere), after(parameters)
    found, _ = step(objective, sampled, parameters, elsewhere, Batching(micro_batches=2), policy=TRANSFORMER)
    assert_close(found.parameters, expected, 1e-5)
    assert max(jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(a - b).max(), expected, other))) > 1e-3
    settings = TrainSettings(3, 8, GROUP_SIZE)
    check_run(FIRST_TOKEN, TRANSFORMER, objective, settings)
    with pytest.raises(ValueError, match="answer_features, the hidden states of a transformer or a state-space mod"):
        check_run(TREE, TABLE, objective, settings)


def means(rollouts):
    return {name: float(total / count) for name, (total, count) in group_metrics(rollouts).items()}


def test_metrics_of_groups_by_hand():
    lengths = np.array([[1, 2, 3, 3], [1, 1, 1, 2]])
    rollouts = rollouts_of(
        np.zeros((2, 4, 3)),
        np.arange(3) < lengths[..., None],
        rewards=[[1.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]],
        # Mistakes (5, and everything in the second group) are not outcomes that were kept.
        outcome_id=[[3, 3, 5, 4], [1, 2, -1, -1]],
        truncated=[[False] * 4, [True, False, False, False]],
    )
    assert means(rollouts) == pytest.approx(
        {
            "reward": 4 / 8,
            "unparsed": 2 / 8,
            "truncated": 1 / 8,
            "length": 14 / 8,
            "group_distinct_outcomes": (2 + 0) / 2,
            "group_effective_outcomes": (3 / 2 ** (2 / 3) + 0) / 2,
            "group_largest_outcome_share": (2 / 3 + 0) / 2,
        }
    )
    assert means(dataclasses.replace(rollouts, right_above=1.0))["group_distinct_outcomes"] == (1 + 0) / 2
    # Off-policy places without an answer are no samples: two answers, one that was added, an empty place.
    mask = [[[True, True], [True, False], [True, True], [False, False]]]
    fields = {"outcome_id": [[3, -1, 4, -1]], "off_policy": [[False, False, True, True]]}
    added = means(rollouts_of(np.zeros((1, 4, 2)), mask, rewards=[[1.0, 0.0, 0.5, 0.0]], **fields))
    found = [added[name] for name in ("reward", "unparsed", "length", "group_distinct_outcomes")]
    assert found == pytest.approx([0.5, 1 / 3, 5 / 3, 2])


@pytest.mark.parametrize("batching", [Batching(mini_batches=3), Batching(1, 4, 4)])
def test_prompts_that_cannot_be_split_are_refused(batching):
    with pytest.raises(ValueError, match=r"^8 prompts cannot be split into .*: choose numbers that divide"):
        batching.check(8)
    Batching(mini_batches=2, micro_batches=4).check(8)


def test_prompts_are_drawn_without_replacement_and_equally_often():
    bandit = Bandit(((0.0, 1.0),) * 5)

    def chosen(step, count, seed=0):
        return np.asarray(choose_prompts(bandit, seed, step, count).index).tolist()

    assert sorted(chosen(0, 5)) == [0, 1, 2, 3, 4]
    assert len(set(chosen(1, 3))) == 3
    assert sorted(chosen(0, 10)) == sorted([0, 1, 2, 3, 4] * 2)
    assert len({tuple(chosen(number, 5)) for number in range(6)}) > 3
    assert chosen(2, 5) == chosen(2, 5)
    assert any(chosen(number, 5) != chosen(number, 5, seed=1) for number in range(3))
