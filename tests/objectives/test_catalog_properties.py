"""What every objective promises, generated from the catalog: `rows.py` says what a new row has to declare."""

import dataclasses
import functools
import inspect
import itertools
import types
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from declared import ROWS
from groups import random_rollouts, sizes
from rows import SILENCE

from ipsrl.objectives import Objective, make, names
from ipsrl.objectives.aggregation import SequenceSum
from ipsrl.objectives.catalog import CATALOG
from ipsrl.objectives.objective import FIELDS_BY_SHAPE

EVERY = [*names(), *(text for text in ROWS if text not in names())]
# Every row by itself, and as a slow test with each declared variant of its arguments.
every_objective = pytest.mark.parametrize(
    "text", [text if text in names() else pytest.param(text, marks=pytest.mark.slow) for text in EVERY]
)

PROMPTS, GROUP, LENGTH = 4, 7, 5  # float32's mean of seven times 0.1 is not 0.1
SIZES = sizes(PROMPTS)
GROUP_FIELDS = [name for axes in ("PG", "PGT", "PGTK") for name in FIELDS_BY_SHAPE[axes]] + ["tokens"]
TOKEN_FIELDS = [*FIELDS_BY_SHAPE["PGT"], "tokens"]


@pytest.fixture(scope="module")
def batch():
    """Groups without reward, with reward for all, and two mixed ones; rewards are 0, 0.5 or 1."""
    rollouts, scores = random_rollouts(0, PROMPTS, GROUP, LENGTH)
    rewards = rollouts.rewards.at[0].set(0.0).at[1].set(1.0).at[2:, 0].set(0.5)
    return dataclasses.replace(rollouts, rewards=rewards), scores


def evaluate(objective, scores, rollouts):
    """Weights, the output of a batch on its own, and the gradient of the loss by the scores."""
    weights, _, _ = objective.weigh(rollouts, objective.init(SIZES))

    def loss(scores):
        output = objective(scores, rollouts, SIZES)
        return output.loss_sum, output

    gradient, output = jax.grad(loss, has_aux=True)(scores)
    return weights, output, gradient


compiled = jax.jit(evaluate, static_argnames="objective")


def assert_close(actual, expected, rtol=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5), actual, expected)


def replace_fields(change, structure, fields):
    return dataclasses.replace(structure, **{name: change(getattr(structure, name)) for name in fields})


@pytest.mark.parametrize("name", names())
def test_every_row_of_the_catalog_is_declared(name):
    assert name in ROWS, f"declare {name!r} in a module rows_*.py, as its paper's formula says"


@every_objective
def test_jit_changes_nothing(text, batch):
    rollouts, scores = batch
    assert_close(compiled(make(text), scores, rollouts), evaluate(make(text), scores, rollouts))


@every_objective
@pytest.mark.parametrize("axis", [0, 1], ids=["prompts", "group"])
def test_order_does_not_matter(text, axis, batch):
    if axis == 1 and text in ROWS and ROWS[text].draws:
        pytest.skip("it draws for each place in the group")
    rollouts, scores = batch
    order = np.random.default_rng(1).permutation((PROMPTS, GROUP)[axis])

    def reorder(values):
        return jnp.take(values, order, axis)

    reordered = jax.tree.map(reorder, rollouts) if axis == 0 else replace_fields(reorder, rollouts, GROUP_FIELDS)
    weights, output, gradient = compiled(make(text), scores, rollouts)
    after = compiled(make(text), jax.tree.map(reorder, scores), reordered)
    # A coefficient has 1 in the place of an axis along which it is constant.
    expected = jax.tree.map(lambda leaf: reorder(leaf) if leaf.shape[axis] > 1 else leaf, weights)
    assert_close(after, (expected, output, jax.tree.map(reorder, gradient)))


@every_objective
def test_shift_and_scale_of_rewards_act_exactly_as_promised(text, batch):
    rollouts, scores = batch

    def advantages(rewards):
        return compiled(make(text), scores, dataclasses.replace(rollouts, rewards=rewards))[0].advantages

    plain = advantages(rollouts.rewards)
    shifted, scaled = advantages(rollouts.rewards + 0.75), advantages(rollouts.rewards * 3.0)
    assert np.allclose(shifted, plain, rtol=1e-4, atol=1e-5) == ROWS[text].shift
    if ROWS[text].degree is not None:
        assert_close(scaled, plain * 3.0 ** ROWS[text].degree)
    assert np.abs(plain).max() > 0.1


