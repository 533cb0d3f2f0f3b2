"""A square of which data cover the left half: networks learn a model of it, and the values of a policy in that model.

Each seed has a map of its own: rewards, and a wind that pushes, are smooth random functions of the place, so that what
a model makes of the right half is wrong, and as often too good as too bad. The critic (`critic`) is
that of the tables, with samples in the place of sums over all pairs and a network in that of a table:

    beta (E_q Q - E_data Q) + share 1/2 E_data (Q - BQ)^2 + (1 - share) 1/2 E_model (Q - BQ)^2

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
from ipsrl.study.curves import Points

MOVES = np.array([[0, 1], [0, -1], [-1, 0], [1, 0]])
"""Up, down, left, right; a move has the length `STEP`."""
STEP, WIND = 0.1, 0.5
"""Of a move; standard deviation of the wind in units of it."""
LENGTH, WAVES = 0.25, 64
"""How far off places are alike, and the number of waves that make up a random function."""
NOISE = 0.1
"""Of observed rewards, which have a standard deviation of 1 over the map."""
WIDTH, MEMBERS, BATCH, RATE, FOLLOW = 32, 4, 64, 3e-3, 0.05
"""Of hidden layers; of the ensemble; of samples a step; of Adam; of the parameters that follow."""
PLACES, HORIZON = 128, 60
"""In each half, at which values are compared; steps after which true returns end."""

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
        waves, phases = random.normal(size=(WAVES, 2)) / LENGTH, random.uniform(0, 2 * np.pi, WAVES)
        return cls(waves, phases, random.normal(size=(WAVES, 3)) * np.sqrt(2 / WAVES))

    def moved(self, places: Array, actions: Array) -> tuple[Array, Array]:
        """The displacement in steps `[N, 2]`, before walls end it, and the reward `[N]`."""
        found = jnp.cos(places @ self.waves.T + self.phases) @ self.heights
        return jnp.asarray(MOVES)[actions] + WIND * found[:, :2], found[:, 2]


def following(places: Array, displacements: Array) -> Array:
    """The next places `[N, 2]`; walls are known."""
    return jnp.clip(places + STEP * displacements, 0.0, 1.0)


def network(random: np.random.Generator, outputs: int, *shape: int) -> Network:
    """At its start; several of them with leading axes of this shape."""
    sizes = (2, WIDTH, WIDTH, outputs)
    weights = [
        random.normal(size=(*shape, *pair)) / np.sqrt(pair[0]) for pair in itertools.pairwise(sizes)
    ]
    return [(weight, np.zeros((*shape, weight.shape[-1]))) for weight in weights]


def applied(parameters: Network, places: Array) -> Array:
    """`[N, outputs]`, of places scaled so that random functions change over a length of 1."""
    hidden = (places - 0.5) / LENGTH
    for weight, bias in parameters[:-1]:
        hidden = jax.nn.swish(hidden @ weight + bias)
    return hidden @ parameters[-1][0] + parameters[-1][1]


def predicted(parameters: Network, places: Array, actions: Array) -> Array:
    """`[N, 3]`, displacement in steps and reward."""
    return applied(parameters, places).reshape(len(places), len(MOVES), 3)[
        jnp.arange(len(places)), actions
    ]


def index(uniform: Array, size: int) -> Array:
    """Whole numbers below `size`, all equally likely."""
    return (size * uniform).astype(int)


def moves(q: Network, places: Array, rate: Array, uniform: Array) -> Array:
    """`[N]`, moves of softmax(rate Q) by the inverse of their distribution."""
    below = jax.nn.softmax(rate * applied(q, places))[:, :-1].cumsum(axis=1)
    return (below <= uniform[:, None]).sum(axis=1)


def collected(
    random: np.random.Generator, square: Square, covered: float, samples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data: places `[N, 2]` anywhere left of `covered`, random actions `[N]`, displacements and rewards `[N, 3]`."""
    places, actions = (
        random.uniform(size=(samples, 2)) * [covered, 1.0],
        random.integers(0, len(MOVES), samples),
    )
    displacements, rewards = square.moved(places, actions)
    noisy = rewards + NOISE * random.normal(size=samples)
    return places, actions, np.concatenate([displacements, noisy[:, None]], axis=1)


