"""Promises of every objective, generated from the catalog; `rows.py` lists what a new row has to declare."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make, names
from ipsrl.objectives.aggregation import SequenceSum
from ipsrl.objectives.catalog.balance import RewardTiltBalance
from ipsrl.objectives.catalog.implicit_rewards import (
    AdvantageRegression,
    AugmentedLikelihood,
    BellmanRegression,
    GroupVariance,
)
from ipsrl.objectives.catalog.regularised import MasteredDivergence
from ipsrl.objectives.catalog.trust_region import MirrorDescent
from tests.objectives.declared import ROWS
from tests.objectives.groups import random_rollouts, sizes
from tests.objectives.halves import losing, smallest_group, weighing
from tests.objectives.rows import SILENCE
from tests.objectives.wide_batches import (
    BESIDE_EMPTY,
    BETWEEN,
    GROUP,
    LENGTH,
    ORDERS,
    PADDING,
    PROMPTS,
    batches,
    reordered,
    rollouts_in_numpy,
    stacked,
    with_empty_answers,
)
from tests.tiers import slow_after, slow_unless

EVERY = [*names(), *(text for text in ROWS if text not in names())]
# Every row by itself, and as a slow test with each declared variant of its arguments.
every_objective = pytest.mark.parametrize("text", slow_unless(names(), EVERY))

SIZES = sizes(PROMPTS)
KEEPING = [
    text for text in EVERY if any(leaf.shape[:1] == (PROMPTS,) for leaf in jax.tree.leaves(make(text).init(SIZES)))
]


PULLING = (RewardTiltBalance, AugmentedLikelihood, GroupVariance, AdvantageRegression, BellmanRegression, MirrorDescent)
"""Surrogates that have a gradient where all advantages are zero, as the docstrings of their rows say."""


@functools.cache
def covering():
    """A dozen rows with as many kinds of parts as a dozen can have."""
    kinds = {
        text: {type(part) for part in (*objective.parts, objective.aggregation, objective.first)}
        for text, objective in ((text, make(text)) for text in names())
    }
    chosen, seen = [], set()
    for _ in range(12):
        chosen.append(max(kinds, key=lambda text: len(kinds[text] - seen)))
        seen |= kinds[chosen[-1]]
    return chosen


def weigh(objective, rollouts):
    """Weights, and metrics."""
    weights, _, metrics = objective.weigh(rollouts, objective.init(SIZES))
    return weights, metrics


def output_and_gradient(objective, rollouts, scores, weights):
    """The output of the loss of a batch, given its weights, and its gradient by the scores."""

    def loss(scores):
        output = objective.loss(scores, rollouts, weights, objective.init_parameters(SIZES))
        return output.loss_sum, output

    gradient, output = jax.grad(loss, has_aux=True)(scores)
    return output, gradient


def gradient_by_rollouts(function, rollouts):
    leaves, structure = jax.tree.flatten(rollouts)
    is_real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def of_reals(reals):
        reals = iter(reals)
        merged = [next(reals) if real else leaf for real, leaf in zip(is_real, leaves, strict=True)]
        return function(jax.tree.unflatten(structure, merged))

    return jax.grad(of_reals)([leaf for real, leaf in zip(is_real, leaves, strict=True) if real])


def padding_of(text):
    """Tokens by which arrays are wider than answers: none where the width means something, or draws go by places."""
    return 0 if text in ROWS and (ROWS[text].reads_width or ROWS[text].random) else PADDING


def factor_of(text):
    """The factor of the loss under padding: the width of arrays may only mean a constant length."""
    is_width = make(text).aggregation == SequenceSum(length=None)
    return LENGTH / (LENGTH + padding_of(text)) if is_width else 1.0


@functools.partial(jax.jit, static_argnames="objective")
def weights_of(objective, *stacks):
    """Weights and metrics of stacked batches."""
    return [jax.vmap(functools.partial(weigh, objective))(rollouts) for rollouts in stacks]


@functools.partial(jax.jit, static_argnames="objective")
def losses_of(objective, stack):
    return jax.vmap(functools.partial(output_and_gradient, objective))(*stack)


@functools.partial(jax.jit, static_argnames="objective")
def losses_and_pieces(objective, stack, batch):
    """The losses of stacked batches, and the sum of the losses of the halves of a batch."""
    halves = jax.tree.map(lambda leaf: leaf.reshape(2, PROMPTS // 2, *leaf.shape[1:]), batch)
    rollouts, scores, weights = halves
    statistics = jax.vmap(objective.statistics)(scores, rollouts, weights)
    statistics = jax.tree.map(lambda leaf: leaf.sum(axis=0), statistics)
    parameters = objective.init_parameters(SIZES)
    pieces = jax.vmap(lambda *half: objective.loss(*half, parameters, statistics))(scores, rollouts, weights)
    return losses_of(objective, stack), jax.tree.map(lambda leaf: leaf.sum(axis=0), pieces)


def losses_and_pieces_of(text, wide_weights, weights):
    batch, _, wide = batches(padding_of(text))
    return losses_and_pieces(losing(make(text)), (*wide, wide_weights), (*batch, weights))


@functools.cache
def facts(text):
    """All that the tests below ask of an objective, in NumPy: two programs, as compiling is what they cost.

    Weights, output and gradient of each wide batch, by its name.
    """
    (rollouts, _), named, (wide, _) = batches(padding_of(text))
    found = weights_of(weighing(make(text)), wide, jax.tree.map(lambda leaf: leaf[None], rollouts))
    (weights, metrics), (narrow_weights, _) = jax.device_get(found)
    narrow_weights = jax.tree.map(lambda leaf: leaf[0], narrow_weights)
    (output, gradient), pieces = jax.device_get(losses_and_pieces_of(text, weights, narrow_weights))
    found = weights, dataclasses.replace(output, metrics=metrics | output.metrics), gradient
    by_name = {name: jax.tree.map(lambda leaf, at=at: leaf[at], found) for at, name in enumerate(named)}
    return by_name | {"narrow weights": narrow_weights, "pieces": pieces}


def assert_close(actual, expected, rtol=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5), actual, expected)


@pytest.mark.parametrize("name", names())
def test_every_row_of_the_catalog_is_declared(name):
    row = ROWS[name]
    assert row.tokens is not None, f"{name!r} declares no tokens: its loss off-policy, see token_values.py"


@pytest.mark.parametrize("text", slow_after(2, covering()))
def test_neither_jit_nor_padding_changes_anything(text):
    """Op by op at the width of the answers, against the program's wide arrays with garbage behind the masks."""
    objective, (rollouts, scores) = make(text), jax.tree.map(jnp.asarray, batches(padding_of(text))[0])
    weights, _ = weigh(objective, rollouts)
    output = objective(scores, rollouts, SIZES)
    _, gradient = output_and_gradient(objective, rollouts, scores, weights)
    wide_weights, wide_output, wide_gradient = facts(text)["garbage"]
    assert_close(jax.tree.map(lambda leaf: leaf[..., :LENGTH], wide_weights), weights)
    assert_close(wide_output, dataclasses.replace(output, loss_sum=output.loss_sum * factor_of(text)))
    for wide, narrow in zip(jax.tree.leaves(wide_gradient), jax.tree.leaves(gradient), strict=True):
        assert_close(wide[:, :, :LENGTH], narrow * factor_of(text))


