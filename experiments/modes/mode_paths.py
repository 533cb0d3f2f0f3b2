"""Paths of the policy of a mode bandit: exact, or in sampled runs."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.modes.mode_bandit import ModeBandit
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.study.curves import Points
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Update:
    """How the parameters of a policy on a `ModeBandit` move.

    Attributes:
      objective: any objective that `expected_update` can compute.
      group_size: G, answers to each prompt.
      inner: 0, or the step size of the inner adaptation of first-order MAML, see `expected`.
    """

    objective: Objective
    group_size: int
    inner: float = 0.0

    def expected(
        self, world: ModeBandit, parameters: Parameters, reference: Parameters
    ) -> Parameters:
        """The exact mean of minus the gradient, over all groups, a mean over prompts; each prompt is a batch.

        u_d is the update of the parameters by the groups of difficulty d, theta those before it:

            inner = 0:  mean_d u_d(theta)
            inner > 0:  mean_d u_d(theta + inner u_d(theta))       first-order MAML (arXiv 1703.03400), a task is a
                                                                    difficulty; both steps are exact means, not samples

        The objective's state is the first one at every update.
        """
        of_prompt = functools.partial(self._of_prompt, world, reference)
        prompts = jnp.arange(world.num_prompts)

        def adapted(prompt):
            moved = of_prompt(parameters, prompt)
            if not self.inner:
                return moved
            after = jax.tree.map(lambda one, by: one + self.inner * by, parameters, moved)
            return of_prompt(after, prompt)

        return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(adapted)(prompts))

    def _of_prompt(
        self, world: ModeBandit, reference: Parameters, parameters: Parameters, prompt: Array
    ) -> Parameters:
        states = world.first_state(prompt) + jnp.arange(world.states_of_prompt)

        def logits(parameters):
            return world.policy.step(parameters, (), states, jnp.asarray(0))[0]

        # All prompts have the same graph and the same rewards.
        alone = dataclasses.replace(world, ceilings=(1.0,))
        table, pulled_back = jax.vjp(logits, parameters)
        moved = expected_update(
            self.objective,
            table,
            alone.reward_table()[0],
            self.group_size,
            environment=alone,
            reference=logits(reference),
        )
        return pulled_back(moved)[0]


@functools.partial(jax.jit, static_argnames=("world", "update", "updates"))
def exact_path(
    world: ModeBandit, update: Update, prior: Parameters, updates: int, learning_rate: float
) -> dict[str, Array]:
    """Training without noise: name -> `[updates + 1, ...]`, `ModeBandit.measures` before each update and at the end.

    The prior is the reference of a KL penalty. No mode is forced.

    Raises:
      ValueError: the objective cannot be computed here.
    """

    def one_update(parameters, _):
        moved = update.expected(world, parameters, prior)
        after = jax.tree.map(lambda one, by: one + learning_rate * by, parameters, moved)
        return after, world.measures(after)

    _, later = jax.lax.scan(one_update, prior, length=updates)
    return jax.tree.map(
        lambda first, rest: jnp.concatenate([first[None], rest]), world.measures(prior), later
    )


def sampled_paths(
    world: ModeBandit,
    update: Update,
    prior: Parameters,
    updates: int,
    learning_rate: float,
    seeds: Sequence[int],
) -> dict[str, Array]:
    """The same of sampled runs, in one program: name -> `[seed, updates + 1, ...]`; a batch is a group of each prompt.

    A mean over tokens is then one over the tokens of all prompts, while `Update.expected` has one for each prompt.
    There is no inner adaptation. Where modes are forced, a group has 4 n answers.
    """
    training = TrainSettings(
        updates, world.num_prompts, update.group_size, optimizer="sgd", max_gradient_norm=None
    )
    trainer = Trainer(world, world.policy, update.objective, training)
    of_runs = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (len(seeds), *jnp.shape(leaf))),
        {"learning_rates": jnp.float32(learning_rate), "initial_parameters": prior},
    )
    return train_ensemble(trainer, jnp.asarray(seeds), world.measures, **of_runs)


def settled(share: np.ndarray, rare: float = 0.01) -> np.ndarray:
    """`[...]`, the first place on paths at which the rarer mode has less than a share `rare`, or the last place.

    Args:
      share: `[..., U]`, of thinking.
    """
    share = np.asarray(share, np.float64)
    beyond = (share < rare) | (share > 1 - rare)
    beyond[..., -1] = True
    return beyond.argmax(axis=-1)


def described(
    found: Mapping[str, np.ndarray], world: ModeBandit, answers: int, rare: float
) -> dict[str, np.ndarray]:
    """Measures of the modes on paths: name -> `[seed, updates + 1]`.

    `share`, `short`, `think` and `reward` are those of `ModeBandit.measures`, and `thinking_1` and so on the share of
    thinking at each difficulty. `fits` is by how much it is higher at the last difficulty than at the first; `rarer`
    the mean share of the rarer mode; `collapsed` is 1 where that is below `rare`, else 0; `short_then` the skill
    `short` where the path is `settled`; `kilotokens` the expected thousands of tokens that were sampled before, by
    answers of these policies.

    Args:
      found: of paths, `[seed, updates + 1, ...]`.
      world: theirs.
      answers: to each prompt in an update.
      rare: a share.
    """
    thinking, share, short = found["thinking"], found["share"], found["short"]
    rarer = np.minimum(share, 1 - share)
    short_then = np.take_along_axis(short, settled(share, rare)[:, None], axis=-1)
    thinks = share / 2 + 1 / 4 if world.forced else share
    tokens = world.short_tokens + (world.think_tokens - world.short_tokens) * thinks
    before = (tokens.cumsum(axis=-1) - tokens) * answers * world.num_prompts
    values = {name: found[name] for name in ("share", "short", "think", "reward")}
    values |= {f"thinking_{place + 1}": thinking[..., place] for place in range(world.num_prompts)}
    return values | {
        "fits": thinking[..., -1] - thinking[..., 0],
        "rarer": rarer,
        "collapsed": (rarer < rare).astype(int),
        "short_then": np.broadcast_to(short_then, share.shape),
        "kilotokens": before / 1000,
    }


def points(
    world: ModeBandit,
    update: Update,
    prior: Parameters,
    places: Sequence[int],
    learning_rate: float,
    seeds: Sequence[int] | None,
    rare: float,
) -> Points:
    """`described` paths as a curve: sampled ones, or without seeds the exact one.

    An update with an inner adaptation takes twice as many answers as one without: it counts as two, and a path has half
    as many. It has no `kilotokens`: half of its answers come from adapted policies, which are not on the path.

    Args:
      places: the numbers of updates at the points, in increasing order.
    """
    steps = 2 if update.inner else 1
    of_path = np.unique(np.asarray(places) // steps)
    how = world, update, prior, int(of_path[-1]), learning_rate
    if seeds is None:
        found = {name: each[None] for name, each in exact_path(*how).items()}
    else:
        found = sampled_paths(*how, seeds)
    found = {name: np.asarray(each, np.float64) for name, each in found.items()}
    values = described(found, world, steps * update.group_size, rare)
    if update.inner:
        del values["kilotokens"]
    return Points(steps * of_path, {name: each[:, of_path] for name, each in values.items()}, seeds)
