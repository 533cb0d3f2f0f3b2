"""One right answer of every outcome found so far, added to the groups of this step."""

import dataclasses
from typing import Any

import jax
from jax import Array

from ipsrl.distributed.mesh import gather_prompts, keep_prompts_sharded
from ipsrl.fields import positive
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.best_answers import followed_by
from ipsrl.rollouts.sources.replay import empty_answers, first_groups, with_found
from ipsrl.rollouts.sources.source import (
    Actors,
    Groups,
    Metrics,
    Request,
    State,
    Wrapper,
    sharded,
    with_sampling_metrics,
)


@dataclasses.dataclass(frozen=True)
class ReplayedModes(Wrapper):
    """Adds the first right answer of each outcome found so far to the prompt's groups: G answers become G + outcomes.

    The bank of Re:Max (arXiv 2610.11064), for the objective `mode_replay`. What a group finds is kept before answers
    are added. They are scored by the behaviour policy and marked in `Rollouts.off_policy`, as a refinement is. Where
    fewer outcomes are known, the other places hold empty answers: no token, reward 0, outcome -1. `mode_replay` does
    not count them; other objectives take them for answers without reward where they compare rewards, and leave them out
    where they compare likelihoods. The released code has the same bank, but visits that of one prompt a step, whichever
    prompts are sampled.

    Metrics: `modes_kept`, the mean number of outcomes kept for a prompt.

    Attributes:
      outcomes: number of outcomes kept for each prompt; when more are found, the first are kept. Re:Max has 16.
    """

    outcomes: int = positive(16, called="the number of outcomes kept for each prompt")

    asks = "policy"

    def provides(self, fields: frozenset[str]) -> frozenset[str]:
        """With `off_policy`; without the most likely tokens, which kept answers have of an earlier policy."""
        return fields - {"top_log_probs"} | {"off_policy"}

    @property
    def answers_held(self) -> int:
        sampled = self.sampled
        return (sampled.environment.num_prompts + sampled.prompts_per_step) * self.outcomes + self.inner.answers_held

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        inner, groups = first_groups(self, actors, seed, reward)
        return empty_answers(groups, self.sampled.environment.num_prompts, self.outcomes), inner

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        kept, inner = state
        inner, groups, metrics = self.inner(inner, actors, request)
        metrics, sampled = with_sampling_metrics(groups, metrics), self.sampled
        kept, added, known = _kept_and_added(kept, groups)
        groups = followed_by(sampled.policy, actors.policy, groups, added, sampled.temperature)
        return (kept, inner), sharded(groups), metrics | {"modes_kept": (known, 1)}


@jax.jit
def _kept_and_added(kept: Any, groups: Groups) -> tuple[Any, Any, Array]:
    """The kept answers `[prompts, outcomes, ...]`, those of the groups' prompts, and the mean number of them.

    One program: two that both communicate may wait for each other where several processes have CPU devices.
    """
    groups = gather_prompts((dataclasses.replace(groups[0], final_state=None), groups[1]))
    kept = with_found(groups, kept)
    added = jax.tree.map(lambda leaf: leaf[groups[0].prompts.index], kept)
    return kept, keep_prompts_sharded(added), (kept[1].outcome_id >= 0).sum(axis=1).mean()