@every_objective
@pytest.mark.parametrize("axis", ["prompts", "group"])
def test_order_does_not_matter(text, axis):
    if axis == "group" and ROWS[text].random:
        pytest.skip("it draws for each place in the group")
    number = ("prompts", "group").index(axis)
    weights, output, gradient = facts(text)["plain"]

    def reorder(leaf):
        # A coefficient has 1 in the place of an axis along which it is constant.
        return np.take(leaf, ORDERS[number], number) if leaf.shape[number] > 1 else leaf

    assert_close(facts(text)[axis], (jax.tree.map(reorder, weights), output, jax.tree.map(reorder, gradient)))


@pytest.mark.parametrize("text", KEEPING)
def test_a_table_of_prompts_takes_all_groups_of_a_prompt(text):
    objective, (rollouts, scores) = make(text), batches(0)[0]
    rollouts = dataclasses.replace(rollouts, prompt_index=jnp.array([2, 0, 2, 2]))
    weigh = jax.jit(objective.weigh)

    def kept(order):
        state = objective.init(SIZES)
        for batch in (rollouts, reordered(1, rollouts, scores)[0]):
            _, state, _ = weigh(jax.tree.map(lambda leaf: leaf[order], batch), state)
        return state

    found = kept(jnp.arange(PROMPTS))
    assert_close(found, kept(jnp.arange(PROMPTS)[::-1]))
    # And it has taken something.
    with pytest.raises(AssertionError):
        assert_close(found, objective.init(SIZES))