@every_objective
def test_groups_that_say_nothing_get_exactly_zero(text, batch):
    rollouts, scores = batch
    equal = jnp.full_like(rollouts.rewards, 0.1)
    assert (equal.mean(axis=-1) != equal[:, 0]).all()  # so that subtracting the mean alone would not do
    groups = {
        "no reward": dataclasses.replace(rollouts, rewards=jnp.zeros_like(equal)),
        "one outcome": dataclasses.replace(rollouts, rewards=equal, outcome_id=jnp.ones_like(rollouts.outcome_id)),
        "equal rewards": dataclasses.replace(rollouts, rewards=equal),
    }
    for kind, silent in groups.items():
        weights, _, _ = compiled(make(text), scores, silent)
        promised = SILENCE.index(kind) <= SILENCE.index(ROWS[text].silent)
        assert (np.abs(weights.advantages).max() == 0.0) == promised, kind


@every_objective
def test_advantages_are_constants(text, batch):
    """No gradient reaches the rollouts but the one that a loss with given advantages sends there by itself."""
    rollouts, scores = batch
    objective = make(text)
    is_real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(rollouts)]

    def gradient(function):
        leaves, structure = jax.tree.flatten(rollouts)

        def of_reals(reals):
            reals = iter(reals)
            merged = [next(reals) if real else leaf for real, leaf in zip(is_real, leaves, strict=True)]
            return function(jax.tree.unflatten(structure, merged))

        return jax.grad(of_reals)([leaf for real, leaf in zip(is_real, leaves, strict=True) if real])

    def weighed(rollouts):
        return objective.weigh(rollouts, objective.init(SIZES))[0]

    def squared(rollouts):
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(weighed(rollouts)))

    assert all((leaf == 0).all() for leaf in gradient(squared))
    fixed = weighed(rollouts)
    assert_close(
        gradient(lambda rollouts: objective(scores, rollouts, SIZES).loss_sum),
        gradient(lambda rollouts: objective.loss(scores, rollouts, fixed, objective.init_parameters(SIZES)).loss_sum),
    )


@every_objective
def test_padding_changes_nothing(text, batch):
    if text in ROWS and ROWS[text].draws:
        pytest.skip("it draws for each place in the arrays")
    if text in ROWS and ROWS[text].reads_width:
        pytest.skip("the width of the arrays is the longest possible answer to it")
    rollouts, scores = batch
    rng = np.random.default_rng(2)

    def pad(values, columns=(0, 3), axis=2):
        widths = [(0, 0)] * values.ndim
        widths[axis] = columns
        if values.dtype == bool:
            return jnp.pad(values, widths)
        garbage = jnp.asarray(rng.uniform(-60, 60, np.pad(values, widths).shape), values.dtype)
        return jnp.where(np.pad(np.ones(values.shape, bool), widths), jnp.pad(values, widths), garbage)

    padded = replace_fields(pad, rollouts, [*TOKEN_FIELDS, *FIELDS_BY_SHAPE["PGTK"]])
    padded = replace_fields(lambda values: pad(values, (2, 0), axis=1), padded, FIELDS_BY_SHAPE["PL"])
    weights, output, gradient = compiled(make(text), scores, rollouts)
    wide_weights, wide_output, wide_gradient = evaluate(make(text), jax.tree.map(pad, scores), padded)

    # A constant length is the one thing that the width of the arrays may legitimately mean.
    constant_length = make(text).aggregation == SequenceSum(length=None)
    factor = LENGTH / (LENGTH + 3) if constant_length else 1.0
    assert_close(jax.tree.map(lambda leaf: leaf[..., :LENGTH], wide_weights), weights)
    assert_close(wide_output, dataclasses.replace(output, loss_sum=output.loss_sum * factor))
    for wide, narrow in zip(jax.tree.leaves(wide_gradient), jax.tree.leaves(gradient), strict=True):
        assert_close(wide, np.pad(narrow * factor, ((0, 0), (0, 0), (0, 3), (0, 0))[: narrow.ndim]))
        assert not wide[~padded.token_mask].any()


