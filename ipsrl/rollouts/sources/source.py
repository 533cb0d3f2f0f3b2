"""The base of all sources of groups, and the source that samples from the policy.

A source is asked once for each step. Sources that change what another one gives are wrapped around it, as optax chains
transformations: `DynamicSampling().around(DifficultyFilter().around(Sampled(...)))`. The update of a policy never asks
where groups come from.
"""

import abc
import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.arguments import accepted
from ipsrl.checking.fields import Checked, non_negative, positive
from ipsrl.distributed.mesh import replicated, sharded
from ipsrl.environments.environment import Environment, fields_of
from ipsrl.objectives.ties import all_equal
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rewards import Reward, rewarded
from ipsrl.rollouts.decoding import ORDINARY, Decoding
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import Sampling, begin
from ipsrl.rollouts.tools import sampler_for
from ipsrl.rollouts.verification import verify
from ipsrl.structures import Metrics, Outcomes, Prompts, Trajectories

Groups = tuple[Trajectories, Outcomes]
State = Any
"""A pytree of arrays, part of every checkpoint."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Actors:
    """Parameters of the policies that a source may sample from or score with.

    Attributes:
      policy: of the trained policy.
      reference: of the reference policy; None if there is none.
    """

    policy: Parameters
    reference: Parameters | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Request:
    """A request for groups; what a source gives is a function of it, the actors and the source's state.

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


class Source(Checked):
    """Base of what gives the groups of each step; immutable, so that it can be a static argument of `jax.jit`.

    Attributes:
      environment: of the prompts and the outcomes.
    """

    environment: Environment

    @property
    def on_host(self) -> bool:
        """False if a call can be jitted, and mapped over runs."""
        return False

    @property
    def stale(self) -> bool:
        """Whether groups are not those of the policy that is updated with them, for the prompts that were asked."""
        return False

    @property
    def optional_fields(self) -> frozenset[str]:
        """The optional fields of `Rollouts` that its groups can have."""
        return frozenset()

    @property
    def checksum(self) -> int:
        """Checksum of the groups that it holds from the start: a run can be continued only with the same."""
        return 0

    @property
    def needs_reference(self) -> bool:
        """Whether it asks the reference policy."""
        return False

    @property
    def answers_held(self) -> int:
        """Number of answers that it keeps from step to step, and adds to those that are sampled in a step."""
        return 0

    @property
    def innermost(self) -> "Source":
        """The source inside all wrappers."""
        return self

    @abc.abstractmethod
    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        """The state before the first step.

        Args:
          actors: initial parameters.
          reward: of the answers; None for the environment's own.
        """

    @abc.abstractmethod
    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        """The new state, the groups, and metrics; called with the mesh of the run set (`jax.set_mesh`)."""

    @abc.abstractmethod
    def reward_of(self, state: State) -> Reward | None:
        """The reward as it is now; None for the environment's own."""


@dataclasses.dataclass(frozen=True)
class Sampled(Source):
    """Groups that the trained policy samples; its state is the reward.

    Attributes:
      environment, policy: see their protocols.
      prompts_per_step, group_size: P and G.
      decoding: the distribution of each token.
      top_tokens: number of most likely tokens that are kept, see `Trajectories`.

    Raises:
      ValueError: a field is out of range, or the penalty is on a token that the environment does not have.
    """

    environment: Environment
    policy: Policy
    prompts_per_step: int = positive()
    group_size: int = positive()
    decoding: Decoding = ORDINARY
    top_tokens: int = non_negative(0)

    def __post_init__(self):
        super().__post_init__()
        self.decoding.check(self.environment.vocabulary_size)

    @property
    def temperature(self) -> float:
        """Temperature of sampling, and so of scoring."""
        return self.decoding.temperature

    @property
    def on_host(self) -> bool:
        return self.environment.verifies_on_host or self.environment.uses_tools

    @property
    def optional_fields(self) -> frozenset[str]:
        fields = fields_of(self.environment) | self.policy.optional_fields
        return fields | {"top_log_probs"} if self.top_tokens else fields

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> Reward | None:
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

    def shapes(self, parameters: Parameters) -> Sampling:
        """Shapes of what is sampled in a step, the policy's cache included; nothing is computed."""

        def first(parameters: Parameters, index: Array) -> Sampling:
            prompts, key = self.environment.prompts(index), jax.random.key(0)
            how = self.group_size, self.decoding, self.top_tokens
            return begin(self.environment, self.policy, parameters, prompts, key, *how)

        return jax.eval_shape(first, parameters, jax.ShapeDtypeStruct((self.prompts_per_step,), jnp.int32))

    def answers(self, parameters: Parameters, prompts: Prompts, key: Array, number: int) -> Trajectories:
        """`number` answers to each of any prompts, by any parameters."""
        sample = sampler_for(self.environment)
        return sample(
            self.environment, self.policy, parameters, sharded(prompts), key, number, self.decoding, self.top_tokens
        )

    def verify(self, reward: Reward | None, trajectories: Trajectories, key: Array) -> tuple[Outcomes, Reward | None]:
        """Second half of a call: the outcomes with their rewards, and the reward for the next batch.

        Raises:
          ValueError: rewards or outcomes have another shape than the groups, or as in `verify`.
        """
        return rewarded(reward, trajectories, sharded(verify(self.environment, trajectories)), key)


