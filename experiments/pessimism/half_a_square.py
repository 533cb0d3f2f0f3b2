"""Offline RL on a square with data in its left half only: networks learn a model, and the values of a policy in it.

Each seed has a map of its own: rewards, and a wind that pushes, are smooth random functions of the place, so that what
a model makes of the right half is wrong, and as often too good as too bad. The critic (`critic`) is
that of the tables, with samples in the place of sums over all pairs and a network in that of a table:

    beta (E_q Q - E_data Q) + f/2 E_data (Q - BQ)^2 + (1 - f)/2 E_model (Q - BQ)^2

BQ holds the network of slowly following parameters fixed. E_model is over places that walk through the model under
softmax(rate Q); q is the worst distribution near the uniform one over these. The MOPO-like penalty (arXiv 2005.13239)
subtracts the ensemble's disagreement from the model's rewards, not from those of data.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from experiments.pessimism.critic import Pessimism, worst
from experiments.pessimism.half_a_map import MOVES, measured
from ipsrl.study.curves import Points

STEP = 0.1
"""The length of a move."""
WIND = 0.5
"""The standard deviation of the wind, in units of a move."""
LENGTH = 0.25
"""The distance over which rewards and winds are alike."""
WAVES = 64
"""The number of waves in a random function."""
NOISE = 0.1
"""The standard deviation of the noise on observed rewards; that of rewards over the map is 1."""
WIDTH = 32
"""The width of hidden layers."""
MEMBERS = 4
"""The networks of the ensemble."""
BATCH = 64
"""Samples of a step."""
RATE = 3e-3
"""The learning rate of Adam."""
FOLLOW = 0.05
"""The rate at which the parameters of BQ follow those of Q."""
PLACES = 128
"""The number of places in each half at which values are compared."""
HORIZON = 60
"""Steps after which true returns end."""

Network = list[tuple[Array, Array]]
"""Weights and biases."""
Data = tuple[Array, Array, Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Square:
    """A map: the sum of cosine waves `[K, 2]` with phases `[K]` and heights `[K, 3]`, of wind (x, y) and reward."""

    waves: Array
    phases: Array
    heights: Array

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "Square":
        waves = random.normal(size=(WAVES, 2)) / LENGTH
        phases = random.uniform(0, 2 * np.pi, WAVES)
        heights = random.normal(size=(WAVES, 3)) * np.sqrt(2 / WAVES)
        return cls(waves, phases, heights)

    def moved(self, places: Array, actions: Array) -> tuple[Array, Array]:
        """The displacement in steps `[N, 2]`, before walls end it, and the reward `[N]`."""
        found = jnp.cos(places @ self.waves.T + self.phases) @ self.heights
        return jnp.asarray(MOVES)[actions] + WIND * found[:, :2], found[:, 2]


def following(places: Array, displacements: Array) -> Array:
    """The next places `[N, 2]`; walls are known."""
    return jnp.clip(places + STEP * displacements, 0.0, 1.0)


def network(random: np.random.Generator, outputs: int, *shape: int) -> Network:
    """A network at its start, or several with leading axes of this shape."""
    sizes = (2, WIDTH, WIDTH, outputs)
    layers = []
    for inputs, units in itertools.pairwise(sizes):
        weights = random.normal(size=(*shape, inputs, units)) / np.sqrt(inputs)
        layers.append((weights, np.zeros((*shape, units))))
    return layers


def applied(parameters: Network, places: Array) -> Array:
    """`[N, outputs]`, of places scaled so that random functions change over a length of 1."""
    hidden = (places - 0.5) / LENGTH
    for weight, bias in parameters[:-1]:
        hidden = jax.nn.swish(hidden @ weight + bias)
    weight, bias = parameters[-1]
    return hidden @ weight + bias


def predicted(parameters: Network, places: Array, actions: Array) -> Array:
    """`[N, 3]`, displacement in steps and reward."""
    of_moves = applied(parameters, places).reshape(-1, len(MOVES), 3)
    return of_moves[jnp.arange(len(places)), actions]


def index(uniform: Array, size: int) -> Array:
    """Whole numbers below `size`, all equally likely."""
    return (size * uniform).astype(int)


def moves(q: Network, places: Array, rate: Array, uniform: Array) -> Array:
    """`[N]`, moves of softmax(rate Q) by the inverse of their distribution."""
    probs = jax.nn.softmax(rate * applied(q, places))
    below = probs[:, :-1].cumsum(axis=1)
    return (below <= uniform[:, None]).sum(axis=1)


def collected(
    random: np.random.Generator, square: Square, covered: float, samples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data: places `[N, 2]` anywhere left of `covered`, random actions `[N]`, displacements and rewards `[N, 3]`."""
    places = random.uniform(size=(samples, 2)) * [covered, 1.0]
    actions = random.integers(0, len(MOVES), samples)
    displacements, rewards = square.moved(places, actions)
    noisy = rewards + NOISE * random.normal(size=samples)
    outcomes = np.concatenate([displacements, noisy[:, None]], axis=1)
    return places, actions, outcomes


