import jax
import jax.numpy as jnp
import numpy as np

from experiments.dapo_steps.worked_answers import FILLER, SLIP, STEP, STOP, WorkedAnswers
from ipsrl.objectives import make
from ipsrl.policies.state_table import outcome_probs

TASK = WorkedAnswers(needs=(1, 2, 1), ease=(0.0, 1.0, -1.0), max_tokens=4)


def outcome(prompt, tokens):
    state = TASK.first_state(jnp.asarray(prompt))
    for token in tokens:
        state = TASK.step(state, jnp.asarray(token))
    return TASK.outcome_names()[int(state) - TASK.num_observations]


def test_outcomes_say_whether_an_answer_is_right_and_how_long():
    assert outcome(0, [STEP, STOP]) == "right after 2"
    assert outcome(0, [FILLER, STEP, STEP, STOP]) == "right after 4"
    assert outcome(1, [STEP, STOP]) == "wrong after 2"
    assert outcome(1, [STEP, STEP, STOP]) == "right after 3"
    assert outcome(0, [STEP, SLIP, STEP, STOP]) == "wrong after 4"
    assert outcome(2, [STOP]) == "wrong after 1"
    assert outcome(2, [STEP, FILLER, FILLER, FILLER]) == "unfinished"


def test_success_and_lengths_are_those_of_all_walks():
    parameters = TASK.prior()
    success, length, right_length = TASK.exact(parameters).values()
    for prompt in range(3):
        probs = np.asarray(outcome_probs(TASK, TASK.policy, parameters, prompt))
        np.testing.assert_allclose(probs.sum(), 1, rtol=1e-5)
        np.testing.assert_allclose(success[prompt], probs[4:8].sum(), rtol=1e-5)
        lengths = np.array([1, 2, 3, 4, 1, 2, 3, 4, 4])
        np.testing.assert_allclose(length[prompt], probs @ lengths, rtol=1e-5)
        np.testing.assert_allclose(right_length[prompt], probs[4:8] @ lengths[4:8] / probs[4:8].sum(), rtol=1e-5)


def test_what_a_prompt_learns_helps_the_others_where_it_is_shared():
    parameters, before = TASK.prior(), TASK.exact(TASK.prior())["accuracy"]
    for name, helped in (("shared", [0, 1, 2]), ("own", [2])):
        where = (1, STEP) if name == "shared" else (2, 1, STEP)
        moved = TASK.exact(parameters | {name: parameters[name].at[where].add(1.0)})["accuracy"] - before
        assert np.flatnonzero(np.asarray(moved) > 1e-6).tolist() == helped
    fresh = TASK.policy.init(jax.random.key(0))
    assert jax.tree.map(jnp.shape, fresh) == jax.tree.map(jnp.shape, parameters)


def test_an_easier_prompt_has_a_higher_chance_of_each_step():
    for ease, of_a_step in ((0.0, 0.5), (-1.0, 0.5 / (0.5 + 0.5 * np.e))):
        task = WorkedAnswers((1,), (ease,), 2)
        np.testing.assert_allclose(task.exact(task.prior())["accuracy"], 0.45 * of_a_step, rtol=1e-5)
    make("dapo").check(task.optional_fields, 4, task.sizes)
