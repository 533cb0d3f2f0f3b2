import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from experiments.modes.mode_bandit import SHORT, THINK, ModeBandit
from ipsrl.policies.state_table import outcome_probs

WORLD = ModeBandit(ceilings=(1.0, 0.2))


def walked(world, prompt, mode, right):
    """The states of an answer, and the name of its outcome."""
    state, states = world.first_state(jnp.asarray(prompt)), []
    for action in (mode, *[0] * ((world.short_tokens, world.think_tokens)[mode] - 2), right):
        states.append(int(state))
        assert bool(world.legal(state)[action])
        state = world.step(state, jnp.asarray(action))
    return states, world.outcome_names()[int(state) - world.num_observations]


def test_answers_have_a_mode_a_length_and_a_last_action_that_is_right_or_wrong():
    world, seen = ModeBandit(ceilings=(1.0, 0.5, 0.1), short_tokens=3, think_tokens=5), set()
    for prompt in range(3):
        for mode, name in ((SHORT, "short"), (THINK, "think")):
            states, wrong = walked(world, prompt, mode, 0)
            assert (wrong, walked(world, prompt, mode, 1)[1]) == (f"{name} wrong", f"{name} right")
            assert [int(world.legal(jnp.asarray(state)).sum()) for state in states] == [2, *[1] * (len(states) - 2), 2]
            seen |= set(states)
    assert seen == set(range(world.num_observations))
    assert world.reward_table()[0].tolist() == [0, 1, 0, 0.5]


def test_measures_are_those_of_the_distribution_of_outcomes():
    prior = WORLD.prior(short=0.3, think=0.8, thinking=0.6) | {"own": jnp.float32([-1, 2])}
    found = WORLD.measures(prior)
    probs = np.array([outcome_probs(WORLD, WORLD.policy, prior, prompt) for prompt in range(2)])
    np.testing.assert_allclose(probs[:, 2:].sum(axis=1), found["thinking"], rtol=1e-5)
    np.testing.assert_allclose(probs[:, 1] / probs[:, :2].sum(axis=1), [0.3, 0.06], rtol=1e-4)
    np.testing.assert_allclose(probs[:, 3] / probs[:, 2:].sum(axis=1), 0.8, rtol=1e-5)
    np.testing.assert_allclose((probs * WORLD.reward_table()).sum(axis=1).mean(), found["reward"], rtol=1e-5)


def test_of_every_four_answers_one_is_forced_to_think_and_one_to_be_short():
    world = dataclasses.replace(WORLD, forced=True)
    members = jnp.arange(8)
    for prompt in range(2):
        states = world.reset(jax.random.key(0), jnp.full(8, prompt), members)
        assert world.dictated(states).tolist() == [-1, THINK, -1, SHORT] * 2
        assert set(world.observe(states).tolist()) == {prompt * world.states_of_prompt}
        assert not world.finished(states).any()
        after = world.step(states, jnp.full(8, THINK))
        assert world.dictated(after).tolist() == [-1] * 8
        assert after.tolist() == [int(WORLD.step(WORLD.first_state(jnp.asarray(prompt)), jnp.asarray(THINK)))] * 8
