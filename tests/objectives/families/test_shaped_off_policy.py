import jax
import jax.numpy as jnp
import numpy as np

from ipsrl.objectives import make
from ipsrl.objectives.catalog.refinements import DistinctPairs, LikelihoodOffPolicy, ShapedOffPolicy, shared_tokens
from tests.objectives.groups import advantages_of, assert_close, by_log_probs, rollouts_of, scores_of

GAMMA = 0.1


def value_and_gradient(part, log_probs, behaviour, advantages, off_policy):
    """Values of one-token answers, their derivatives by their own log-probability, and metrics."""
    log_probs, behaviour, advantages = (
        jnp.asarray(values, jnp.float32).reshape(1, -1, 1) for values in (log_probs, behaviour, advantages)
    )
    rollouts = rollouts_of(behaviour, off_policy=np.array([off_policy], bool))
    values, gradient, metrics = by_log_probs(part, log_probs, rollouts, advantages)
    return values[0, :, 0], gradient[0, :, 0], metrics


def test_without_a_shape_the_value_is_the_probability():
    p = np.array([0.01, 0.7])
    values, gradient, _ = value_and_gradient(ShapedOffPolicy(None), np.log(p), np.log([0.3, 0.3]), [2, -1], [True] * 2)
    assert_close(values, [0.02, -0.7])
    assert_close(gradient, [0.02, -0.7])


def test_own_answers_have_an_importance_ratio():
    """Without a clip however far the policy has gone; the refinement next to them does not look at its behaviour."""
    ratios, advantages = np.array([0.5, 6.0, 0.5, 6.0, 6.0]), np.array([1, 1, -1, -1, 1])
    arguments = np.log(0.1 * ratios), np.log([0.1] * 5), advantages, [False] * 4 + [True]
    shaped = 0.6 / 0.7
    values, gradient, metrics = value_and_gradient(ShapedOffPolicy(GAMMA), *arguments)
    assert_close(values, [0.5, 6, -0.5, -6, shaped])
    assert_close(gradient, [0.5, 6, -0.5, -6, 0.6 * 0.1 / 0.7**2])
    assert_close(metrics["clip_fraction"], (0, 4))
    assert_close(metrics["importance_ratio"], (13, 4))
    assert_close(metrics["shaped_probability"], (shaped, 1))
    values, gradient, metrics = value_and_gradient(ShapedOffPolicy(GAMMA, 0.2, 0.28), *arguments)
    assert_close(values, [0.5, 1.28, -0.8, -6, shaped])
    assert_close(gradient, [0.5, 0, 0, -6, 0.6 * 0.1 / 0.7**2])
    assert_close(metrics["clip_fraction"], (2, 4))
    assert_close(value_and_gradient(ShapedOffPolicy(GAMMA, 0.2, None), *arguments)[1][:4], [0.5, 6, 0, -6])
    assert_close(value_and_gradient(ShapedOffPolicy(GAMMA, None, 0.28), *arguments)[1][:4], [0.5, 0, -0.5, -6])


def test_replayed_answers_have_the_gradient_of_their_likelihood():
    """Whatever the behaviour probability; own answers next to them are clipped, and alone are counted for that."""
    part = LikelihoodOffPolicy(0.2, 0.2)
    arguments = np.log([0.6, 0.6, 0.05]), np.log([0.1, 0.1, 0.1]), [1.0, 2.0, 0.5], [False, True, True]
    values, gradient, metrics = value_and_gradient(part, *arguments)
    assert_close(values, [1.2, 2 * np.log(0.6), 0.5 * np.log(0.05)])
    assert_close(gradient, [0, 2, 0.5])
    assert_close(metrics["clip_fraction"], (1, 1))


def replay(base="maxrl"):
    """Two prompts of five answers: own rewards 1, 0, 0.5, two modes; own rewards alike, one mode and an empty place."""
    rewards = np.array([[1.0, 0.0, 0.5, 1.0, 0.25], [1.0, 1.0, 1.0, 0.5, 0.0]])
    marked = np.array([[False, False, False, True, True]] * 2)
    mask = np.ones((2, 5, 2), bool)
    mask[1, 4] = False
    rollouts = rollouts_of(np.full(mask.shape, -1.0), mask, rewards=rewards, off_policy=marked)
    return advantages_of(f"mode_replay(base={base}, beta=0.3)", rollouts)


