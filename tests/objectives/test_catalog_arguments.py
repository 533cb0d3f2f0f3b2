"""Every option of the catalog and of its parts is worth having: changing it changes something."""

import dataclasses
import functools
import inspect
import itertools
import types
import typing

import jax
import numpy as np
import pytest

from ipsrl.objectives import Objective, make, names
from ipsrl.objectives.catalog import CATALOG
from ipsrl.structures import Rollouts
from tests.objectives.declared import ROWS
from tests.objectives.groups import random_rollouts, sizes
from tests.tiers import slow_unless

EVERY = dict.fromkeys([*names(), *ROWS])
PROMPTS, GROUP, LENGTH = 4, 7, 5
SIZES = sizes(PROMPTS)


def alternatives(value, hint):
    """Lists of other values of a hyper-parameter: one of each list must make a difference."""
    if hasattr(hint, "NAMED"):
        return [others for made in hint.NAMED.values() for others in calls(made)]
    if typing.get_origin(hint) is tuple:
        return [
            [tuple(first + 0.1 * place for place in range(len(typing.get_args(hint)))) for first in (0.05, 0.3, 1.2)]
        ]
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


def calls(function):
    """Lists of what a named argument can be: its smallest call, and for each further argument other values of it."""
    parameters, hints = inspect.signature(function).parameters, typing.get_type_hints(function)
    needed = {name: 0.5 for name, parameter in parameters.items() if parameter.default is parameter.empty}
    yield [function(**needed)]
    for name, parameter in parameters.items():
        for others in alternatives(parameter.default, hints[name]) if name not in needed else ():
            yield [made for other in others if (made := valid(function, **needed | {name: other})) is not None]


@functools.cache
def three_batches():
    found = []
    for number, seed in ((1, 1), (1, 0), (2, 24)):
        rollouts, scores = random_rollouts(seed, PROMPTS, GROUP, LENGTH)
        rewards = rollouts.rewards.at[0].set(0.0).at[1].set(number).at[2, 3].set(1.25)  # One group has a single best.
        scores = dataclasses.replace(scores, prompt_log_probs=0.9 * rollouts.prompt_log_probs)
        # In one group every token is the likeliest.
        tokens = rollouts.tokens.at[2].set(rollouts.top_tokens[2, ..., 0])
        found.append((dataclasses.replace(rollouts, rewards=rewards, tokens=tokens), scores))
    return found


@functools.cache
def consequences(objective):
    """Advantages, loss, count and gradient of the last of three batches, one array; what is learned learns in all.

    Not compiled: nearly every objective is looked at once, and compiling one takes as long as ten runs of it.
    """
    state, parameters = objective.init(SIZES), objective.init_parameters(SIZES)
    *earlier, last = three_batches()

    def weigh(rollouts, state):
        weights, state, _ = objective.weigh(rollouts, state)
        return objective.weights_of_steps(weights, rollouts)[-1], state

    def gradients(rollouts, scores, weights, parameters):
        def loss(scores, parameters):
            output = objective.loss(scores, rollouts, weights, parameters)
            return output.loss_sum, output

        return jax.grad(loss, argnums=(0, 1), has_aux=True)(scores, parameters)

    # Where nothing is learned, earlier batches leave nothing.
    for rollouts, scores in earlier if jax.tree.leaves((state, parameters)) else ():
        weights, state = weigh(rollouts, state)
        if parameters:
            (_, slope), _ = gradients(rollouts, scores, weights, parameters)
            parameters = jax.tree.map(lambda value, d: value - objective.surrogate.learning_rate * d, parameters, slope)
    rollouts, scores = last
    weights, _ = weigh(rollouts, state)
    (gradient, _), output = gradients(rollouts, scores, weights, parameters)
    advantages = np.where(rollouts.token_mask, weights.advantages, 0.0)
    parts = (advantages, gradient.log_probs, gradient.top_log_probs, output.loss_sum, output.count)
    return np.concatenate([np.ravel(part) for part in parts])


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
    """It does so on its own, or beside one or two other arguments that are not at their defaults."""
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
        # Not every objective can have every divergence.
        possible = [other for other in others if valid(build, **{argument: other}) is not None]
        named = any(hasattr(option, "NAMED") for option in typing.get_args(hints[argument]) or [hints[argument]])
        if named and not possible:
            continue
        assert any(matters(context, other) for context in contexts for other in others), others


def parts(objective):
    for field in dataclasses.fields(Objective):
        value = getattr(objective, field.name)
        yield from value if isinstance(value, tuple) else () if value is None else (value,)


def with_part(objective, part, new):
    def swap(value):
        return tuple(map(swap, value)) if isinstance(value, tuple) else (new if value == part else value)

    return Objective(**{field.name: swap(getattr(objective, field.name)) for field in dataclasses.fields(Objective)})


CARRIERS = {}
"""Kind of part -> the objectives that have one, with it."""
for objective in map(make, EVERY):
    for part in parts(objective):
        CARRIERS.setdefault(type(part), []).append((objective, part))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field.name) for kind in CARRIERS for field in dataclasses.fields(kind)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_field_of_every_part_changes_something(kind, field):
    hint = typing.get_type_hints(kind)[field]

    def matters(objective, part, other):
        new = valid(functools.partial(dataclasses.replace, part), **{field: other})
        return new is not None and differ(objective, with_part(objective, part, new))

    for others in alternatives(getattr(CARRIERS[kind][0][1], field), hint):
        assert any(matters(*carrier, other) for carrier in CARRIERS[kind] for other in others), others


GIVEN = {field.name for field in dataclasses.fields(Rollouts) if field.default is None}
GIVEN -= {"top_tokens", "prompt_mask", "next_states"}
"""Optional fields of rollouts that come alone, or bring these along."""


@pytest.mark.parametrize("text", slow_unless(names(), EVERY))
def test_an_objective_needs_the_optional_fields_that_it_names_and_no_others(text):
    objective, (rollouts, scores) = make(text), three_batches()[0]

    def loss(without):
        given = dataclasses.replace(rollouts, **dict.fromkeys(without))
        return jax.eval_shape(functools.partial(objective, sizes=SIZES), scores, given)

    loss(GIVEN - objective.needs)
    for name in objective.needs & GIVEN:
        with pytest.raises(ValueError, match=f"^the objective reads {name}, which these rollouts do not have"):
            loss({name})
