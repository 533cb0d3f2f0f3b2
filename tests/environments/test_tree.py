import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.tree import Tree
from ipsrl.structures import Trajectories

# Actions of the default tree: right by 1, 2, 3 and up by 1, 2, 3.
R1, R2, R3, U1, U2, U3 = range(6)


def walk(environment, *tokens):
    """One group of one walk, stepped from the start."""
    state, observations = environment.reset(jnp.asarray(0)), []
    for token in tokens:
        observations.append(int(environment.observe(state)))
        state = environment.step(state, jnp.asarray(token))
    padding = [0] * (environment.max_tokens - len(tokens))
    shape = (1, 1, environment.max_tokens)
    return Trajectories(
        prompts=environment.prompts(jnp.array([0])),
        observations=jnp.array([*observations, *padding]).reshape(shape),
        tokens=jnp.array([*tokens, *padding]).reshape(shape),
        token_mask=(jnp.arange(environment.max_tokens) < len(tokens)).reshape(shape),
        legal_actions=None,
        behaviour_log_probs=jnp.zeros(shape),
        behaviour_entropy=jnp.zeros(shape),
        truncated=jnp.zeros((1, 1), bool),
    )


def test_the_toy_has_ten_states_and_eighteen_trajectories():
    tree = Tree()
    assert tree.num_observations + tree.num_outcomes == 10
    np.testing.assert_array_equal(tree.path_counts(), [4, 5, 5, 4])
    np.testing.assert_allclose(100 * tree.outcome_space(0).target, [48.78, 39.02, 9.76, 2.44], atol=0.005)


def test_lattice_paths_at_depth_seven():
    tree = Tree(depth=7, longest_step=1, rewards=(0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0))
    np.testing.assert_array_equal(tree.path_counts(), [1, 7, 21, 35, 35, 21, 7, 1])
    names = tree.outcome_space(0).names
    assert (names[3], names[1]) == ("(3, 4)", "(1, 6)")


def test_path_counts_are_the_mass_that_flows_when_every_legal_move_carries_one():
    tree = Tree(depth=5, longest_step=2, rewards=(1.0,) * 6)
    everything = jnp.where(tree.legal(jnp.arange(tree.num_observations)), 0.0, -jnp.inf)
    np.testing.assert_allclose(tree.terminal_distribution(everything), tree.path_counts(), rtol=1e-6)


@pytest.mark.parametrize(
    ("tokens", "probability"),
    [((R1, U2), 1 / 3), ((U2, R1), 1 / 6), ((R1, U1, U1), 1 / 6), ((U1, R1, U1), 1 / 6), ((U1, U1, R1), 1 / 6)],
)
def test_uniform_backward_policy_of_the_paths_to_one_two(tokens, probability):
    tree = Tree()
    outcomes = tree.verify(walk(tree, *tokens))
    assert tree.outcome_space(0).names[int(outcomes.outcome_id[0, 0])] == "(1, 2)"
    np.testing.assert_allclose(outcomes.rewards, 0.8)
    np.testing.assert_allclose(jnp.exp(outcomes.log_backward), probability, rtol=1e-6)


def test_only_steps_that_do_not_overshoot_are_legal():
    tree = Tree()
    state = tree.reset(jnp.asarray(0))
    assert tree.legal(state).tolist() == [True] * 6
    state = tree.step(state, jnp.asarray(R2))
    assert tree.legal(state).tolist() == [True, False, False, True, False, False]
    assert tree.finished(tree.step(state, jnp.asarray(U1)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 0}, "depth is 0, it must be at least 1"),
        ({"longest_step": 4}, "longest_step must be in 1 .. depth = 1 .. 3, not 4."),
        ({"longest_step": 0}, "longest_step must be in 1 .. depth = 1 .. 3, not 0."),
        ({"rewards": (1.0, 2.0)}, "rewards must be a tuple of depth [+] 1 = 4 finite numbers"),
        ({"rewards": [1.0, 2.0, 3.0, 4.0]}, "rewards must be a tuple of depth [+] 1 = 4 finite numbers"),
        ({"rewards": (1.0, 2.0, 3.0, float("inf"))}, "rewards must be a tuple of depth [+] 1 = 4 finite numbers"),
    ],
)
def test_bad_arguments_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Tree(**fields)