UNWRAPPED: Any = None
"""Stand-in for the other source until a wrapper is around it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wrapper(Source):
    """Base of sources that change what another source gives; their state is a pair of their own and the other's.

    Attributes:
      inner: the other one; None until `around` has been called.
    """

    inner: Source = dataclasses.field(default=UNWRAPPED, init=False)

    asks: ClassVar[Literal["nothing", "policy", "prompts"]] = "nothing"
    """Its need of the other source besides the groups: the policy, to sample or score with; or groups for chosen
    prompts, or more than once in a step."""
    chooses_prompts: ClassVar[bool] = False
    """Whether it chooses the prompts of a step."""
    outermost: ClassVar[bool] = False
    """Whether its groups have what no other wrapper could change together with them."""

    def around(self, inner: Source) -> Self:
        """This wrapper around a source.

        Raises:
          ValueError: the source cannot be wrapped in this one.
          TypeError: this one says neither what it changes nor how it asks.
        """
        if type(self).change is Wrapper.change and type(self).__call__ is Wrapper.__call__:
            raise TypeError(f"{type(self).__name__} must have `change`, or a `__call__` of its own")
        outer = copy.copy(self)
        object.__setattr__(outer, "inner", inner)
        outer.check_inner()
        return outer

    def check_inner(self) -> None:
        """Raises ValueError if the other source cannot be wrapped in this one."""
        if not isinstance(self.inner, Source):
            raise ValueError(f"{type(self).__name__} wraps a source, not {self.inner!r}")
        inside = self.inner
        while isinstance(inside, Wrapper):
            if type(inside) is type(self):
                raise ValueError(f"{type(self).__name__} is inside {type(self).__name__}: give each wrapper once")
            if inside.outermost:
                raise ValueError(
                    f"{type(inside).__name__} must be the outermost wrapper, but {type(self).__name__} is around it: "
                    "wrap them in the other order"
                )
            if inside.asks == "prompts" and self.chooses_prompts:
                raise ValueError(
                    f"{type(self).__name__} chooses the prompts, so {type(inside).__name__} inside it cannot ask for "
                    "others: wrap them in the other order"
                )
            inside = inside.inner
        if self.asks != "nothing" and not isinstance(self.innermost, Sampled):
            raise ValueError(
                f"{type(self).__name__} needs a source that samples, but {type(self.innermost).__name__} inside it "
                "does not: leave one out"
            )
        if self.asks == "prompts" and self.inner.stale:
            raise ValueError(
                f"{type(self).__name__} chooses what is sampled, but {type(self.inner).__name__} inside it gives "
                "groups that were sampled before: wrap them in the other order, or leave one out"
            )

    @property
    def on_host(self) -> bool:
        return self.inner.on_host

    @property
    def stale(self) -> bool:
        return self.inner.stale

    @property
    def needs_reference(self) -> bool:
        return self.inner.needs_reference

    @property
    def answers_held(self) -> int:
        return self.inner.answers_held

    @property
    def innermost(self) -> Source:
        return self.inner.innermost

    @property
    def optional_fields(self) -> frozenset[str]:
        return self.provides(self.inner.optional_fields)

    def provides(self, fields: frozenset[str]) -> frozenset[str]:
        """The optional fields of its groups, where those of the other source have `fields`."""
        return fields

    @property
    def checksum(self) -> int:
        return self.inner.checksum

    @property
    def sampled(self) -> Sampled:
        """The source inside all wrappers; only for a wrapper that `asks` for more than groups."""
        innermost = self.innermost
        assert isinstance(innermost, Sampled), "`check_inner` has refused others"
        return innermost

    @property
    def environment(self) -> Environment:
        return self.inner.environment

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        return None, self.inner.init(actors, seed, reward)

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        own, inner = state
        inner, groups, metrics = self.inner(inner, actors, request)
        metrics = with_sampling_metrics(groups, metrics)
        own, groups, of_change = self.change(own, groups, actors, request)
        return (own, inner), sharded(groups), metrics | of_change

    def change(self, own: State, groups: Groups, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        """The wrapper's new state, the groups as it changes them, and its metrics; for a wrapper that asks the other
        source once, and leaves the rest of a call as it is.
        """
        raise NotImplementedError

    def reward_of(self, state: State) -> Reward | None:
        return self.inner.reward_of(state[1])


def wrapped(source: Source, wrappers: Sequence[Wrapper]) -> Source:
    """A source in wrappers, of which the first is outermost.

    Raises:
      ValueError: one of them is no wrapper, or the source cannot be wrapped in it.
    """
    for wrapper in reversed(wrappers):
        accepted("each of the wrappers", wrapper, Wrapper)
        source = wrapper.around(source)
    return source


def with_sampling_metrics(groups: Groups, metrics: Metrics) -> Metrics:
    """Adds what was sampled, before any group is selected, unless a source inside has done so.

    `sampled_reward` and `zero_variance_groups` are means over groups, the others are numbers.
    """
    if "trajectories_sampled" in metrics:
        return metrics
    return metrics | _sampling_metrics(groups[1].rewards, groups[0].token_mask)


# One program, as all that a source computes outside of one: see `hosts.to_host`.
@jax.jit
def _sampling_metrics(rewards: Array, token_mask: Array) -> Metrics:
    return {
        "sampled_reward": (rewards.mean(), 1.0),
        "zero_variance_groups": (all_equal(rewards).mean(), 1.0),
        "trajectories_sampled": (jnp.float32(rewards.size), 0.0),
        "tokens_sampled": (token_mask.sum(dtype=jnp.float32), 0.0),
        "prompts_sampled": (jnp.float32(len(rewards)), 0.0),
    }