def fitted(key: Array, start: Network, data: Data, steps: int) -> Network:
    """A network of the ensemble, by the squared error of `predicted`."""
    places, actions, outcomes = data
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, steps))

    def step(carried, key):
        parameters, state = carried
        rows = index(jax.random.uniform(key, (BATCH,)), len(places))

        def loss(parameters):
            found = predicted(parameters, places[rows], actions[rows])
            return ((found - outcomes[rows]) ** 2).mean()

        updates, state = optimizer.update(jax.grad(loss)(parameters), state)
        return (optax.apply_updates(parameters, updates), state), None

    carried = start, optimizer.init(start)
    (parameters, _), _ = jax.lax.scan(step, carried, jax.random.split(key, steps))
    return parameters


def improved(
    key: Array,
    start: Network,
    data: Data,
    members: Network,
    critic: Pessimism,
) -> Network:
    """The network of Q, that of slowly following parameters.

    Q is in units of mean rewards, because rewards are multiplied by 1 - discount.
    """
    places, actions, outcomes = data
    discount, share = critic.discount, critic.share
    optimizer = optax.adam(RATE)

    def step(carried, key):
        parameters, slow, state, walking = carried
        # One draw a step, because each adds seconds to compiling.
        of_move, of_member, of_row, of_start, of_end = jax.random.uniform(key, (5, BATCH))
        chosen = moves(slow, walking, critic.rate, of_move)
        each = jax.vmap(predicted, (0, None, None))(members, walking, chosen)
        imagined = each[index(of_member, MEMBERS), jnp.arange(BATCH)]
        disagreement = jnp.sqrt(each.var(axis=0).sum(axis=-1))
        imagined = imagined.at[:, 2].add(-critic.uncertainty * disagreement)
        rows = index(of_row, len(places))
        at = jnp.concatenate([places[rows], walking])
        taken = jnp.concatenate([actions[rows], chosen])
        found = jnp.concatenate([outcomes[rows], imagined])
        after = following(at, found[:, :2])
        next_values = applied(slow, after)
        next_probs = jax.nn.softmax(critic.rate * next_values)
        next_value = (next_probs * next_values).sum(axis=1)
        backed = (1 - discount) * found[:, 2] + discount * next_value

        def loss(parameters):
            q = applied(parameters, at)[jnp.arange(2 * BATCH), taken]
            of_data, of_model = q[:BATCH], q[BATCH:]
            uniform = jnp.full(BATCH, 1 / BATCH)
            lowered = worst(of_model, uniform, critic.radius, critic.ball)
            penalty = jax.lax.stop_gradient(lowered) @ of_model - of_data.mean()
            errors = (q - backed) ** 2 / 2
            fit = share * errors[:BATCH].mean() + (1 - share) * errors[BATCH:].mean()
            return critic.beta * penalty + fit

        updates, state = optimizer.update(jax.grad(loss)(parameters), state)
        parameters = optax.apply_updates(parameters, updates)
        slow = optax.incremental_update(parameters, slow, FOLLOW)
        goes_on = of_end[:, None] < discount
        anew = places[index(of_start, len(places))]
        walking = jnp.where(goes_on, after[BATCH:], anew)
        return (parameters, slow, state, walking), None

    first = places[jnp.arange(BATCH) % len(places)]
    carried = start, start, optimizer.init(start), first
    keys = jax.random.split(key, critic.steps)
    (_, slow, _, _), _ = jax.lax.scan(step, carried, keys)
    return slow


