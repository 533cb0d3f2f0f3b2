import jax
import numpy as np
import pytest

from experiments.overoptimisation.preferred_answers import TRIES, PreferredAnswers

WORLD = PreferredAnswers(seeds=(3, 5), problems=16, pairs=16, hidden_size=32, prior_steps=200, asked=4)


def test_pairs_are_of_a_right_and_a_wrong_answer_to_a_problem_of_the_first_half():
    problem, tokens, _ = map(np.concatenate, zip(*WORLD.preferences, strict=True))
    assert len(problem) == 32
    assert problem.max() < 8
    for place, part in enumerate((slice(16), slice(16, None))):
        kept = WORLD.source._answers(np.arange(32)[part], None)
        np.testing.assert_array_equal(WORLD.task.verify(jax.device_get(kept)).rewards, [[1.0, 0.0]] * 16)
        np.testing.assert_array_equal(kept.prompts.index, problem[part])
        _, rewards = WORLD._evaluated(WORLD.prior, place)
        assert rewards.shape == (16, 4)
    assert not np.array_equal(tokens[:16], tokens[16:])


def test_the_prior_has_gained_nothing_and_each_seed_learns_from_its_own_pairs():
    for place in range(2):
        assert not any(WORLD.measured(WORLD.prior, place, 0.1).values())
    found = WORLD.trained("rpo(beta=0.1, eta=0.2)", 0.1, 8, 4)
    assert found.seeds == (3, 5)
    for name in ("implicit", "chosen"):
        assert (found.values[name][:, 0] == 0).all()
        assert (found.values[name][:, -1] > 0.1).all()
    assert found.values["divergence"][:, -1].min() > 0
    assert found.values["implicit"][0, -1] != found.values["implicit"][1, -1]


def test_too_few_pairs_are_refused():
    many = PreferredAnswers(seeds=(3,), problems=16, pairs=8 * TRIES**2, hidden_size=32, prior_steps=200, asked=4)
    with pytest.raises(ValueError, match=r"the prior's answers make \d+ pairs, not 2048: teach it for more steps"):
        _ = many.preferences
