import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers, Refine, spend_samples, with_best_answer
from ipsrl.structures import Rollouts
from ipsrl.training.settings import TrainSettings
from tests.sampled_groups import ask, collect, sample_and_verify
from tests.tiers import slow_after
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER

TREE = Tree()
POLICY = Tabular(TREE.num_observations, TREE.vocabulary_size)
SCORE = jax.jit(POLICY.score)
P, G = 3, 4
SETTINGS = TrainSettings(steps=1, prompts_per_step=P, group_size=G, wrappers=(OffPolicyAnswers(5),))


def parameters(seed, policy=POLICY):
    # A transformer with large parameters says the same whatever it is asked.
    rng, scale = np.random.default_rng(seed), 1.0 if policy is POLICY else 0.1
    start = jax.jit(policy.init)(jax.random.key(0))
    return jax.tree.map(lambda leaf: np.asarray(leaf + np.float32(scale * rng.normal(size=leaf.shape))), start)


def fields(groups, prompts=False):
    """Leaves of a batch by name, without what the rule adds to it."""
    trajectories = dataclasses.replace(
        groups[0], off_policy=None, final_state=None, prompts=groups[0].prompts if prompts else None
    )
    paths = jax.tree_util.tree_leaves_with_path((trajectories, groups[1]))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}


def test_all_objectives_have_the_same_number_of_samples():
    assert spend_samples(objectives.make("grpo"), 16) == (16, None)
    critique = objectives.make("critique_grpo")
    assert spend_samples(critique, 16) == (8, OffPolicyAnswers(answers=8))
    assert spend_samples(critique, 5) == (3, OffPolicyAnswers(answers=2))
    with pytest.raises(ValueError, match="refinements is 0"):
        spend_samples(critique, 1)


def test_the_first_of_the_best_answers_takes_the_first_place():
    prompts = choose_prompts(TREE, 0, 0, P)
    groups = collect(TREE, POLICY, parameters(1), prompts, 0, 0, G, 0.7, 2)
    trajectories, outcomes = sample_and_verify(TREE, POLICY, parameters(2), prompts, jax.random.key(3), 5, 0.7, 2)
    # Ties, a best answer at the end, and only wrong ones.
    rewards = jnp.array([[0.0, 2.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 3.0], [-1.0, -1.0, -1.0, -1.0, -1.0]])
    refined = trajectories, dataclasses.replace(outcomes, rewards=rewards)
    merged = with_best_answer(POLICY, parameters(1), *groups, *refined, 0.7)

    old, new, now = fields(groups), fields(refined), fields(merged)
    assert old.keys() == new.keys() == now.keys()
    assert len(now) > 12
    rescored = {".behaviour_log_probs", ".behaviour_entropy", ".top_log_probs"}
    for name, leaf in now.items():
        np.testing.assert_array_equal(leaf[:, 1:], old[name][:, 1:], err_msg=name)
        if not any(name.endswith(ending) for ending in rescored):
            np.testing.assert_array_equal(leaf[:, 0], new[name][[0, 1, 2], [1, 4, 0]], err_msg=name)
    np.testing.assert_array_equal(merged[0].off_policy, [[True, False, False, False]] * P)
    np.testing.assert_array_equal(Rollouts.of(*merged).off_policy, merged[0].off_policy)

    # Drawn by one policy, and scored by the other: the one whose updates look at these numbers.
    scores = SCORE(parameters(1), merged[0], 0.7)
    np.testing.assert_allclose(merged[0].behaviour_log_probs, scores.log_probs, atol=1e-6)
    np.testing.assert_allclose(merged[0].behaviour_entropy, scores.entropy, atol=1e-6)
    np.testing.assert_allclose(merged[0].top_log_probs, scores.top_log_probs, atol=1e-6)
    drawn = np.asarray(trajectories.behaviour_log_probs)[[0, 1, 2], [1, 4, 0]]
    assert np.abs(drawn - np.asarray(merged[0].behaviour_log_probs)[:, 0]).max() > 0.1


def collected(reference=None, environment=TREE, policy=POLICY, **changes):
    """A batch of step 2, its metrics, and the same batch without the rule."""
    settings = dataclasses.replace(SETTINGS, **changes)
    plain = dataclasses.replace(settings, wrappers=())
    groups, metrics = ask(environment, policy, settings, parameters(1, policy), 7, 2, reference)
    return groups, metrics, ask(environment, policy, plain, parameters(1, policy), 7, 2, reference)[0]


