"""Answers of earlier steps that a source keeps for each prompt."""

import abc
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.distributed.mesh import replicated, sharded
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State, Wrapper


@dataclasses.dataclass(frozen=True)
class KeptAnswers(Wrapper):
    """Base of wrappers that keep answers to each prompt; their own state is what `empty_answers` begins with."""

    asks = "policy"

    @property
    @abc.abstractmethod
    def places(self) -> tuple[int, int]:
        """The number of answers kept for each prompt, and the number added to each group."""

    def provides(self, fields: frozenset[str]) -> frozenset[str]:
        """Adds `off_policy`, and drops the most likely tokens, which kept answers have of an earlier policy."""
        return fields - {"top_log_probs"} | {"off_policy"}

    @property
    def answers_held(self) -> int:
        sampled, (kept, added) = self.sampled, self.places
        return sampled.environment.num_prompts * kept + sampled.prompts_per_step * added + self.inner.answers_held

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        inner, groups = first_groups(self, actors, seed, reward)
        return empty_answers(groups, self.sampled.environment.num_prompts, self.places[0]), inner


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


def without_memory(groups: Groups) -> Groups:
    """Groups without `final_state`, which only `verify` needed."""
    return dataclasses.replace(groups[0], final_state=None), groups[1]


def of_answers(groups: Groups) -> Any:
    """The fields of answers that are kept, leaves `[P, G, ...]`; the policy that reuses them scores them again."""
    trajectories, outcomes = without_memory(groups)
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
        return without_memory(wrapper.inner(inner, actors, Request(seed, 0))[1])

    if wrapper.inner.on_host:
        return inner, first()
    return inner, sharded(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(first)))


@functools.partial(jax.jit, static_argnames=("policy", "temperature"))
def followed_by(policy: Policy, behaviour: Parameters, groups: Groups, added: Any, temperature: float) -> Groups:
    """Groups `[P, G, ...]` and then `added` `[P, n, ...]`, scored by the behaviour policy and marked as off-policy."""
    trajectories, outcomes = groups
    answers, answer_outcomes = added
    scores = policy.score(behaviour, dataclasses.replace(answers, prompts=trajectories.prompts), temperature)
    answers = dataclasses.replace(
        answers,
        behaviour_log_probs=scores.log_probs,
        behaviour_entropy=scores.entropy,
        off_policy=jnp.ones(answer_outcomes.rewards.shape, bool),
    )
    own = jnp.zeros(outcomes.rewards.shape, bool) if trajectories.off_policy is None else trajectories.off_policy
    # Only `verify` needed `final_state`, so it is dropped here.
    plain = {"prompts": None, "final_state": None, "top_tokens": None, "top_log_probs": None}
    both = jax.tree.map(
        lambda *parts: jnp.concatenate(parts, axis=1),
        (dataclasses.replace(trajectories, off_policy=own, **plain), outcomes),
        (answers, answer_outcomes),
    )
    return dataclasses.replace(both[0], prompts=trajectories.prompts), both[1]
