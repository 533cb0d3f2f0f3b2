import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.records import metric_log
from ipsrl.rollouts.prompts import choose_prompts, shuffled_prompts
from ipsrl.rollouts.sources import difficulty_scorer
from ipsrl.rollouts.sources.difficulty_filter import (
    DifficultyFilter,
    DifficultyState,
    choose_by_difficulty,
    difficulty_targets,
    in_window,
    learn_difficulty,
    ranking_loss,
    scorer_loss,
)
from ipsrl.rollouts.sources.difficulty_scorer import init_scorer, score_prompts
from ipsrl.structures import Prompts
from ipsrl.training.loop import TrainSettings
from tests.sampled_groups import collect
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER
from tests.training.in_the_loop import trained

SMALL = DifficultyFilter(width=16, last_width=8, warm_up=0, exploration=0.0, dropout=0.0)
PROMPTS, P = 12, 4
FRESH = itertools.count()
BANDIT = Bandit(((1.0, 0.0),) * PROMPTS)


def test_ranking_loss_by_hand():
    """Pairs (0,1) (0,2) (0,3) (1,3) (2,3), not (1,2), whose rewards differ by less than the gap of 0.05."""
    rewards, scores = jnp.array([1.0, 0.5, 0.48, 0.0]), jnp.array([0.2, 0.0, 1.0, 0.1])
    value, gradient = jax.value_and_grad(ranking_loss, argnums=1)(SMALL, scores, rewards)
    assert value == pytest.approx((0.3 + 1.3 + 0.4 + 0.6 + 0.0) / 5)
    np.testing.assert_allclose(gradient, [-3 / 5, 0.0, 1 / 5, 2 / 5], atol=1e-6)
    value, gradient = jax.value_and_grad(ranking_loss, argnums=1)(SMALL, jnp.array([3.0, -2.0]), jnp.array([0.5, 0.5]))
    assert value == 0.0
    assert not gradient.any()


def test_scorer_loss_by_hand():
    rewards, likelihood = jnp.array([1.0, 0.25]), jnp.array([0.5, 0.1])
    scores, distilled = jnp.array([0.0, math.log(3.0)]), jnp.array([0.0, -math.log(3.0)])
    accuracy = (math.log(2) - 0.25 * math.log(0.75) - 0.75 * math.log(0.25)) / 2
    distillation = (math.log(2) - 0.1 * math.log(0.25) - 0.9 * math.log(0.75)) / 2
    ranking = 0.5 + math.log(3.0)
    expected = accuracy + 0.5 * distillation + 3.0 * ranking
    assert scorer_loss(SMALL, scores, distilled, rewards, likelihood) == pytest.approx(expected, rel=1e-6)


def test_targets_by_hand():
    """Answers of one and two tokens weigh the same; what lies behind the mask does not count; both targets are cut."""
    trajectories, outcomes = collect(BANDIT, Tabular(PROMPTS, 2), *start(), group_size=2, temperature=1.0)
    log_probs = jnp.array([[[-1.0, jnp.nan], [-2.0, -4.0]], [[-20.0, jnp.nan], [-30.0, jnp.nan]]])
    trajectories = dataclasses.replace(
        trajectories,
        behaviour_log_probs=log_probs,
        token_mask=jnp.array([[[True, False], [True, True]], [[True, False], [True, False]]]),
    )
    outcomes = dataclasses.replace(outcomes, rewards=jnp.array([[1.0, 0.5], [3.0, -1.0]]))
    rewards, likelihood = difficulty_targets(trajectories, outcomes)
    np.testing.assert_allclose(rewards, [0.75, 0.5])
    np.testing.assert_allclose(likelihood, [math.exp(-2.0), 1e-4], rtol=1e-6)


def start():
    """Parameters, prompts, seed and step of a batch of the bandit."""
    return Tabular(PROMPTS, 2).init(jax.random.key(0)), choose_prompts(BANDIT, 0, 0, P), 0, 0


def test_the_window_holds_its_ends():
    filter_settings = dataclasses.replace(SMALL, lowest=0.5, highest=0.75)
    found = in_window(filter_settings, jnp.array([-0.01, 0.0, 1.0, 1.09, 1.11]))
    assert found.tolist() == [False, True, True, True, False]


@pytest.fixture
def predicted(monkeypatch):
    """A rule that believes these logits of the bandit's prompts, in the place of a scorer."""

    def give(logits, **changes):
        def score(rows, widths, parameters, prompts):
            assert (rows, widths) == (PROMPTS, (16, 8))
            return jnp.asarray(logits, jnp.float32)[prompts.index], jnp.zeros(len(prompts.index))

        monkeypatch.setattr(difficulty_scorer, "score_prompts", score)
        # A rule of its own: what was compiled for another one has another scorer in it.
        return dataclasses.replace(SMALL, margin=1.0 + next(FRESH), **changes)

    return give