@every_objective
def test_shift_and_scale_of_rewards_act_exactly_as_promised(text):
    plain, shifted, scaled = (facts(text)[name][0].advantages for name in ("plain", "shifted", "scaled"))
    assert np.allclose(shifted, plain, rtol=1e-4, atol=1e-5) == ROWS[text].shift
    if ROWS[text].degree is not None:
        assert_close(scaled, plain * 3.0 ** ROWS[text].degree)
    assert np.abs(plain).max() > 0.1


@every_objective
def test_groups_that_say_nothing_get_exactly_zero(text):
    for kind in SILENCE["equal rewards"]:
        promised = kind in SILENCE[ROWS[text].silent]
        assert (np.abs(facts(text)[kind][0].advantages).max() == 0.0) == promised, kind


@every_objective
def test_groups_that_say_nothing_have_no_gradient(text):
    """The gradient is exactly 0, also off-policy: Adam would turn rounding into a step of full size."""
    objective = make(text)
    if objective.penalties or isinstance(objective.surrogate, PULLING):
        pytest.skip("it pulls back to another policy, whatever the rewards")
    for kind in SILENCE[ROWS[text].silent]:
        assert not facts(text)[kind][2].log_probs.any(), kind


@pytest.mark.parametrize("text", slow_unless({*covering(), "tsallis"}, names()))
def test_advantages_are_constants(text):
    objective = make(text)

    def squared(rollouts):
        weights, _, _ = objective.weigh(rollouts, objective.init(SIZES))
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(weights))

    slopes = jax.jit(functools.partial(gradient_by_rollouts, squared))(batches(padding_of(text))[0][0])
    assert all((leaf == 0).all() for leaf in slopes)


@every_objective
def test_what_lies_behind_the_mask_changes_nothing(text):
    _, output, gradient = facts(text)["plain"]
    weights, garbage_output, garbage_gradient = facts(text)["garbage"]
    assert_close(jax.tree.map(lambda leaf: leaf[..., :LENGTH], weights), facts(text)["narrow weights"])
    assert_close((garbage_output, garbage_gradient), (output, gradient))
    mask = batches(padding_of(text))[0][0].token_mask
    for leaf in jax.tree.leaves(garbage_gradient):
        assert not leaf[:, :, :LENGTH][~mask].any()
        assert not leaf[:, :, LENGTH:].any()


@every_objective
def test_tokens_that_the_environment_dictates_change_nothing(text):
    row = ROWS.get(text)
    if not padding_of(text) or (row and row.reads_dictated) or "step_log_backward" in make(text).needs:
        pytest.skip("the width or the dictated tokens mean something, it draws for places, or it is refused there")
    weights, output, gradient = facts(text)["garbage"]

    def moved(leaf):
        return leaf[:, :, BETWEEN] if leaf.shape[2] > 1 else leaf

    assert_close(facts(text)["dictated"], (jax.tree.map(moved, weights), output, jax.tree.map(moved, gradient)))


@every_objective
def test_pieces_of_a_batch_sum_to_the_whole(text):
    """The pieces are as wide as their answers, the whole is wider."""
    pieces, (_, whole, _) = facts(text)["pieces"], facts(text)["plain"]
    pieces = dataclasses.replace(pieces, loss_sum=pieces.loss_sum * factor_of(text))
    assert_close(pieces, dataclasses.replace(whole, metrics={name: whole.metrics[name] for name in pieces.metrics}))


