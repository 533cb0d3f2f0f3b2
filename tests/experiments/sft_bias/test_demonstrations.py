import jax
import numpy as np
import pytest

from experiments.sft_bias.demonstrations import HOTTEST, FewDemonstrations
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.policies.transformer import Transformer

TASK = Countdown(numbers=3, problems=4, largest_number=9, largest_target=30, least_solutions=2)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=16, num_layers=1)


@pytest.fixture(scope="module")
def untaught():
    return POLICY.init(jax.random.key(0))


def test_demonstrations_are_right_and_favour_some_forms():
    favouring, uniform = FewDemonstrations(TASK, POLICY), FewDemonstrations(TASK, POLICY, exponent=0.0)
    for shares in (favouring.shares, uniform.shares):
        assert ((shares > 0) == TASK.admissible).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (favouring.shares.max(axis=1) > uniform.shares.max(axis=1)).all()


def test_teaching_goes_on_from_a_policy_and_lowers_its_entropy_but_not_the_held_out_loss_for_ever(untaught):
    lessons = FewDemonstrations(TASK, POLICY, number=2, batch=4, learning_rate=1e-2)
    few, many = (lessons.teach(untaught, epochs, seed=0) for epochs in (20, 200))
    entropies = [lessons.answer_entropy(parameters) for parameters in (untaught, few, many)]
    assert entropies[0] > entropies[1] > entropies[2]
    losses = [lessons.held_out_loss(parameters) for parameters in (untaught, few, many)]
    assert losses[1] < losses[0]
    assert losses[2] > losses[1]
    other_seed = lessons.teach(untaught, 20, seed=1)
    assert lessons.answer_entropy(other_seed) != entropies[1]


def test_the_held_out_loss_of_a_uniform_policy_is_that_of_its_tokens(untaught):
    uniform = untaught | {"norm": {"scale": np.zeros_like(untaught["norm"]["scale"])}}
    lessons, lengths = FewDemonstrations(TASK, POLICY), [len(TASK.render(form)) for form in range(len(TASK.hypotheses))]
    expected = np.log(TASK.vocabulary_size) * (lessons.shares[1::2] @ np.array(lengths)).mean()
    assert lessons.held_out_loss(uniform) == pytest.approx(expected, rel=1e-5)


def test_heat_brings_the_entropy_that_is_asked_for(untaught):
    lessons = FewDemonstrations(TASK, POLICY, number=2, batch=4, learning_rate=1e-2)
    taught = lessons.teach(untaught, 50, seed=0)
    before = lessons.answer_entropy(taught)
    hot = lessons.reheated(taught, before + 0.3)
    assert lessons.answer_entropy(hot) == pytest.approx(before + 0.3, abs=0.05)
    assert lessons.reheated(taught, before - 0.1) is taught
    hottest = lessons.reheated(taught, 100.0)
    np.testing.assert_allclose(hottest["norm"]["scale"] * HOTTEST, taught["norm"]["scale"], rtol=1e-6)
