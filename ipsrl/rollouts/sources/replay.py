"""Groups and answers of earlier steps, put where those of this step have nothing to teach."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.distributed.mesh import keep_prompts_sharded, sharded
from ipsrl.objectives.ties import all_equal
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.kept_answers import KeptAnswers, first_groups, with_found, without_memory
from ipsrl.rollouts.sources.refinements import put_in
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State, Wrapper
from ipsrl.structures import Metrics, select


@dataclasses.dataclass(frozen=True)
class ReplayedGroups(Wrapper):
    """Puts the latest informative groups of earlier steps in the place of groups whose rewards are all equal.

    A buffer of P groups holds the latest informative ones. They keep the log-probabilities of the policy that sampled
    them, so that the objective's importance ratio corrects for their age.

    Metrics: `replayed_groups`, the share of groups in the batch that are replayed.
    """

    @property
    def stale(self) -> bool:
        """True: replayed groups were sampled by earlier policies."""
        return True

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        inner, groups = first_groups(self, actors, seed, reward)
        return (groups, sharded(jnp.zeros(len(groups[1].rewards), bool))), inner

    def change(self, own: State, groups: Groups, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        groups, buffer, replayed = _replay_groups(without_memory(groups), *own)
        return buffer, groups, {"replayed_groups": (replayed, 1)}


@jax.jit
def _replay_groups(groups: Groups, buffer: Groups, taken: Array) -> tuple[Groups, tuple[Groups, Array], Array]:
    """The batch, the buffer with its taken slots, and the share of replayed groups."""
    informative = ~all_equal(groups[1].rewards)
    # The k-th free slot takes the k-th group of the buffer.
    place = jnp.argsort(~taken, stable=True)[jnp.cumsum(~informative) - 1]
    replayed = ~informative & taken[place] & (jnp.cumsum(~informative) <= taken.sum())
    batch = jax.tree.map(lambda new, old: select(replayed, old[place], new), groups, buffer)
    usable = jnp.concatenate([informative, taken])
    latest = jnp.argsort(~usable, stable=True)[: len(taken)]
    buffer = jax.tree.map(lambda new, old: jnp.concatenate([new, old])[latest], groups, buffer)
    batch, buffer = keep_prompts_sharded((batch, (buffer, usable[latest])))
    return batch, buffer, replayed.mean()


@dataclasses.dataclass(frozen=True)
class ReplayedAnswers(KeptAnswers):
    """Puts a right answer of an earlier step into each group, with an outcome that the group has not found by itself.

    For each prompt and outcome the first right answer is kept. One of those whose outcome the group lacks, chosen at
    random, takes the place of its last answer, because the first may be a refinement. It is scored by the behaviour
    policy and marked in `Rollouts.off_policy`, as a refinement is.

    Metrics: `replayed_answers`, the share of groups that get one; `outcomes_kept`, the mean number of outcomes kept for
    a prompt.

    Attributes:
      outcomes: number of outcomes kept for each prompt; when more are found, the first are kept.
    """

    outcomes: int = positive(16, called="the number of outcomes kept for each prompt")

    @property
    def places(self) -> tuple[int, int]:
        return self.outcomes, 0

    def change(self, own: State, groups: Groups, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        answer, chosen = _missing_answer(groups, own, request.key("replay"))
        kept, sampled = with_found(groups, own), self.sampled
        groups = put_in(sampled.policy, actors.policy, *groups, *answer, chosen, sampled.temperature, place=-1)
        return kept, groups, _replay_metrics(chosen, kept[1].outcome_id)


@jax.jit
def _replay_metrics(chosen: Array, kept_outcomes: Array) -> Metrics:
    return {
        "replayed_answers": (chosen.mean(), 1),
        "outcomes_kept": ((kept_outcomes >= 0).sum(axis=1).mean(), 1),
    }


@jax.jit
def _missing_answer(groups: Groups, kept: Any, key: Array) -> tuple[Groups, Array]:
    """A kept answer `[P, 1, ...]` for each group, whose outcome it lacks, and `[P]` bool, whether there is one."""
    trajectories, outcomes = groups
    rows = trajectories.prompts.index
    ids = kept[1].outcome_id[rows]
    right = jnp.where(outcomes.right, outcomes.outcome_id, -1)
    missing = (ids >= 0) & ~(ids[:, :, None] == right[:, None, :]).any(axis=-1)
    place = jnp.where(missing, jax.random.uniform(key, missing.shape), -1.0).argmax(axis=1)
    answer = jax.tree.map(lambda leaf: leaf[rows, place][:, None], kept)
    return answer, missing.any(axis=1)
