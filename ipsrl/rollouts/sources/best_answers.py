"""The best answers of all steps so far, added to the groups of this step."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.distributed.mesh import gather_prompts, keep_prompts_sharded
from ipsrl.rollouts.sources.kept_answers import KeptAnswers, followed_by, of_answers
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State
from ipsrl.structures import Metrics


@dataclasses.dataclass(frozen=True)
class BestAnswers(KeptAnswers):
    """Adds some of a prompt's best answers of all earlier steps to each group: G answers become G + drawn.

    For each prompt the `size` answers with the highest positive rewards are kept, of equal rewards the earliest, each
    sequence of tokens once, with the reward that it had first. `drawn` of them, chosen uniformly at random without
    replacement, follow the answers of each group; only then are the group's own answers kept, as in the released
    REINVENT, where this is called inception (MolecularAI/Reinvent and REINVENT4; schwallergroup/saturn keeps them
    first). They are scored by the behaviour policy and marked in `Rollouts.off_policy`, as a refinement is.

    Where fewer than `drawn` are kept, the other places hold empty answers: no token, reward 0, outcome -1. Means over
    answers do not count them, nor do objectives that compare the likelihoods of a group's answers, but those that
    compare their rewards take them for answers without reward; one that does neither, such as `reinvent`, learns
    nothing from them.

    Metrics: `best_kept`, the mean reward of the kept answers; `best_answers`, the share of the added places that are
    not empty.

    Attributes:
      size: number of answers kept for each prompt.
      drawn: number of them that are added to each group.

    Raises:
      ValueError: a number is not positive, or `drawn` is above `size`.
    """

    size: int = positive(100, called="the number of best answers kept for each prompt")
    drawn: int = positive(10, called="the number of best answers added to a group")

    def __post_init__(self):
        super().__post_init__()
        if self.drawn > self.size:
            raise ValueError(
                f"{self.drawn} best answers cannot be added to a group where {self.size} are kept: raise size, or "
                "lower drawn"
            )

    @property
    def places(self) -> tuple[int, int]:
        return self.size, self.drawn

    def change(self, own: State, groups: Groups, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        index, answers = groups[0].prompts.index, of_answers(groups)
        added, kept, metrics = _drawn_and_kept(own, index, answers, request.key("best answers"), self.drawn)
        groups = followed_by(self.sampled.policy, actors.policy, groups, added, self.sampled.temperature)
        return kept, groups, metrics


@functools.partial(jax.jit, static_argnames="number")
def _drawn_and_kept(kept: Any, prompt_index: Array, answers: Any, key: Array, number: int) -> tuple[Any, Any, Metrics]:
    """`number` kept answers for each group, the kept answers after this step, and metrics.

    One program: two that both communicate may wait for each other where several processes have CPU devices.
    """
    prompt_index, answers = gather_prompts((prompt_index, answers))
    added, kept = _some_of(kept, prompt_index, key, number), _with_best(kept, prompt_index, answers)
    rewards = kept[1].rewards
    metrics = {
        "best_kept": (rewards.sum(), (rewards > 0).sum()),
        "best_answers": ((added[1].rewards > 0).mean(), 1),
    }
    return keep_prompts_sharded(added), kept, metrics


def _some_of(kept: Any, prompt_index: Array, key: Array, number: int) -> Any:
    """`[P, number, ...]`, kept answers of each prompt `[P]` at random, then empty ones."""
    filled = kept[1].rewards[prompt_index] > 0
    _, places = jax.lax.top_k(jnp.where(filled, jax.random.uniform(key, filled.shape), -1.0), number)
    return jax.tree.map(lambda leaf: leaf[prompt_index[:, None], places], kept)


def _with_best(kept: Any, prompt_index: Array, answers: Any) -> Any:
    """The kept answers `[prompts, size, ...]` after those of one group after the other, best first."""
    size = kept[1].rewards.shape[1]

    def keep(kept: Any, group: tuple[Array, Any]) -> tuple[Any, None]:
        prompt, answers = group
        both = jax.tree.map(lambda old, new: jnp.concatenate([old[prompt], new]), kept, answers)
        trajectories, outcomes = both
        rewarded = outcomes.rewards > 0
        words = jnp.where(trajectories.written, trajectories.tokens, -1)
        place = jnp.arange(len(words))
        earlier = place < place[size:, None]
        known = ((words[size:, None] == words).all(axis=-1) & earlier & rewarded).any(axis=1)
        # Free places, of reward 0, stay before answers that are not kept, and there are always enough of them.
        candidate = jnp.concatenate([jnp.ones(size, bool), rewarded[size:] & ~known])
        best = jnp.argsort(jnp.where(candidate, -outcomes.rewards, jnp.inf), stable=True)[:size]
        return jax.tree.map(lambda old, new: old.at[prompt].set(new[best]), kept, both), None

    return jax.lax.scan(keep, kept, (prompt_index, answers))[0]
