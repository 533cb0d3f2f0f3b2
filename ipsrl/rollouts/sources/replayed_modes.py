"""One right answer of every outcome found so far, added to the groups of this step."""

import dataclasses
from typing import Any

import jax
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.distributed.mesh import gather_prompts, keep_prompts_sharded
from ipsrl.rollouts.sources.kept_answers import KeptAnswers, followed_by, with_found, without_memory
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State
from ipsrl.structures import Metrics


@dataclasses.dataclass(frozen=True)
class ReplayedModes(KeptAnswers):
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

    @property
    def places(self) -> tuple[int, int]:
        return self.outcomes, self.outcomes

    def change(self, own: State, groups: Groups, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        kept, added, known = _kept_and_added(own, groups)
        groups = followed_by(self.sampled.policy, actors.policy, groups, added, self.sampled.temperature)
        return kept, groups, {"modes_kept": (known, 1)}


@jax.jit
def _kept_and_added(kept: Any, groups: Groups) -> tuple[Any, Any, Array]:
    """The kept answers `[prompts, outcomes, ...]`, those of the groups' prompts, and the mean number of them.

    One program: two that both communicate may wait for each other where several processes have CPU devices.
    """
    groups = gather_prompts(without_memory(groups))
    kept = with_found(groups, kept)
    added = jax.tree.map(lambda leaf: leaf[groups[0].prompts.index], kept)
    return kept, keep_prompts_sharded(added), (kept[1].outcome_id >= 0).sum(axis=1).mean()
