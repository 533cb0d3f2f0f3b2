import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipsrl.objectives import make
from ipsrl.objectives.aggregation import SequenceMean, SequenceSum, TokenMean
from ipsrl.objectives.catalog.token_probability import low_probability_confidence
from ipsrl.objectives.ties import all_equal
from ipsrl.structures import PolicyScores, Rollouts, Sizes, Weights
from tests.objectives.groups import assert_close, random_rollouts, rollouts_of, token_advantages


def test_rewards_that_tie_but_for_rounding_are_equal():
    """0.9 / 0.6 and 0.6 / 0.4 are both 1.5; as float32 they differ in the last bit, and a std would make that 1.2."""
    tie = jnp.array([[0.9, 0.9, 0.9, 0.6, 0.6]]) / jnp.array([[0.6, 0.6, 0.6, 0.4, 0.4]])
    assert tie[0, 0] != tie[0, -1]
    assert all_equal(tie).all()
    assert not all_equal(jnp.array([[1.0, 1.0 + 2e-6], [0.0, 1e-30], [-1e-30, 0.0]])).any()


def test_degenerate_groups_are_counted():
    rollouts, _ = random_rollouts()
    rewards = jnp.array([[0.1] * 4, [0.1, 0.1, 0.2, 0.1], [0.0] * 4])
    objective = make("grpo")
    _, _, metrics = objective.weigh(dataclasses.replace(rollouts, rewards=rewards), objective.init(Sizes(3)))
    assert tuple(map(float, metrics["degenerate_groups"])) == (2.0, 3.0)


ANSWERS = np.log(
    [
        [
            [0.9, 0.95, 0.2, 0.99, 0.98, 0.97, 0.5, 0.99, 0.9, 0.99],
            [0.99, 0.99, 0.99, 0.99, 0.6, 0.99, 0.99, 0.99, 0.99, 0.99],
            [0.3, 0.9, 0.1, 0.8, 0.9, 0.9, 0.95, 0.99, 0.97, 0.9],
        ]
    ]
)
CONFIDENCE = np.array([0.316228, 0.770714, 0.173205])
STANDARDISED = np.array([0.707107, 0.707107, -1.414214])


def test_confidence_of_the_least_likely_tokens():
    everything = jnp.ones(ANSWERS.shape, bool)
    assert_close(low_probability_confidence(ANSWERS, everything, 0.2), CONFIDENCE[None])
    assert_close(low_probability_confidence(ANSWERS, everything, 1.0), np.exp(ANSWERS.mean(axis=-1)))
    assert_close(low_probability_confidence(ANSWERS, ~everything, 0.2), np.ones((1, 3)))