def fitted(key: Array, start: Network, data: Data, steps: int) -> Network:
    """A network of the ensemble, by the squared error of `predicted`."""
    places, actions, outcomes = data
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, steps))

    def step(carried: tuple, key: Array) -> tuple[tuple, None]:
        parameters, state = carried
        rows = index(jax.random.uniform(key, (BATCH,)), len(places))

        def loss(parameters: Network) -> Array:
            return (
                (predicted(parameters, places[rows], actions[rows]) - outcomes[rows]) ** 2
            ).mean()

        updates, state = optimizer.update(jax.grad(loss)(parameters), state)
        return (optax.apply_updates(parameters, updates), state), None

    return jax.lax.scan(step, (start, optimizer.init(start)), jax.random.split(key, steps))[0][0]


def improved(
    key: Array,
    start: Network,
    data: Data,
    members: Network,
    of: dict[str, Array],
    ball: str,
    steps: int,
) -> Network:
    """The network of Q, that of slowly following parameters.

    Q is in units of mean rewards, because rewards are multiplied by 1 - discount.
    """
    places, actions, outcomes = data
    optimizer = optax.adam(RATE)

    def step(carried: tuple, key: Array) -> tuple[tuple, None]:
        parameters, slow, state, walking = carried
        # One draw a step, because each adds seconds to compiling.
        of_move, of_member, of_row, of_start, of_end = jax.random.uniform(key, (5, BATCH))
        chosen = moves(slow, walking, of["rate"], of_move)
        each = jax.vmap(predicted, (0, None, None))(members, walking, chosen)
        imagined = each[index(of_member, MEMBERS), jnp.arange(BATCH)]
        disagreement = jnp.sqrt(each.var(axis=0).sum(axis=-1))
        imagined = imagined.at[:, 2].add(-of["uncertainty"] * disagreement)
        rows = index(of_row, len(places))
        at, taken = (
            jnp.concatenate([places[rows], walking]),
            jnp.concatenate([actions[rows], chosen]),
        )
        found = jnp.concatenate([outcomes[rows], imagined])
        after = following(at, found[:, :2])
        next_values = applied(slow, after)
        next_value = (jax.nn.softmax(of["rate"] * next_values) * next_values).sum(axis=1)
        backed = (1 - of["discount"]) * found[:, 2] + of["discount"] * next_value

        def loss(parameters: Network) -> Array:
            q = applied(parameters, at)[jnp.arange(2 * BATCH), taken]
            of_data, of_model = q[:BATCH], q[BATCH:]
            lowered = jax.lax.stop_gradient(
                worst(of_model, jnp.full(BATCH, 1 / BATCH), of["radius"], ball)
            )
            errors = (q - backed) ** 2 / 2
            fit = of["share"] * errors[:BATCH].mean() + (1 - of["share"]) * errors[BATCH:].mean()
            return of["beta"] * (lowered @ of_model - of_data.mean()) + fit

        updates, state = optimizer.update(jax.grad(loss)(parameters), state)
        parameters = optax.apply_updates(parameters, updates)
        slow = optax.incremental_update(parameters, slow, FOLLOW)
        walking = jnp.where(
            of_end[:, None] < of["discount"], after[BATCH:], places[index(of_start, len(places))]
        )
        return (parameters, slow, state, walking), None

    carried = start, start, optimizer.init(start), places[jnp.arange(BATCH) % len(places)]
    return jax.lax.scan(step, carried, jax.random.split(key, steps))[0][1]


def returns(
    key: Array, square: Square, q: Network, places: Array, actions: Array, of: dict[str, Array]
) -> Array:
    """`[N]`, true returns of an action and then softmax(rate Q), in units of mean rewards."""

    def step(carried: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], Array]:
        places, actions = carried
        displacements, rewards = square.moved(places, actions)
        places = following(places, displacements)
        return (
            places,
            moves(q, places, of["rate"], jax.random.uniform(key, (len(places),))),
        ), rewards

    rewards = jax.lax.scan(step, (places, actions), jax.random.split(key, HORIZON))[1]
    return (1 - of["discount"]) * of["discount"] ** jnp.arange(HORIZON) @ rewards