def choose(filter_settings, place=0, step=0, seed=0, state=None):
    state = DifficultyState.create(filter_settings, BANDIT, jax.random.key(0)) if state is None else state
    prompts, scanned, passed = choose_by_difficulty(filter_settings, BANDIT, state, seed, step, place, P)
    return np.asarray(prompts.index).tolist(), int(scanned), int(passed)


def test_the_filter_reads_the_stream_until_the_batch_is_full(predicted):
    good = {1, 2, 5, 7, 8}
    filter_settings = predicted([0.0 if prompt in good else 5.0 for prompt in range(PROMPTS)])
    order = np.asarray(shuffled_prompts(BANDIT, 0, 0)).tolist()
    survivors = [prompt for prompt in order if prompt in good]
    assert choose(filter_settings) == (survivors[:P], order.index(survivors[3]) + 1, P)
    # From another place on, round the stream's end.
    place = order.index(survivors[3]) + 1
    again = survivors[4:] + survivors[:3]
    assert choose(filter_settings, place) == (again, PROMPTS - place + order.index(survivors[2]) + 1, P)
    # Where the scan ends early, rejected prompts take the slots that are left, in the order of the stream.
    first, rejected = ([prompt for prompt in order[:P] if (prompt in good) == wanted] for wanted in (True, False))
    assert 0 < len(first) < P
    once = dataclasses.replace(filter_settings, scan=1)
    assert choose(once) == (first + rejected, P, len(first))


def test_no_slot_that_is_left_repeats_a_prompt(predicted):
    filter_settings = predicted([-9.0] * PROMPTS, exploration=0.02, scan=4)
    partly = 0
    for step in range(12):
        prompts, scanned, passed = choose(filter_settings, place=3 * step, step=step)
        assert scanned == 4 * P or passed == P
        filled = prompts[passed:]
        assert len(set(filled)) == len(filled) == P - passed
        assert not set(filled) & set(prompts[:passed])
        partly += 0 < passed < P
    assert partly


def test_too_few_prompts_come_again(predicted):
    filter_settings = predicted([-9.0] * PROMPTS, scan=1)
    order = np.asarray(shuffled_prompts(BANDIT, 0, 0)).tolist()
    state = DifficultyState.create(filter_settings, BANDIT, jax.random.key(0))
    prompts, _, passed = choose_by_difficulty(filter_settings, BANDIT, state, 0, 0, 0, PROMPTS + 2)
    assert (np.asarray(prompts.index).tolist(), int(passed)) == (order + order[:2], 0)


def test_everything_goes_on_while_the_scorer_warms_up(predicted):
    filter_settings = predicted([-9.0] * PROMPTS, warm_up=2)
    order = {step: np.asarray(shuffled_prompts(BANDIT, 0, step)).tolist() for step in (1, 2)}
    assert choose(filter_settings, step=1) == (order[1][:P], P, P)
    assert choose(filter_settings, step=2) == (order[2][:P], 16 * P, 0)


def test_a_share_of_the_rejected_prompts_is_explored(predicted):
    filter_settings = predicted([-9.0] * PROMPTS, exploration=0.2, scan=64)
    runs = [choose(filter_settings, step=step) for step in range(40)]
    scanned, passed = (sum(run[number] for run in runs) for number in (1, 2))
    assert passed == 40 * P
    assert passed / scanned == pytest.approx(0.2, abs=4 * math.sqrt(0.2 * 0.8 / 800))
    assert choose(filter_settings) == choose(filter_settings) == runs[0]
    assert choose(filter_settings, seed=1) != runs[0]


def test_predictions_begin_near_one_half_and_see_no_padding():
    parameters = init_scorer(FIRST_TOKEN.vocabulary_size, (32, 8), jax.random.key(0))
    prompts = FIRST_TOKEN.prompts(jnp.arange(FIRST_TOKEN.num_prompts))
    score = jax.jit(lambda prompts: score_prompts(FIRST_TOKEN.vocabulary_size, (32, 8), parameters, prompts)[0])
    scores = score(prompts)
    assert 0 < np.abs(scores).max() < 0.1
    assert len(np.unique(scores)) > 1
    padded = Prompts(prompts.index, *(jnp.pad(leaf, ((0, 0), (3, 0))) for leaf in (prompts.tokens, prompts.mask)))
    turned = Prompts(prompts.index, prompts.tokens[:, ::-1], prompts.mask[:, ::-1])
    np.testing.assert_allclose(score(padded), scores, atol=1e-6)
    np.testing.assert_allclose(score(turned), scores, atol=1e-6)


