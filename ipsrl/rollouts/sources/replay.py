"""Groups and answers of earlier steps, put where those of this step have nothing to teach."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.distributed.mesh import keep_prompts_sharded
from ipsrl.fields import positive
from ipsrl.objectives.objective import all_equal
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.refinements import put_in
from ipsrl.rollouts.sources.source import (
    Actors,
    Groups,
    Metrics,
    Request,
    State,
    Wrapper,
    replicated,
    sharded,
    with_sampling_metrics,
)
from ipsrl.structures import select


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

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        buffer, inner = state
        inner, groups, metrics = self.inner(inner, actors, request)
        metrics = with_sampling_metrics(groups, metrics)
        groups, buffer, replayed = _replay_groups(_without_memory(groups), *buffer)
        return (buffer, inner), sharded(groups), metrics | {"replayed_groups": (replayed, 1)}


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
class ReplayedAnswers(Wrapper):
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

    asks = "policy"

    def provides(self, fields: frozenset[str]) -> frozenset[str]:
        """With `off_policy`; without the most likely tokens, which replayed answers have of an earlier policy."""
        return fields - {"top_log_probs"} | {"off_policy"}

    @property
    def answers_held(self) -> int:
        return self.sampled.environment.num_prompts * self.outcomes + self.inner.answers_held

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        inner, groups = first_groups(self, actors, seed, reward)
        return empty_answers(groups, self.sampled.environment.num_prompts, self.outcomes), inner

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        kept, inner = state
        inner, groups, metrics = self.inner(inner, actors, request)
        metrics = with_sampling_metrics(groups, metrics)
        answer, chosen = _missing_answer(groups, kept, request.key("replay"))
        kept = with_found(groups, kept)
        sampled = self.sampled
        groups = put_in(sampled.policy, actors.policy, *groups, *answer, chosen, sampled.temperature, place=-1)
        return (kept, inner), sharded(groups), metrics | _replay_metrics(chosen, kept[1].outcome_id)


@jax.jit
def _replay_metrics(chosen: Array, kept_outcomes: Array) -> Metrics:
    return {
        "replayed_answers": (chosen.mean(), 1),
        "outcomes_kept": ((kept_outcomes >= 0).sum(axis=1).mean(), 1),
    }


@jax.jit
def _missing_answer(groups: Groups, kept: Any, key: Array) -> tuple[Groups, Array]:
    """For each group a kept answer `[P, 1, ...]` whose outcome it lacks, and `[P]` bool, whether there is one."""
    trajectories, outcomes = groups
    rows = trajectories.prompts.index
    ids = kept[1].outcome_id[rows]
    right = jnp.where(outcomes.right, outcomes.outcome_id, -1)
    missing = (ids >= 0) & ~(ids[:, :, None] == right[:, None, :]).any(axis=-1)
    place = jnp.where(missing, jax.random.uniform(key, missing.shape), -1.0).argmax(axis=1)
    answer = jax.tree.map(lambda leaf: leaf[rows, place][:, None], kept)
    return answer, missing.any(axis=1)


@jax.jit
def with_found(groups: Groups, kept: Any) -> Any:
    """The kept answers `[prompts, places, ...]`, with right ones of new outcomes in free places, of outcome -1."""
    trajectories, outcomes = groups
    ids, outcome_id = outcomes.outcome_id, kept[1].outcome_id
    known = (outcome_id[trajectories.prompts.index][:, None, :] == ids[..., None]).any(axis=-1)
    new = (outcomes.right & (ids >= 0) & ~known).ravel()
    prompt, ids = jnp.repeat(trajectories.prompts.index, outcomes.rewards.shape[1]), ids.ravel()
    # [n, n], of which the row of an answer marks the answers before it.
    same_prompt = jnp.tril(prompt[:, None] == prompt, -1)
    first = new & ~(same_prompt & (ids[:, None] == ids) & new).any(axis=1)
    place = (outcome_id >= 0).sum(axis=1)[prompt] + (same_prompt & first).sum(axis=1)
    # A place that does not exist: nothing is written.
    at = prompt, jnp.where(first, place, outcome_id.shape[1])

    def put(old, new):
        return old.at[at].set(new.reshape(-1, *new.shape[2:]), mode="drop")

    return jax.tree.map(put, kept, of_answers(groups))


def _without_memory(groups: Groups) -> Groups:
    """Groups without what the environment remembers, which those who name outcomes have used."""
    return dataclasses.replace(groups[0], final_state=None), groups[1]


def of_answers(groups: Groups) -> Any:
    """What is kept of answers, leaves `[P, G, ...]`; the policy that puts them into a group scores them again."""
    trajectories, outcomes = _without_memory(groups)
    again = "behaviour_log_probs", "behaviour_entropy", "top_log_probs", "top_tokens"
    return dataclasses.replace(trajectories, prompts=None, off_policy=None, **dict.fromkeys(again)), outcomes


def empty_answers(groups: Groups, prompts: int, places: int) -> Any:
    """Answers `[prompts, places, ...]` as `of_answers` of these groups: no token, reward 0, outcome -1."""
    answers, outcomes = jax.tree.map(
        lambda leaf: jnp.zeros((prompts, places, *leaf.shape[2:]), leaf.dtype), of_answers(groups)
    )
    return replicated((answers, dataclasses.replace(outcomes, outcome_id=outcomes.outcome_id - 1)))


def first_groups(wrapper: Wrapper, actors: Actors, seed: Array | int, reward: Reward | None) -> tuple[State, Groups]:
    """The inner source's first state, and groups in the shapes of its groups."""
    inner = wrapper.inner.init(actors, seed, reward)

    def first() -> Groups:
        return _without_memory(wrapper.inner(inner, actors, Request(seed, 0))[1])

    if wrapper.inner.on_host:
        return inner, first()
    return inner, sharded(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(first)))