@settings(deadline=None, max_examples=25)
@given(length=st.integers(1, 200), percent=st.integers(1, 100), seed=st.integers(0, 1000))
@example(length=50, percent=30, seed=0)  # in float32, 0.3 * 50 is more than 15
def test_confidence_rounds_the_number_of_tokens_up(length, percent, seed):
    log_probs = np.random.default_rng(seed).uniform(-3, 0, 200).astype(np.float32)
    count = -(-percent * length // 100)
    expected = np.exp(np.sort(log_probs[:length])[:count].mean())
    assert_close(low_probability_confidence(jnp.array(log_probs), jnp.arange(200) < length, percent / 100), expected)


def test_confidence_of_a_long_answer_rounds_up_as_well():
    """In float32, 0.3 * 10250 is more than 3075, by more than any offset that suits short answers, too."""
    log_probs = -np.linspace(0.0, 1.0, 10250, dtype=np.float32)
    found = low_probability_confidence(jnp.array(log_probs), jnp.ones(10250, bool), 0.3)
    np.testing.assert_allclose(found, np.exp(log_probs[-3075:].mean(dtype=np.float64)), rtol=2e-6)


@pytest.mark.parametrize(
    ("text", "rewards", "expected"),
    [
        ("progrpo", [1, 1, 0], [0.717238, 0.580893, -1.361175]),
        ("progrpo(reference=correct, shifted=correct)", [1, 1, 0], [0.775280, 0.638934, -1.414214]),
        ("progrpo(shifted=correct)", [1, 1, 0], [0.717238, 0.580893, -1.414214]),
        ("progrpo(standardise=False)", [1, 1, 0], np.array([1, 1, -2]) / 3 + 0.3 * (0.35 - CONFIDENCE)),
        ("progrpo(reference=prompt(lowest))", [1, 1, 0], STANDARDISED + 0.3 * (0.245 - CONFIDENCE)),
        ("progrpo(reference=prompt(question))", [1, 1, 0], STANDARDISED + 0.3 * (0.5 - CONFIDENCE)),
        ("progrpo", [1, 1, 1], [0.010132, -0.126214, 0.053038]),
    ],
)
def test_answer_confidence(text, rewards, expected):
    rollouts = rollouts_of(
        ANSWERS,
        rewards=np.array([rewards], np.float32),
        prompt_log_probs=np.log([[1e-9, 0.5, 0.245]]).astype(np.float32),
        prompt_mask=[[False, True, True]],
        question_mask=[[False, True, False]],
    )
    assert_close(token_advantages(text, rollouts), np.broadcast_to(np.reshape(expected, (1, 3, 1)), (1, 3, 10)))


@pytest.mark.slow
def test_placebos_of_answer_confidence_have_its_numbers_in_other_places():
    seen, groups = set(), 40
    rewards = np.tile(np.array([1, 1, 0], np.float32), (groups, 1))
    levels = np.linspace(0.1, 0.9, groups)[:, None]
    rollouts = rollouts_of(
        np.broadcast_to(ANSWERS, (groups, *ANSWERS.shape[1:])),
        rewards=rewards,
        prompt_log_probs=np.log(levels).astype(np.float32),
        prompt_mask=np.ones((groups, 1), bool),
        keys=jax.random.split(jax.random.key(0), groups),
    )
    true, answers, prompts = (
        np.asarray(token_advantages(f"progrpo({placebo})", rollouts))[..., 0]
        for placebo in ("", "shifted=permuted", "reference=other_prompt")
    )
    for one, other in zip(true, answers, strict=True):
        assert_close(np.sort(one[:2]), np.sort(other[:2]))
        seen.add(bool(np.isclose(one[0], other[0])))
    assert seen == {True, False}
    assert_close(answers[:, 2], true[:, 2])
    moved = prompts - true
    assert_close(moved, np.broadcast_to(moved[:, :1], moved.shape))
    assert_close(np.sort(moved[:, 0] + 0.3 * levels[:, 0]), np.sort(0.3 * levels[:, 0]))
    assert np.abs(moved).max() > 0.1


def test_the_mean_coefficient_of_a_penalty_over_tokens_is_a_metric():
    rollouts, _ = random_rollouts()
    tokens = rollouts.token_mask.sum()
    for text, share in (("grpo(kl=0.04)", 1.0), ("kl_cov(fraction=0.1)", jnp.floor(0.1 * tokens) / tokens)):
        objective = make(text)
        (penalty,) = objective.penalties
        _, _, metrics = objective.weigh(rollouts, objective.init(Sizes(3)))
        total, count = metrics[f"{penalty.name}_coefficient"]
        assert_close(total / count, share * penalty.coefficient)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (TokenMean(), (10, 4)),
        (SequenceMean(), (2 + 4, 2)),
        (SequenceSum(), (10, 2)),
        (SequenceSum(length=5), (2, 2)),
        (SequenceSum(length=None), (10 / 3, 2)),
    ],
)
def test_aggregation(part, expected):
    """Answers of three, one and no tokens; what lies outside the mask is not even a number."""
    values = jnp.array([[[1.0, 2, 3], [4, np.nan, np.nan], [np.nan, np.nan, np.nan]]])
    assert_close(part(values, ~jnp.isnan(values)), expected)


ARRAYS = [field.name for field in dataclasses.fields(Rollouts) if field.name not in ("tokens", "right_above")]


@pytest.mark.parametrize("name", ARRAYS)
def test_a_field_of_another_shape_is_named(name):
    rollouts, _ = random_rollouts()
    wrong = dataclasses.replace(rollouts, **{name: getattr(rollouts, name)[1:]})
    with pytest.raises(ValueError, match=f"^{name} has shape .2,.*, expected .3,") as error:
        make("grpo").weigh(wrong, make("grpo").init(Sizes(3)))
    assert "\n" not in str(error.value)


def test_scores_and_advantages_of_another_shape_are_named():
    rollouts, scores = random_rollouts()
    right = {"log_probs": scores.log_probs, "entropy": scores.entropy, "advantages": scores.entropy}
    for name in right:
        given = right | {name: right[name][..., :-1]}
        with pytest.raises(ValueError, match=f"^{name} has shape .3, 4, 4., expected .3, 4, 5. as tokens is "):
            make("grpo").loss(
                PolicyScores(given["log_probs"], given["entropy"]), rollouts, Weights(given["advantages"], ())
            )
    with pytest.raises(ValueError, match=r"^tokens has shape .3, 4., expected .prompt, group, token.$"):
        make("grpo").weigh(dataclasses.replace(rollouts, tokens=rollouts.tokens[..., 0]), make("grpo").init(Sizes(3)))