@pytest.mark.slow
def test_one_step_of_the_scorer_is_adamw_on_its_loss():
    filter_settings = dataclasses.replace(SMALL, learning_rate=0.01, weight_decay=0.1, max_gradient_norm=0.5)
    groups = collect(FIRST_TOKEN, TRANSFORMER, *text_batch(), group_size=4, temperature=1.0)
    state = DifficultyState.create(filter_settings, FIRST_TOKEN, jax.random.key(1))
    rows, targets = FIRST_TOKEN.vocabulary_size, difficulty_targets(*groups)

    def predict(parameters):
        return score_prompts(rows, filter_settings.widths, parameters, groups[0].prompts)

    gradient = jax.grad(lambda parameters: scorer_loss(filter_settings, *predict(parameters), *targets))(
        state.parameters
    )
    norm = optax.tree.norm(gradient)
    assert norm > 0.5
    after, error = learn_difficulty(filter_settings, FIRST_TOKEN, state, *groups, jax.random.key(2))
    expected = jax.tree.map(
        lambda leaf, slope: leaf - 0.01 * (slope / (jnp.abs(slope) + 1e-8 * norm / 0.5) + 0.1 * leaf),
        state.parameters,
        gradient,
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), after.parameters, expected)
    assert error == pytest.approx(np.abs(jax.nn.sigmoid(predict(state.parameters)[0]) - targets[0]).mean(), rel=1e-5)


def text_batch():
    return TRANSFORMER.init(jax.random.key(0)), FIRST_TOKEN.prompts(jnp.arange(6)), 0, 0


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"dropout": 0.5}, {"width": 8}, {"last_width": 4}], ids=str)
def test_dropout_and_widths_change_what_the_scorer_learns(change):
    groups = collect(FIRST_TOKEN, TRANSFORMER, *text_batch(), group_size=4, temperature=1.0)

    def learned(filter_settings):
        state = DifficultyState.create(filter_settings, FIRST_TOKEN, jax.random.key(1))
        for number in range(3):
            state, _ = learn_difficulty(filter_settings, FIRST_TOKEN, state, *groups, jax.random.key(number))
        rows = FIRST_TOKEN.vocabulary_size
        return np.asarray(score_prompts(rows, filter_settings.widths, state.parameters, groups[0].prompts)[0])

    filter_settings = dataclasses.replace(SMALL, learning_rate=0.01)
    assert np.abs(learned(dataclasses.replace(filter_settings, **change)) - learned(filter_settings)).max() > 1e-6


@pytest.mark.slow
def test_hopeless_prompts_are_learned_and_skipped(tmp_path):
    """Three of four prompts never pay. Each has a row of its own in the scorer, for prompts have no tokens here."""
    hopeless, prompts = 12, 16
    bandit = Bandit(((0.0, 0.0),) * hopeless + ((1.0, 0.0),) * (prompts - hopeless))
    policy = Tabular(prompts, 2)
    filter_settings = DifficultyFilter(width=32, last_width=16, warm_up=30, learning_rate=3e-3, highest=1.0)
    settings = TrainSettings(100, 8, 8, learning_rate=1e-3, wrappers=(filter_settings,))
    state = trained(tmp_path, bandit, policy, "grpo", settings)
    scores, _ = score_prompts(
        prompts, filter_settings.widths, state.source[0].parameters, bandit.prompts(jnp.arange(prompts))
    )
    predicted = np.asarray(jax.nn.sigmoid(scores))
    assert predicted[:hopeless].max() < 0.15 < 0.3 < predicted[hopeless:].min()

    records = metric_log.read(tmp_path / "metrics.jsonl")
    warm_up, later = records[:30], records[-15:]

    def mean(part, name):
        return np.mean([record[name] for record in part])

    assert mean(warm_up, "prompt_survival") == 1.0
    assert mean(warm_up, "zero_variance_groups") > 0.6
    # The four good prompts fill the batch, but for what is explored.
    assert mean(later, "zero_variance_groups") < 0.25
    assert mean(later, "prompt_survival") == pytest.approx(4 / 16 + 0.05 * 12 / 16, abs=0.06)
    assert mean(later, "difficulty_error") < 0.5 * mean(warm_up[:3], "difficulty_error")
    for record in records:
        assert record["prompts_sampled"] == 8
        assert record["prompts_scanned"] >= 8
        assert record["trajectories_sampled"] == 64