@every_objective
def test_pieces_of_a_batch_sum_to_the_whole(text, batch):
    rollouts, scores = batch
    objective = make(text)
    parameters = objective.init_parameters(SIZES)
    weights, _, _ = objective.weigh(rollouts, objective.init(SIZES))
    whole = (scores, rollouts, weights)
    halves = [
        jax.tree.map(lambda leaf: leaf[: PROMPTS // 2], whole),
        jax.tree.map(lambda leaf: leaf[PROMPTS // 2 :], whole),
    ]
    statistics = jax.tree.map(jnp.add, *(objective.statistics(*half) for half in halves))
    parts = [objective.loss(*half, parameters, statistics) for half in halves]
    assert_close(jax.tree.map(jnp.add, *parts), objective.loss(*whole, parameters))


@every_objective
@pytest.mark.parametrize("log_ratio", [100.0, -100.0])
def test_stale_tokens_leave_gradients_finite(text, log_ratio, batch):
    rollouts, scores = batch
    stale = dataclasses.replace(scores, log_probs=rollouts.behaviour_log_probs + log_ratio)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(compiled(make(text), stale, rollouts)))


# Every option is worth having: changing it changes something.


def alternatives(value, hint):
    """Lists of other values of a hyper-parameter: one of each list must make a difference."""
    if typing.get_origin(hint) is typing.Literal:
        return [[option] for option in typing.get_args(hint) if option != value]
    if dataclasses.is_dataclass(hint):
        inner = {field.name: typing.get_type_hints(hint)[field.name] for field in dataclasses.fields(hint)}
        change = functools.partial(dataclasses.replace, value)
        return [
            [new for other in others if (new := valid(change, **{name: other})) is not None]
            for name in inner
            for others in alternatives(getattr(value, name), inner[name])
        ]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        found = [lists for option in typing.get_args(hint) for lists in alternatives(value, option)]
        return [[other for others in found for other in others]]
    known = {bool: [not value], int: [1, 2, 3, 4], float: [0.05, 0.5, 0.9, 1.7], types.NoneType: [None]}
    return [[other for other in known[hint] if other != value]]


@functools.cache
def consequences(objective):
    """Advantages, loss, count and gradient of the second of two batches, one array; what is learned learns in both."""
    state, parameters = objective.init(SIZES), objective.init_parameters(SIZES)

    def loss(scores, parameters):
        output = objective.loss(scores, rollouts, weights, parameters)
        return output.loss_sum, output

    for number, seed in enumerate((0, 24), start=1):
        rollouts, scores = random_rollouts(seed, PROMPTS, GROUP, LENGTH)
        rollouts = dataclasses.replace(rollouts, rewards=rollouts.rewards.at[0].set(0.0).at[1].set(number))
        weights, state, _ = objective.weigh(rollouts, state)
        weights = objective.at_stage(weights, rollouts, objective.num_stages - 1)
        (gradient, slope), output = jax.grad(loss, argnums=(0, 1), has_aux=True)(scores, parameters)
        parameters = jax.tree.map(lambda value, d: value - objective.surrogate.learning_rate * d, parameters, slope)
    advantages = np.where(rollouts.token_mask, weights.advantages, 0.0)
    return np.append(np.stack([advantages, gradient.log_probs]), [output.loss_sum, output.count])


def differ(objective, other):
    return not np.allclose(consequences(objective), consequences(other), rtol=1e-4, atol=1e-6)


def valid(build, **arguments):
    try:
        return build(**arguments)
    except ValueError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, argument) for name in names() for argument in inspect.signature(CATALOG[name]).parameters],
)
def test_every_argument_of_the_catalog_changes_something(name, argument):
    """On its own, or next to one or two other arguments that are not at their defaults."""
    build = CATALOG[name]
    hints = typing.get_type_hints(build)
    defaults = {key: parameter.default for key, parameter in inspect.signature(build).parameters.items()}
    elsewhere = [
        (key, other)
        for key in defaults
        if key != argument
        for others in alternatives(defaults[key], hints[key])
        for other in others
    ]
    contexts = [dict(changes) for count in range(3) for changes in itertools.combinations(elsewhere, count)]

    def matters(context, other):
        before, after = valid(build, **context), valid(build, **context | {argument: other})
        return before is not None and after is not None and differ(before, after)

    for others in alternatives(defaults[argument], hints[argument]):
        assert any(matters(context, other) for context in contexts for other in others), others


def parts(objective):
    for field in dataclasses.fields(Objective):
        value = getattr(objective, field.name)
        yield from value if isinstance(value, tuple) else () if value is None else (value,)


def with_part(objective, part, new):
    def swap(value):
        return tuple(map(swap, value)) if isinstance(value, tuple) else (new if value == part else value)

    return Objective(**{field.name: swap(getattr(objective, field.name)) for field in dataclasses.fields(Objective)})


PART_FIELDS = {
    (type(part), field.name): None for text in EVERY for part in parts(make(text)) for field in dataclasses.fields(part)
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "field"), PART_FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_every_field_of_every_part_changes_something(kind, field):
    carriers = [(make(text), part) for text in EVERY for part in parts(make(text)) if type(part) is kind]
    hint = typing.get_type_hints(kind)[field]

    def matters(objective, part, other):
        new = valid(functools.partial(dataclasses.replace, part), **{field: other})
        return new is not None and differ(objective, with_part(objective, part, new))

    for others in alternatives(getattr(carriers[0][1], field), hint):
        assert any(matters(*carrier, other) for carrier in carriers for other in others), others
