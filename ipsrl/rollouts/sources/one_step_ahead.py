"""Asynchronous rollouts: the groups of the next step are sampled while the host verifies those of this one."""

import dataclasses

from jax import Array

from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.source import Actors, Groups, Request, Sampled, State, Wrapper
from ipsrl.structures import Metrics


@dataclasses.dataclass(frozen=True)
class OneStepAhead(Wrapper):
    """Groups sampled by the policy before the last update, so that the devices sample while the host verifies.

    That hides the time of verifying, but groups are stale by one update, which the objective's importance ratio must
    correct. The last step of a run samples a batch, too, which is discarded: a source does not know which step is last.
    Only `Sampled` can be wrapped, because other sources look at rewards before they sample.
    """

    def check_inner(self) -> None:
        """Raises ValueError also if the other source looks at rewards first, or if there is nothing to hide."""
        super().check_inner()
        if not isinstance(self.inner, Sampled):
            raise ValueError(
                f"OneStepAhead samples before rewards are known, so {type(self.inner).__name__} cannot be inside it: "
                "wrap them in the other order, or leave one out"
            )
        if not self.inner.environment.verifies_on_host:
            raise ValueError(
                "OneStepAhead (--async_rollouts) hides verifying on the host, but this environment is verified on the "
                "device: leave it out"
            )

    @property
    def stale(self) -> bool:
        """True, by one update."""
        return True

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        return self.sampled.sample(actors, Request(seed, 0)), self.inner.init(actors, seed, reward)

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        trajectories, reward = state
        following = self.sampled.sample(actors, dataclasses.replace(request, step=request.step + 1))
        outcomes, reward = self.sampled.verify(reward, trajectories, request.key("reward"))
        return (following, reward), (trajectories, outcomes), {}