def test_mode_replay_adds_the_mean_over_modes_to_expected_return():
    """Nine answers with tokens, six of them own; 0.3 over two prompts and the modes of each."""
    own = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    again = 0.3 * 9 / 2 * np.array([[0.5, 0.5], [1.0, 0.0]])
    assert_close(replay(), np.hstack([own * 9 / 6, again]))
    assert_close(replay("dr_grpo"), np.hstack([own / 2 * 9 / 6, again]))


def test_wrong_answers_from_elsewhere_are_not_replayed():
    rollouts = rollouts_of(np.full((1, 3, 1), -1.0), rewards=[[1.0, 0.0, 0.0]], off_policy=[[False, False, True]])
    assert_close(advantages_of("mode_replay", rollouts), [[1.5, -1.5, 0.0]])


def pairs(rewards, **fields):
    rewards = np.array([rewards], np.float32)
    return jnp.asarray(rewards), rollouts_of(np.zeros((*rewards.shape, 4)), rewards=rewards, **fields)


def test_answers_at_the_mean_have_no_opposite():
    """Found beyond rounding: float32's mean of 0.1, 0.2 and 0.3 is not 0.2."""
    part = DistinctPairs(tau=0.0, similarity="none")
    for rewards in ([0.1, 0.2, 0.3], [0.3, 0.1, 0.2]):
        kept = part.kept(*pairs(rewards))[0]
        assert kept.tolist() == [reward != 0.2 for reward in rewards]
        assert_close(part(*pairs(rewards))[0], [{0.1: -1.5, 0.2: 0, 0.3: 1.5}[reward] for reward in rewards])


def test_near_copies_are_masked():
    """The first two share three of four tokens; the third shares none with either."""
    tokens = np.array([[[1, 2, 3, 4], [1, 2, 3, 5], [6, 7, 8, 9]]], np.int32)
    assert_close(
        shared_tokens(jnp.asarray(tokens), jnp.ones(tokens.shape, bool)), [[[1, 0.75, 0], [0.75, 1, 0], [0, 0, 1]]]
    )
    rewards, rollouts = pairs([1, 0, 0], tokens=tokens)
    # Distances 0.25 and 1; their mean for the good answer is 0.625.
    assert DistinctPairs(tau=0.5).kept(rewards, rollouts).tolist() == [[True, False, True]]
    assert_close(DistinctPairs(tau=0.5)(rewards, rollouts)[0], [1.5, 0, -1.5])
    assert not DistinctPairs(tau=0.63)(rewards, rollouts).any()
    rewards, rollouts = pairs([1, 0, 0], outcome_id=np.array([[4, 4, 2]], np.int32))
    assert DistinctPairs(tau=0.5, similarity="outcome").kept(rewards, rollouts).tolist() == [[True, False, True]]


def test_shared_tokens_count_up_to_the_longer_end():
    tokens = jnp.array([[[1, 2, 3], [1, 2, 9], [5, 5, 5]]])
    mask = jnp.array([[[True, True, True], [True, True, False], [False, False, False]]])
    assert_close(shared_tokens(tokens, mask), [[[1, 2 / 3, 0], [2 / 3, 1, 0], [0, 0, 0]]])


def test_anchors_move_the_baseline_and_are_shaped():
    """An expert's answer among three failures: without it nothing is learned."""
    log_probs = jnp.full((1, 4, 1), jnp.log(0.5))
    rollouts = rollouts_of(log_probs, rewards=[[0.0, 0.0, 0.0, 1.0]], off_policy=[[False, False, False, True]])

    def gradient(text):
        return jax.grad(lambda log_probs: make(text)(scores_of(log_probs), rollouts).loss_sum)(log_probs)[0, :, 0]

    assert_close(gradient("dagrpo(similarity=none, anchors=True)"), [3**-0.5] * 3 + [-(3**0.5) * 0.05 / 0.36])
    assert_close(gradient("dagrpo(similarity=none)"), [3**-0.5] * 3 + [-(3**0.5)])
