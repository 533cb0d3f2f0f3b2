"""Managers of `interview`, trained with and without meta-learning over kinds of users, and measures of their phases.

A seed decides the initial policy, the dialogues of training and those of an adaptation. Tasks are kinds of users.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.dialogue_users.interview_exact import best_return, course, log_probs_of
from experiments.dialogue_users.interview_manager import Manager
from ipsrl import objectives
from ipsrl.environments.agents.interview import FIRST_ACT, Interview
from ipsrl.measures.diversity import entropy_of_distribution
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.source import Actors, Request
from ipsrl.training.descent import descended
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ADAPTATIONS = 4
"""The number of adaptations of each policy to each user, over which measures are averaged."""
LATER = 1_000_000
"""The number of the first step whose dialogues adapt a policy that is only measured."""
EXACT_SCALE = 0.125
"""The factor of exact gradients of returns, which are shares of the best return. Their steps are then about as long as
those of GRPO, which divides by the standard deviation, here about a sixth of the best return, and by about fifty
tokens."""


@dataclasses.dataclass(frozen=True)
class Managers:
    """Managers of dialogues that learn from groups of dialogues by gradient descent.

    An adaptation to a user is a gradient step of size `inner` on one group of dialogues with this user, which moves
    only the master, as in arXiv 2506.19652 (without hierarchy the whole policy).

    Attributes:
      environment: with one user of each kind.
      objective: its specification.
      group_size: dialogues with each user in an update, and in an adaptation.
      inner: step size of adaptations.
    """

    environment: Interview
    objective: str
    group_size: int
    inner: float

    @property
    def policy(self) -> Manager:
        """The policy that fits."""
        return Manager.of(self.environment)

    def trainer(self, updates: int = 1, learning_rate: float = 1.0) -> Trainer:
        """The trainer that asks all users in each update."""
        settings = TrainSettings(
            updates,
            self.environment.users,
            self.group_size,
            optimizer="sgd",
            learning_rate=learning_rate,
            max_gradient_norm=None,
        )
        return Trainer(self.environment, self.policy, objectives.make(self.objective), settings)

    def prior(self, seed: Array) -> Parameters:
        """The initial policy of a seed."""
        return self.policy.init(stream(seed, 0, "parameters"))

    @property
    def of_master(self) -> Array:
        """`[V]` bool, the actions whose logits an adaptation moves."""
        return (jnp.arange(self.policy.vocabulary_size) < FIRST_ACT) | (
            not self.environment.hierarchy
        )

    def gradient(self, parameters: Parameters, seed: Array, step: Array, user: Array) -> Parameters:
        """The gradient of the objective's loss on one group of dialogues with a user, a function of seed and step."""
        trainer = self.trainer()
        state = dataclasses.replace(trainer.begin(seed, None, parameters, None), step=step)
        request = Request(seed, step, self.environment.prompts(user[None]))
        source, groups, _ = trainer.groups_from(state.source, Actors(parameters), request)
        after, _ = trainer.learn(dataclasses.replace(state, source=source), groups)
        # The learning rate is 1.
        return jax.tree.map(jnp.subtract, parameters, after.parameters)

    def adapted(self, parameters: Parameters, seed: Array, step: Array, user: Array) -> Parameters:
        """The parameters after an adaptation to a user."""
        gradient = self.gradient(parameters, seed, step, user)
        return jax.tree.map(
            lambda one, by: one - self.inner * jnp.where(self.of_master, by, 0.0),
            parameters,
            gradient,
        )

    def meta_learned(
        self, updates: int, record_every: int, shuffled: bool, learning_rate: float, seed: Array
    ) -> Parameters:
        """First-order MAML (arXiv 1703.03400): the policies before the first and after every `record_every` updates.

            theta'_u = adaptation of theta to user u;  theta <- theta - learning_rate mean_u g_u(theta'_u)

        where g_u is the gradient on another group of dialogues with u. An update takes 2 groups for each user.

        Args:
          shuffled: whether the adaptation is to a random user instead; the placebo.
        """
        users = jnp.arange(self.environment.users)

        def gradient(parameters, number):
            others = jax.random.randint(stream(seed, number, "tasks"), users.shape, 0, len(users))

            def of_user(user, other):
                # No other group is sampled at these numbers of a step.
                step = 2 * (len(users) * number + user)
                adapted = self.adapted(parameters, seed, step, other if shuffled else user)
                return self.gradient(adapted, seed, step + 1, user)

            gradients = jax.vmap(of_user)(users, others)
            return jax.tree.map(lambda by: by.mean(axis=0), gradients)

        return descended(gradient, self.prior(seed), updates, record_every, learning_rate)

    def course(self, parameters: Parameters, user: Array) -> tuple[Array, Array]:
        """Distributions of the phase at the first turn of each block, `[blocks, phases]`, and the expected return."""
        log_probs = log_probs_of(self.environment, self.policy.table(parameters))
        phases, rewards = course(self.environment, log_probs, user)
        return phases[:: self.environment.every], rewards.sum()

    def exactly_learned(
        self,
        updates: int,
        record_every: int,
        learning_rate: float,
        seed: Array,
        inner: Array,
        second: Array,
    ) -> Parameters:
        """The same by exact gradients of mean_u R_u(theta'_u), R_u the return as a share of the best, without noise.

        Args:
          inner: times `self.inner`; 0 for the policy gradient without meta-learning.
          second: 1 for MAML with its second derivatives, 0 for first-order MAML.
        """
        users = jnp.arange(self.environment.users)
        worth = EXACT_SCALE / jnp.asarray(self.best_returns)

        def share(parameters, user):
            return worth[user] * self.course(parameters, user)[1]

        def adapted(one, by):
            step = inner * jnp.where(self.of_master, by, 0.0)
            step = second * step + (1 - second) * jax.lax.stop_gradient(step)
            return one + self.inner * step

        def after(parameters, user):
            gradient = jax.grad(share)(parameters, user)
            return share(jax.tree.map(adapted, parameters, gradient), user)

        def loss(parameters, _):
            return -jax.vmap(after, (None, 0))(parameters, users).mean()

        return descended(jax.grad(loss), self.prior(seed), updates, record_every, learning_rate)

    @functools.cached_property
    def best_returns(self) -> np.ndarray:
        """`[users]`, of a policy that sees everything."""
        users = range(self.environment.users)
        return np.float32([best_return(self.environment, user) for user in users])

    def measured(self, parameters: Parameters, seed: Array) -> dict[str, Array]:
        """Exact measures of a policy (see `described`), and as `adapted_...` their means after adaptations."""
        users = jnp.arange(self.environment.users)

        def after(number):
            def of_user(user):
                step = LATER + len(users) * number + user
                return self.course(self.adapted(parameters, seed, step, user), user)

            return described(*jax.vmap(of_user)(users), self.best_returns)

        before = described(*jax.vmap(self.course, (None, 0))(parameters, users), self.best_returns)
        adapted = jax.vmap(after)(jnp.arange(ADAPTATIONS))
        return before | {f"adapted_{name}": values.mean(axis=0) for name, values in adapted.items()}

    def dialogues(self, parameters: Parameters, seed: int) -> list[list[str]]:
        """A dialogue with each user in words, after an adaptation."""
        users = jnp.arange(self.environment.users)

        @jax.jit
        @jax.vmap
        def of_user(user):
            adapted = self.adapted(parameters, jnp.int32(seed), LATER + user, user)
            prompts, key = self.environment.prompts(user[None]), jax.random.key(seed)
            said = sample_groups(self.environment, self.policy, adapted, prompts, key, 1)
            return said.tokens[0, 0]

        return [self.environment.in_words(tokens) for tokens in np.asarray(of_user(users))]