def returns(
    key: Array,
    square: Square,
    q: Network,
    places: Array,
    actions: Array,
    critic: Pessimism,
) -> Array:
    """`[N]`, true returns of an action and then softmax(rate Q), in units of mean rewards."""
    discount = critic.discount

    def step(carried, key):
        places, actions = carried
        displacements, rewards = square.moved(places, actions)
        places = following(places, displacements)
        uniform = jax.random.uniform(key, (len(places),))
        return (places, moves(q, places, critic.rate, uniform)), rewards

    keys = jax.random.split(key, HORIZON)
    _, rewards = jax.lax.scan(step, (places, actions), keys)
    return (1 - discount) * discount ** jnp.arange(HORIZON) @ rewards


def keys_of(seeds: Sequence[int], use: int, number: int) -> Array:
    """`[S, number]`."""

    def of_seed(seed):
        return jax.random.split(jax.random.fold_in(jax.random.key(seed), use), number)

    return jax.vmap(of_seed)(np.array(seeds))


@functools.cache
def learned(
    seeds: tuple[int, ...], samples: int, covered: float, steps: int
) -> tuple[Square, Data, Network, Network]:
    """For each seed: a map, data, an ensemble `[MEMBERS, ...]` fitted to the data, and Q's network at its start.

    Kept, because the arms of a study share them.
    """
    each = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        square = Square.drawn(random)
        members = network(random, len(MOVES) * 3, MEMBERS)
        start = network(random, len(MOVES))
        each.append((square, collected(random, square, covered, samples), members, start))
    squares, data, members, starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    fit = jax.vmap(functools.partial(fitted, steps=steps), (0, 0, None))
    ensembles = jax.jit(jax.vmap(fit))(keys_of(seeds, 0, MEMBERS), members, data)
    return squares, data, ensembles, starts


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, 0, 0, 0, 0, None))
def found(
    keys: Array,
    square: Square,
    data: Data,
    members: Network,
    start: Network,
    critic: Pessimism,
) -> tuple[Array, Array, Array]:
    """Probabilities, Q and true Q, each `[S, 2 PLACES, A]`, at places of the left and then of the right half."""
    q = improved(keys[0], start, data, members, critic)
    left = jax.random.uniform(keys[1], (PLACES, 2)) * jnp.array([0.5, 1.0])
    places = jnp.concatenate([left, left + jnp.array([0.5, 0.0])])
    at = jnp.repeat(places, len(MOVES), axis=0)
    actions = jnp.tile(jnp.arange(len(MOVES)), len(places))
    values = applied(q, places)
    exact = returns(keys[2], square, q, at, actions, critic)
    return jax.nn.softmax(critic.rate * values), values, exact.reshape(values.shape)


def runs(critic: Pessimism, seeds: Sequence[int], samples: int, covered: float) -> Points:
    """The values of `measured` for each seed, for starts at all places of the left half, in units of mean rewards.

    Args:
      critic: its rate is that of the policy softmax(rate Q); its steps are also those that train the model.
      samples: transitions in the data, at random places and of random moves.
      covered: how much of the square data cover, from the left: 0.5, or 1 for all.
    """
    shared = learned(tuple(seeds), samples, covered, critic.steps)
    of_seeds = found(keys_of(seeds, 1, 3), *shared, critic)
    seen = np.repeat([True, covered > 0.5], PLACES)[:, None]
    seen = np.broadcast_to(seen, of_seeds[0].shape)
    return Points([critic.steps], measured(*of_seeds, seen, slice(PLACES)), seeds)