@every_objective
@pytest.mark.parametrize("batch", ["stale", "fresh"])
def test_stale_tokens_leave_gradients_finite(text, batch):
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(facts(text)[batch]))


@pytest.mark.parametrize("text", [text for text in names() if smallest_group(text) > 1])
def test_groups_that_are_too_small_are_refused_when_called_directly(text):
    size = smallest_group(text)
    rollouts, scores = random_rollouts(1, 2, size - 1)
    with pytest.raises(ValueError, match=f"group_size is {size - 1}, it must be at least {size}"):
        make(text)(scores, rollouts, sizes(2))


@pytest.mark.parametrize("text", slow_after(1, EVERY))
def test_the_smallest_groups_are_finite(text):
    objective = make(text)
    rollouts, scores = rollouts_in_numpy(1, smallest_group(text))

    @jax.jit
    def gradient(scores):
        return jax.value_and_grad(lambda scores: objective(scores, rollouts, SIZES).loss_sum)(scores)

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(scores)))


@functools.cache
def longer_batches(padding):
    """The batches `BESIDE_EMPTY`, with empty answers in their groups."""
    wide = batches(padding)[2]
    each = (jax.tree.map(lambda leaf, at=at: leaf[at], wide) for at in range(len(BESIDE_EMPTY)))
    return stacked([with_empty_answers(*batch) for batch in each])


@functools.cache
def gradients_with_empty_answers(text):
    """Name of a batch -> gradients of the mean loss: with empty answers in the groups, and without them for the same
    weights.
    """
    longer = longer_batches(padding_of(text))
    ((weights, _),) = jax.device_get(weights_of(weighing(make(text)), longer[0]))
    # The program of `facts` has more batches: they are there once more.
    again = np.arange(len(batches(padding_of(text))[1])) % len(BESIDE_EMPTY)
    shorter = jax.tree.map(lambda leaf: leaf[again, :, :GROUP], weights)
    of_shorter, _ = losses_and_pieces_of(text, shorter, facts(text)["narrow weights"])
    both = jax.device_get((losses_of(losing(make(text)), (*longer, weights)), of_shorter))
    return {
        name: [mean_gradient(*jax.tree.map(lambda leaf, at=at: leaf[at], found)) for found in both]
        for at, name in enumerate(BESIDE_EMPTY)
    }


def mean_gradient(output, gradient):
    return jax.tree.map(lambda leaf: leaf / output.count, gradient)


beside_empty_answers = pytest.mark.parametrize(
    "text", slow_unless({*covering(), "a2po", "dmpo", "gfpo", "gvpo", "lpo", "tsallis(q=0.5)", "vargrad"}, EVERY)
)


@beside_empty_answers
def test_the_loss_of_a_group_is_that_of_its_answers_without_the_empty_ones(text):
    """Given their weights, of which empty answers are a part: these compare rewards, and an empty one has none."""
    longer, shorter = gradients_with_empty_answers(text)["plain"]
    for found, expected in zip(jax.tree.leaves(longer), jax.tree.leaves(shorter), strict=True):
        assert_close(found[:, :GROUP], expected)
        assert not found[:, GROUP:].any()


@beside_empty_answers
def test_empty_answers_outweigh_no_others(text):
    """They change a gradient as three answers without reward can; as answers of probability 1 they would rule it."""
    if any(isinstance(part, MasteredDivergence) for part in make(text).parts):
        pytest.skip("three answers without reward more may make a group unmastered, which then has another loss")
    _, output, gradient = facts(text)["unlikely"]
    alone = np.float64(mean_gradient(output, gradient).log_probs)
    longer = np.float64(gradients_with_empty_answers(text)["unlikely"][0].log_probs[:, :GROUP])
    size, of_alone = np.linalg.norm(longer), np.linalg.norm(alone)
    assert of_alone / 5 < size < 5 * of_alone
    assert (longer * alone).sum() > 0.5 * size * of_alone