@pytest.mark.slow
def test_easy_groups_keep_their_own_answers():
    """Groups with at most the mean reward of the second best are replaced, that one included."""
    every, _, plain = collected()
    means = np.asarray(plain[1].rewards.mean(axis=1))
    at_most = np.sort(means)[-2].item()
    hard = means <= at_most
    assert hard.sum() == P - 1
    limited, metrics, _ = collected(wrappers=(OffPolicyAnswers(5, at_most=at_most),))
    np.testing.assert_array_equal(every[0].off_policy[:, 0], [True] * P)
    np.testing.assert_array_equal(limited[0].off_policy[:, 0], hard)
    assert not limited[0].off_policy[:, 1:].any()
    own, put_in = fields(plain), fields(every)
    for name, leaf in fields(limited).items():
        np.testing.assert_array_equal(leaf[hard], put_in[name][hard], err_msg=name)
        np.testing.assert_array_equal(leaf[~hard], own[name][~hard], err_msg=name)
    assert metrics["off_policy_reward"] == pytest.approx(np.asarray(limited[1].rewards)[hard, 0].mean())


@pytest.mark.parametrize(
    ("environment", "policy"), slow_after(1, [(TREE, POLICY), (FIRST_TOKEN, TRANSFORMER)]), ids=["device", "host"]
)
def test_without_a_critic_it_is_best_of_n(environment, policy):
    groups, metrics, plain = collected(environment=environment, policy=policy)
    now, old = fields(groups), fields(plain)
    for name, leaf in now.items():
        np.testing.assert_array_equal(leaf[:, 1:], old[name][:, 1:], err_msg=name)
    assert metrics["trajectories_sampled"] == P * (G + 5)
    assert metrics["sampled_reward"] == plain[1].rewards.mean()
    first = np.asarray(groups[1].rewards)[:, 0]
    assert metrics["off_policy_reward"] == pytest.approx(first.mean())
    assert first.mean() > plain[1].rewards.mean()
    assert np.asarray(groups[0].prompts.index).tolist() == np.asarray(plain[0].prompts.index).tolist()
    # They are sampled anew, and the same again.
    assert (np.asarray(groups[0].tokens)[:, 0] != np.asarray(plain[0].tokens)[:, 0]).any()
    again, _, _ = collected(environment=environment, policy=policy)
    np.testing.assert_array_equal(again[0].tokens, groups[0].tokens)


def test_the_reference_policy_can_draw_them():
    """A reference that always goes to the best outcome at once: 0, reached by three steps up."""
    best = {"logits": POLICY.init(jax.random.key(0))["logits"].at[:, 5].set(50.0)}
    groups, _, _ = collected(best, wrappers=(OffPolicyAnswers(1, "reference"),))
    assert (np.asarray(groups[1].outcome_id)[:, 0] == 0).all()
    np.testing.assert_array_equal(groups[0].tokens[:, 0, 0], 5)
    scores = SCORE(parameters(1), groups[0], 1.0)
    np.testing.assert_allclose(groups[0].behaviour_log_probs, scores.log_probs, atol=1e-6)
    # To the policy that is trained they are far from certain.
    assert (groups[0].behaviour_log_probs[:, 0, 0] < -0.1).all()


SEEN = {}


@dataclasses.dataclass(frozen=True)
class RepeatTheWorst(Refine):
    """It takes the first place all the same."""

    def __call__(self, sampled, parameters, groups, number, key):
        attempts, outcomes = groups
        SEEN.update(source=parameters, rewards=outcomes.rewards)
        worst = jnp.argmin(outcomes.rewards, axis=1)
        pick = jax.tree.map(
            lambda leaf: leaf[jnp.arange(P), worst][:, None], dataclasses.replace(attempts, prompts=None)
        )
        return dataclasses.replace(pick, prompts=attempts.prompts), 7.0


def test_refinements_are_made_from_the_attempts():
    groups, metrics, plain = collected(wrappers=(OffPolicyAnswers(5, refine=RepeatTheWorst()),))
    np.testing.assert_array_equal(SEEN["rewards"], plain[1].rewards)
    np.testing.assert_array_equal(SEEN["source"]["logits"], parameters(1)["logits"])
    np.testing.assert_array_equal(groups[1].rewards[:, 0], plain[1].rewards.min(axis=1))
    assert metrics["trajectories_sampled"] == P * (G + 1)
    # Seven were sampled besides the answers.
    tokens = np.asarray(plain[0].token_mask).sum(axis=-1)
    worst = tokens[np.arange(P), np.asarray(plain[1].rewards).argmin(axis=1)]
    assert metrics["tokens_sampled"] == tokens.sum() + worst.sum() + 7


def test_what_refines_nothing_is_refused():
    with pytest.raises(ValueError, match=r"refine is <function .*>, it must be a Refine or None"):
        collected(wrappers=(OffPolicyAnswers(5, refine=parameters),))
