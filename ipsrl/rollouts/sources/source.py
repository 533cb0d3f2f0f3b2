"""The one interface of all sources of groups, and the source that samples from the policy.

A source is asked once for each step. Sources that change what another one gives are wrapped around it, as optax chains
transformations: `DynamicSampling(inner=DifficultyFilter(inner=Sampled(...)))`. The training step never asks where
groups come from.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.distributed.mesh import keep_prompts_sharded, replicate, shard_prompts
from ipsrl.environments.environment import Environment
from ipsrl.fields import Checked
from ipsrl.objectives.objective import all_equal
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rewards import Reward, rewarded
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.tools import sample_with_tools
from ipsrl.rollouts.verification import verify
from ipsrl.structures import Outcomes, Prompts, Trajectories

Groups = tuple[Trajectories, Outcomes]
State = Any
"""A pytree of arrays, part of every checkpoint."""
Metrics = dict[str, tuple[Array | float, Array | float]]
"""Name -> (sum, count); a count of 0 marks a number that is not a mean."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Actors:
    """Parameters of the policies that a source may ask.

    Attributes:
      policy: of the trained policy.
      reference: of the reference policy; None if there is none.
    """

    policy: Parameters
    reference: Parameters | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Request:
    """Which groups a source is asked for; all that it samples is a function of this.

    Attributes:
      seed: of the run.
      step: number of batches of rollouts before.
      prompts: of the groups; None leaves the choice to the source.
      start: number of prompts of the step's stream used before, in earlier rounds.
      round: number of times that the source was asked before in this step.
    """

    seed: Array | int
    step: Array | int
    prompts: Prompts | None = None
    start: Array | int = 0
    round: int = dataclasses.field(default=0, metadata={"static": True})

    @property
    def sampling_key(self) -> Array:
        """The PRNG key that samples the groups."""
        return stream(self.seed, self.step, f"sampling {self.round}" if self.round else "sampling")

    def key(self, name: str) -> Array:
        """The PRNG key of another stream."""
        return stream(self.seed, self.step, f"{name} {self.round}")


class Source(Protocol):
    """Gives the groups of each step.

    Attributes:
      on_host: False if `__call__` can be jitted, and mapped over runs.
      stale: True if groups may come from an earlier policy than the one that is updated with them.
      optional_fields: the optional fields of `Rollouts` that it provides besides those of environment and policy.
      sampled: the source inside that samples from the policy.
    """

    @property
    def on_host(self) -> bool: ...

    @property
    def stale(self) -> bool: ...

    @property
    def optional_fields(self) -> frozenset[str]: ...

    @property
    def sampled(self) -> "Sampled": ...

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        """The state before the first step.

        Args:
          actors: initial parameters.
          reward: of the answers; None for the environment's own.
        """
        ...

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        """The new state, the groups, and metrics; called with the mesh of the run set (`jax.set_mesh`)."""
        ...

    def reward_of(self, state: State) -> Reward | None:
        """The reward as it is now; None for the environment's own."""
        ...


@dataclasses.dataclass(frozen=True)
class Sampled:
    """Groups that the trained policy samples; its state is the reward.

    Attributes:
      environment, policy: see their protocols.
      prompts_per_step, group_size: P and G.
      temperature: of sampling.
      top_tokens: number of most likely tokens that are kept, see `Trajectories`.
    """

    environment: Environment
    policy: Policy
    prompts_per_step: int
    group_size: int
    temperature: float = 1.0
    top_tokens: int = 0

    stale: ClassVar[bool] = False
    optional_fields: ClassVar[frozenset[str]] = frozenset({"top_log_probs"})

    @property
    def on_host(self) -> bool:
        return self.environment.verifies_on_host or self.environment.uses_tools

    @property
    def sampled(self) -> Self:
        return self

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> Reward | None:
        del actors, seed
        return replicated(reward)

    def __call__(self, state: Reward | None, actors: Actors, request: Request) -> tuple[Reward | None, Groups, Metrics]:
        trajectories = self.sample(actors, request)
        outcomes, state = self.verify(state, trajectories, request.key("reward"))
        return state, (trajectories, outcomes), {}

    def reward_of(self, state: Reward | None) -> Reward | None:
        return state

    def sample(self, actors: Actors, request: Request) -> Trajectories:
        """First half of a call: samples without verifying; does not wait for the device."""
        prompts = request.prompts
        if prompts is None:
            prompts = choose_prompts(self.environment, request.seed, request.step, self.prompts_per_step, request.start)
        return self.answers(actors.policy, prompts, request.sampling_key, self.group_size)

    def answers(self, parameters: Parameters, prompts: Prompts, key: Array, number: int) -> Trajectories:
        """`number` answers to each of any prompts, by any parameters."""
        sample = sample_with_tools if self.environment.uses_tools else sample_groups
        return sample(
            self.environment, self.policy, parameters, sharded(prompts), key, number, self.temperature, self.top_tokens
        )

    def verify(self, reward: Reward | None, trajectories: Trajectories, key: Array) -> tuple[Outcomes, Reward | None]:
        """Second half of a call: the outcomes with their rewards, and the reward for the next batch."""
        return rewarded(reward, trajectories, sharded(verify(self.environment, trajectories)), key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wrapper(Checked):
    """Base of sources that change what another source gives; their state is a pair of their own and the other's.

    Attributes:
      inner: the other one; None until it is wrapped, see `wrapped`.
    """

    inner: Any = None

    @property
    def on_host(self) -> bool:
        return self.inner.on_host

    @property
    def stale(self) -> bool:
        return self.inner.stale

    @property
    def optional_fields(self) -> frozenset[str]:
        return Sampled.optional_fields if self.inner is None else self.inner.optional_fields

    @property
    def sampled(self) -> Sampled:
        return self.inner.sampled

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        return None, self.inner.init(actors, seed, reward)

    def reward_of(self, state: State) -> Reward | None:
        return self.inner.reward_of(state[1])


def wrapped(source: Source, wrappers: Sequence[Wrapper]) -> Source:
    """A source in wrappers, of which the first is outermost."""
    for wrapper in reversed(wrappers):
        source = dataclasses.replace(wrapper, inner=source)
    return source


def sharded(tree: Any) -> Any:
    """Shards arrays `[P, ...]` by prompts over the mesh that is set, inside and outside jit."""
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree)):
        return keep_prompts_sharded(tree)
    return shard_prompts(tree, jax.sharding.get_mesh())


def replicated(tree: Any) -> Any:
    """Places a copy of arrays on every device of the mesh that is set; nothing changes inside jit."""
    leaves = jax.tree.leaves(tree)
    if (
        not leaves
        or jax.sharding.get_abstract_mesh().empty
        or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
    ):
        return tree
    return replicate(tree, jax.sharding.get_mesh())


def with_sampling_metrics(groups: Groups, metrics: Metrics) -> Metrics:
    """Adds what was sampled, before any group is selected, unless a source inside has done so.

    `sampled_reward` and `zero_variance_groups` are means over groups, the others are numbers.
    """
    if "trajectories_sampled" in metrics:
        return metrics
    rewards = groups[1].rewards
    return metrics | {
        "sampled_reward": (rewards.mean(), 1.0),
        "zero_variance_groups": (all_equal(rewards).mean(), 1.0),
        "trajectories_sampled": (jnp.float32(rewards.size), 0.0),
        "prompts_sampled": (jnp.float32(len(rewards)), 0.0),
    }