@functools.partial(jax.jit, static_argnames="managers")
def measured_of_runs(managers: Managers, policies: Parameters, seeds: Array) -> dict[str, Array]:
    """`Managers.measured` of policies with leaves `[S, U, ...]` of seeds `[S]`: name -> `[S, U, ...]`."""
    return jax.vmap(jax.vmap(managers.measured, (0, None)))(policies, seeds)


def described(phases: Array, returns: Array, best: Array) -> dict[str, Array]:
    """Measures the phases that a master chooses, and the returns.

    Args:
      phases: `[users, blocks, phases]`, distributions.
      returns, best: `[users]`, expected returns, and those of a policy that sees everything.

    Returns:
      `reward` `[]`, the return as a share of the best one, a mean over users; `commonest` `[]`, the share of the
      commonest phase among all choices; `entropy` `[]` in nats of the phase of a user and a block, a mean over both;
      `information` `[]`, the mutual information of phase and user in nats, a mean over blocks; `entropies` `[users,
      blocks]`.
    """
    entropies = entropy_of_distribution(phases)
    return {
        "reward": (returns / best).mean(),
        "commonest": phases.mean(axis=(0, 1)).max(),
        "entropy": entropies.mean(),
        "information": entropy_of_distribution(phases.mean(axis=0)).mean() - entropies.mean(),
        "entropies": entropies,
    }
