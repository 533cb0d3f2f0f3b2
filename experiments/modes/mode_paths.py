"""What becomes of the policy of a mode bandit: its path exactly, or in sampled runs, at the best learning rate."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.modes.mode_bandit import ModeBandit
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.fields import Checked, at_least, non_negative, positive
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.study.curves import Points
from ipsrl.study.tuning import other_seeds
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

POINTS = 51
"""Of a curve, at most."""


@dataclasses.dataclass(frozen=True)
class Update(Checked):
    """How the parameters of a policy on a `ModeBandit` move.

    Attributes:
      objective: any objective that `expected_update` can compute.
      group_size: G, answers to each prompt.
      learning_rate: of gradient descent.
      inner: 0, or the step size of the inner adaptation of first-order MAML, see `expected`.
    """

    objective: Objective
    group_size: int = at_least(1, 8)
    learning_rate: float = positive(1.0)
    inner: float = non_negative(0.0)

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

        def adapted(prompt: Array) -> Parameters:
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

        def logits(parameters: Parameters) -> Array:
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
    world: ModeBandit,
    update: Update,
    prior: Parameters,
    updates: int,
    learning_rate: Array | None = None,
) -> dict[str, Array]:
    """Training without noise: name -> `[updates + 1, ...]`, `ModeBandit.measures` before each update and at the end.

    The prior is the reference of a KL penalty. `learning_rate`, `[]`, takes the place of the update's.

    Raises:
      ValueError: modes are forced, or the objective cannot be computed here.
    """
    if world.forced:
        raise ValueError("forced is True: the exact path has no forced modes, take sampled_paths")
    rate = update.learning_rate if learning_rate is None else learning_rate

    def one_update(parameters: Parameters, _: None) -> tuple[Parameters, dict[str, Array]]:
        moved = update.expected(world, parameters, prior)
        after = jax.tree.map(lambda one, by: one + rate * by, parameters, moved)
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
    seeds: Sequence[int],
    learning_rates: Sequence[float] | np.ndarray | None = None,
) -> dict[str, Array]:
    """The same of sampled runs, in one program: name -> `[seed, updates + 1, ...]`; a batch is a group of each prompt.

    A mean over tokens is then one over the tokens of all prompts, while `Update.expected` has one for each prompt.
    `learning_rates`, one for each seed, take the place of the update's.

    Raises:
      ValueError: the update has an inner adaptation, modes are forced in groups that are not of 4 n answers, or the
        objective cannot be trained here.
    """
    if world.forced and update.group_size % 4:
        raise ValueError(
            f"group_size is {update.group_size}: with forced modes it must be a multiple of 4"
        )
    if update.inner:
        raise ValueError(
            f"inner is {update.inner}: sampled runs have no inner adaptation, take exact_path"
        )
    training = TrainSettings(
        steps=updates,
        prompts_per_step=world.num_prompts,
        group_size=update.group_size,
        optimizer="sgd",
        learning_rate=update.learning_rate,
        max_gradient_norm=None,
    )
    of_runs = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (len(seeds), *jnp.shape(leaf))), prior
    )
    trainer = Trainer(world, world.policy, update.objective, training)
    rates = None if learning_rates is None else jnp.asarray(learning_rates, jnp.float32)
    return train_ensemble(
        trainer,
        jnp.asarray(seeds),
        world.measures,
        learning_rates=rates,
        initial_parameters=of_runs,
    )


def saturated_after(found: Mapping[str, Array], margin: float = 0.01) -> np.ndarray:
    """`[...]`, the first update after which the mean share of thinking is below `margin` or above 1 - margin.

    Args:
      found: `share` `[..., updates + 1]`, of `exact_path` or `sampled_paths`.

    Returns:
      float64; NaN if it never is.
    """
    share = np.asarray(found["share"], np.float64)
    beyond = (share < margin) | (share > 1 - margin)
    return np.where(beyond.any(axis=-1), beyond.argmax(axis=-1), np.nan)


def best_paths(
    world: ModeBandit,
    update: Update,
    prior: Parameters,
    updates: int,
    learning_rates: Sequence[float],
    seeds: Sequence[int] | None = None,
) -> tuple[dict[str, np.ndarray], float]:
    """`exact_path`, as one run, or with seeds `sampled_paths`, with the learning rate that ends with the most reward.

    Of sampled runs it is the rate with the highest mean in half as many runs of other seeds, the smallest numbers that
    are none of `seeds`, so that the runs which are returned have no part in the choice. A rate at which a reward is not
    finite is not chosen.

    Returns:
      name -> `[seed, updates + 1, ...]` float64, and the learning rate. Without seeds also `rarer_at_4` and so on,
      `[1, 1]`: with each learning rate, the mean share of the rarer mode at the end.
    """
    if seeds is None:
        of_rate = functools.partial(exact_path, world, update, prior, updates)
        found = jax.vmap(of_rate)(jnp.asarray(learning_rates, jnp.float32))
        kept, judging, runs = slice(None), slice(None), 1
    else:
        both = [*seeds, *other_seeds(seeds, -(-len(seeds) // 2))]
        rates = np.repeat(learning_rates, len(both))
        found = sampled_paths(world, update, prior, updates, both * len(learning_rates), rates)
        kept, judging, runs = slice(len(seeds)), slice(len(seeds), None), len(both)
    shape = len(learning_rates), runs
    values = {
        name: np.asarray(each, np.float64).reshape(*shape, *each.shape[1:])
        for name, each in found.items()
    }
    rewards = values["reward"][:, judging, -1].mean(axis=1)
    best = int(np.where(np.isfinite(rewards), rewards, -np.inf).argmax())
    chosen = {name: each[best, kept] for name, each in values.items()}
    if seeds is None:
        rarer = np.minimum(values["share"], 1 - values["share"])[..., -1:]
        chosen |= {
            f"rarer_at_{rate:g}": of_rate
            for rate, of_rate in zip(learning_rates, rarer, strict=True)
        }
    return chosen, learning_rates[best]


def described(
    found: Mapping[str, np.ndarray], world: ModeBandit, answers: int, rare: float
) -> dict[str, np.ndarray]:
    """What became of the modes on paths: name -> `[seed, updates + 1]`.

    `share`, `short`, `think` and `reward` are those of `ModeBandit.measures`, and `thinking_1` and so on the share of
    thinking at each difficulty. `fits` is by how much it is higher at the last difficulty than at the first; `rarer`
    the mean share of the rarer mode; `collapsed` is 1 where that is below `rare`, else 0; `short_then` the skill
    `short` after the update of `saturated_after`, or at the end if it is never; `kilotokens` the expected thousands of
    tokens that were sampled before, by answers of these policies. What is named `rarer_at_...` stays.

    Args:
      found: of paths, `[seed, updates + 1, ...]`.
      world: theirs.
      answers: to each prompt in an update.
      rare: a share.
    """
    thinking, share = found["thinking"], found["share"]
    rarer = np.minimum(share, 1 - share)
    then = np.nan_to_num(saturated_after(found, rare), nan=share.shape[-1] - 1).astype(int)[:, None]
    thinks = share / 2 + 1 / 4 if world.forced else share
    tokens = world.short_tokens + (world.think_tokens - world.short_tokens) * thinks
    before = (tokens.cumsum(axis=-1) - tokens) * answers * world.num_prompts
    values = {name: found[name] for name in ("share", "short", "think", "reward")}
    values |= {
        name: np.broadcast_to(found[name], share.shape)
        for name in found
        if name.startswith("rarer_at_")
    }
    return (
        values
        | {f"thinking_{place + 1}": thinking[..., place] for place in range(world.num_prompts)}
        | {
            "fits": thinking[..., -1] - thinking[..., 0],
            "rarer": rarer,
            "collapsed": (rarer < rare).astype(int),
            "short_then": np.broadcast_to(
                np.take_along_axis(found["short"], then, axis=-1), share.shape
            ),
            "kilotokens": before / 1000,
        }
    )


def points(
    world: ModeBandit,
    update: Update,
    prior: Parameters,
    updates: int,
    learning_rates: Sequence[float],
    seeds: Sequence[int] | None,
    rare: float,
) -> Points:
    """`described` paths of `best_paths` as a curve, with their `learning_rate`.

    An update with an inner adaptation takes twice as many answers as one without: it counts as two, and a path has half
    as many. It has no `kilotokens`: half of its answers come from adapted policies, which are not on the path.
    """
    steps = 2 if update.inner else 1
    found, rate = best_paths(world, update, prior, updates // steps, learning_rates, seeds)
    values = described(found, world, steps * update.group_size, rare)
    places = np.unique(np.linspace(0, updates // steps, POINTS).astype(int))
    values = {name: each[:, places] for name, each in values.items()} | {"learning_rate": rate}
    if update.inner:
        del values["kilotokens"]
    return Points(steps * places, values, seeds)
