"""Networks of four tanh units, too small to fit the common inputs and the rare ones of `shifted_inputs` at once.

Common inputs: a square wave of +-eps that four units can fit. Rare inputs: a step of +-STEP eps sqrt(C), which takes
two of them, so that eps is within reach everywhere: 0 on common inputs, and the step. Least squares has other uses for
them.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from experiments.covariate_shift.disagreement import (
    compared,
    disagreement_regression,
    least_squares,
    smooth_game,
)
from experiments.covariate_shift.shifted_inputs import (
    COMMON,
    EPS,
    NOISE,
    RARE,
    law,
    points,
    sampled,
)
from ipsrl.study.curves import Points

UNITS = 4
STEP = 0.4
RATE = 0.01
INPUTS = np.concatenate([np.linspace(-1, 1, COMMON), np.linspace(2, 3, RARE)])
MULTIPLE = 3.0
"""The threshold, in units of eps."""
METHODS = (
    "least squares",
    "exact, among these",
    "exact, with the game's",
    "game, first start",
    "game, best start",
)
Parameters = dict[str, Array]


def target(ratio: float) -> np.ndarray:
    """`[M]`, f*."""
    jumps = np.linspace(-1, 1, UNITS + 2)[1:-1]
    wave = (-1.0) ** (INPUTS[:COMMON, None] > jumps).sum(axis=1)
    step = STEP * np.sqrt(ratio) * np.repeat([-1.0, 1.0], RARE // 2)
    return EPS * np.concatenate([wave, step])


def predict(parameters: Parameters) -> Array:
    """`[M]`."""
    hidden = jnp.tanh(INPUTS[:, None] * parameters["weights"] + parameters["offsets"])
    return hidden @ parameters["outputs"] + parameters["constant"]


def initial(key: Array) -> Parameters:
    """Units whose middles lie anywhere among the inputs."""
    keys = jax.random.split(key, 3)
    weights = 3 * jax.random.normal(keys[0], (UNITS,))
    middles = jax.random.uniform(keys[1], (UNITS,), minval=-2, maxval=3)
    outputs = 0.1 * jax.random.normal(keys[2], (UNITS,))
    return {
        "weights": weights,
        "offsets": -weights * middles,
        "outputs": outputs,
        "constant": jnp.zeros(()),
    }


def trained(key: Array, counts: Array, sums: Array, width: float, steps: int, starts: int) -> Array:
    """`[3, N, M]`, values of networks from N starts: by least squares, and f and g of the smooth game."""
    optimizer, threshold = optax.adam(RATE), MULTIPLE * EPS

    def risk(parameters):
        values = predict(parameters)
        return (values**2 @ counts - 2 * values @ sums) / counts.sum() / EPS**2

    def game(first, second):
        values = predict(first), predict(second)
        return compared(*values, counts, sums, threshold, width) / threshold**2

    def step(carried, _):
        parameters, state = carried
        updates, state = optimizer.update(jax.grad(risk)(parameters), state)
        return (optax.apply_updates(parameters, updates), state), None

    def one(key):
        of_least, of_first, of_second = map(initial, jax.random.split(key, 3))
        start = of_least, optimizer.init(of_least)
        (least, _), _ = jax.lax.scan(step, start, length=steps)
        networks = least, *smooth_game(game, of_first, of_second, steps, RATE)
        return jnp.stack([predict(each) for each in networks])

    return jax.vmap(one, out_axes=1)(jax.random.split(key, starts))


def networks(
    width: float,
    ratios: Sequence[float],
    samples: int,
    seeds: Sequence[int],
    steps: int,
    starts: int,
) -> Points:
    """error: mean squared error on rare inputs in eps^2, of each seed, for each C and each method of `chosen`.

    Args:
      width: of the game's smooth gate, in tau = 3 eps.
      ratios: values of C.
      samples: in a set of data.
      steps: of Adam, in each training.
      starts: networks of each kind.
    """
    errors = np.empty((len(seeds), len(ratios), len(METHODS)))
    run = jax.jit(jax.vmap(lambda *data: trained(*data, width * MULTIPLE * EPS, steps, starts)))
    for column, ratio in enumerate(ratios):
        draws = [
            sampled(np.random.default_rng([seed, round(ratio)]), law(ratio), [samples], NOISE)
            for seed in seeds
        ]
        counts, sums = (np.stack(arrays) for arrays in zip(*draws, strict=True))
        sums += counts * target(ratio)[:, None]
        keys = jax.vmap(jax.random.key)(np.array(seeds))
        found = run(keys, jnp.asarray(counts[..., 0]), jnp.asarray(sums[..., 0]))
        values = np.asarray(found, np.float64)
        for row, of_seed in enumerate(zip(values, counts, sums, strict=True)):
            taken = chosen(*of_seed)
            wrong = np.stack([taken[method] - target(ratio) for method in METHODS])
            errors[row, column] = (wrong[:, COMMON:] ** 2).mean(axis=1) / EPS**2
    of_seeds = errors.reshape(len(seeds), -1)
    methods = METHODS * len(ratios)
    places = np.repeat(ratios, len(METHODS))
    return points(seeds, places, [samples] * len(places), method=methods, error=of_seeds)


def chosen(values: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> dict[str, np.ndarray]:
    """`[M]` for each of `METHODS`, from values `[3, N, M]` of `trained` and data `[M, 1]`.

    least squares: of N networks that descended the squared error, that of the least one.
    exact, among these: `disagreement_regression` on the class of these N.
    exact, with the game's: and of the 2 N of the smooth game.
    game, first start: f of the first game.
    game, best start: f of the game with the least max of L(f, g), hard gate, over all 3 N networks.
    """
    pool = values.reshape(-1, values.shape[-1])
    threshold = MULTIPLE * EPS

    def robust(among):
        return among[disagreement_regression(among, counts, sums, threshold)[0]]

    descended, games, _ = values
    least = descended[least_squares(descended, counts, sums)[0]]
    worst = [
        np.asarray(compared(game, pool, counts[:, 0], sums[:, 0], threshold)).max()
        for game in games
    ]
    taken = (least, robust(descended), robust(pool), games[0], games[np.argmin(worst)])
    return dict(zip(METHODS, taken, strict=True))