@functools.cache
def learned(
    seeds: tuple[int, ...], samples: int, covered: float, steps: int
) -> tuple[Square, Data, Network, Network]:
    """Of each seed a map, data, an ensemble `[MEMBERS, ...]` fitted to these, and Q's network at its start.

    Kept, because the arms of a study share them.
    """
    each = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        square = Square.drawn(random)
        of_members, start = network(random, len(MOVES) * 3, MEMBERS), network(random, len(MOVES))
        each.append((square, collected(random, square, covered, samples), of_members, start))
    squares, data, members, starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    return squares, data, _fitted(_keys(seeds, 0, MEMBERS), members, data, steps), starts


def _keys(seeds: Sequence[int], use: int, number: int) -> Array:
    """`[S, number]`."""
    return jax.vmap(
        lambda seed: jax.random.split(jax.random.fold_in(jax.random.key(seed), use), number)
    )(np.array(seeds))


@functools.partial(jax.jit, static_argnums=3)
def _fitted(keys: Array, members: Network, data: Data, steps: int) -> Network:
    return jax.vmap(
        jax.vmap(lambda key, start, data: fitted(key, start, data, steps), (0, 0, None))
    )(keys, members, data)


@functools.partial(jax.jit, static_argnums=(6, 7))
def _compared(
    keys: Array,
    squares: Square,
    data: Data,
    members: Network,
    starts: Network,
    of: dict[str, Array],
    ball: str,
    steps: int,
) -> tuple[Array, Array, Array]:
    """Of each seed, probabilities, Q and true Q `[S, 2, PLACES, A]` at places in the left and in the right half."""

    def one(
        keys: Array, square: Square, data: Data, members: Network, start: Network
    ) -> tuple[Array, Array, Array]:
        q = improved(keys[0], start, data, members, of, ball, steps)
        places = jax.random.uniform(keys[1], (PLACES, 2)) * jnp.array([0.5, 1.0])
        places = jnp.concatenate([places, places + jnp.array([0.5, 0.0])])
        at, actions = (
            jnp.repeat(places, len(MOVES), axis=0),
            jnp.arange(2 * PLACES * len(MOVES)) % len(MOVES),
        )
        values, exact = applied(q, places), returns(keys[2], square, q, at, actions, of)
        shape = 2, PLACES, len(MOVES)
        return tuple(
            array.reshape(shape) for array in (jax.nn.softmax(of["rate"] * values), values, exact)
        )

    return jax.vmap(one)(keys, squares, data, members, starts)


def runs(critic: Pessimism, seeds: Sequence[int], samples: int, covered: float) -> Points:
    """Of each seed, over `PLACES` places of the left half (all returns and values in units of mean rewards):

    return: the true value of the learned policy.
    gap: its Q, averaged over its actions, above the true one; valid: whether that is not positive.
    visited, unvisited: Q above the true Q of the policy, mean over places with data, and over others, if there are any.
    below: the share of all pairs at which Q is not above the true one.

    Args:
      critic: its rate is that of the policy softmax(rate Q); its steps are also those that train the model.
      samples: transitions in the data, at random places and of random moves.
      covered: how much of the square data cover, from the left: 0.5, or 1 for all.
    """
    shared = learned(tuple(seeds), samples, covered, critic.steps)
    names = ("beta", "radius", "share", "uncertainty", "discount", "rate")
    numbers = {name: jnp.float32(getattr(critic, name)) for name in names}
    found = _compared(_keys(seeds, 1, 3), *shared, numbers, critic.ball, critic.steps)
    policies, values, exact = (np.asarray(array, float) for array in found)
    above = values - exact
    gap = (policies * above)[:, 0].sum(axis=-1).mean(axis=-1)
    measured = {
        "return": (policies * exact)[:, 0].sum(axis=-1).mean(axis=-1),
        "gap": gap,
        "valid": gap <= 0,
        "visited": above[:, : 1 if covered <= 0.5 else 2].mean(axis=(1, 2, 3)),
        "below": (above <= 0).mean(axis=(1, 2, 3)),
    } | ({"unvisited": above[:, 1].mean(axis=(1, 2))} if covered <= 0.5 else {})
    return Points(
        [critic.steps],
        {name: np.asarray(of, float)[:, None] for name, of in measured.items()},
        seeds,
    )
