"""Diversity filter: an outcome that was given often enough earns nothing more."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.distributed.mesh import gather_prompts, replicated
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.source import Actors, Groups, Request, State, Wrapper
from ipsrl.structures import Metrics, Outcomes


@dataclasses.dataclass(frozen=True)
class DiversityFilter(Wrapper):
    """Takes the reward from answers whose outcome was rewarded `bucket` times before, in the whole run.

    Each prompt has its own counts. Answers are counted one after the other, in the order of the groups and of the
    answers in each, and also if they lose their reward; answers without reward or outcome are not counted. This is the
    filter by identical scaffolds of REINVENT4 (doi 10.1186/s13321-020-00473-0), with the environment's outcomes in the
    place of scaffolds and a minimum score of 0; schwallergroup/saturn counts a batch after all of it is filtered.
    REINVENT4 also gives 0 to each molecule that it has rewarded before, which this filter does not.

    Metrics: `filtered_answers`, the share of answers that lose their reward; `outcomes_counted`, the mean number of
    outcomes that are counted for a prompt; `uncounted_answers`, the share of answers with a reward and an outcome for
    which no place is left. `sampled_reward` is the mean reward before the filter.

    Attributes:
      bucket: number of answers of each outcome that keep their reward.
      outcomes: number of outcomes counted for each prompt, 8 bytes each; when more are found, the first are counted,
        and the others keep their rewards.
    """

    bucket: int = positive(10, called="the number of answers of an outcome that keep their reward")
    outcomes: int = positive(16384, called="the number of outcomes counted for each prompt")

    def init(self, actors: Actors, seed: Array | int, reward: Reward | None) -> State:
        shape = self.environment.num_prompts, self.outcomes
        # An outcome of -1 marks a free place.
        counted = jnp.full(shape, -1, jnp.int32), jnp.zeros(shape, jnp.int32)
        return replicated(counted), self.inner.init(actors, seed, reward)

    def change(self, own: State, groups: Groups, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        trajectories, outcomes = groups
        outcomes, counted, metrics = _filtered(trajectories.prompts.index, outcomes, *own, self.bucket)
        return counted, (trajectories, outcomes), metrics


@jax.jit
def _filtered(
    prompt_index: Array, outcomes: Outcomes, known: Array, counts: Array, bucket: int
) -> tuple[Outcomes, tuple[Array, Array], Metrics]:
    """Outcomes with the filtered rewards; the known outcomes and their counts, both `[prompts, outcomes]`; metrics."""
    prompt_index, ids, rewards = gather_prompts((prompt_index, outcomes.outcome_id, outcomes.rewards))
    shape, places = rewards.shape, known.shape[1]
    here = known[prompt_index][:, None] == ids[..., None]
    ids, given, prompt = ids.ravel(), ((rewards > 0) & (ids >= 0)).ravel(), jnp.repeat(prompt_index, shape[1])
    is_known, place_of_known = here.any(axis=-1).ravel(), here.argmax(axis=-1).ravel()
    # [n, n], of which the row of an answer marks the answers before it.
    before = jnp.tril(prompt[:, None] == prompt, -1)
    same = before & (ids[:, None] == ids) & given
    new = given & ~is_known & ~same.any(axis=1)
    place_of_new = (known >= 0).sum(axis=1)[prompt] + (before & new).sum(axis=1)
    place = jnp.where(is_known, place_of_known, place_of_new)
    place = jnp.where(same.any(axis=1), place[same.argmax(axis=1)], place)
    counted = given & (place < places)
    full = counted & (counts[prompt, place] + same.sum(axis=1) >= bucket)
    # A place that does not exist: nothing is written.
    at = prompt, jnp.where(counted, place, places)
    known, counts = known.at[at].set(ids, mode="drop"), counts.at[at].add(1, mode="drop")

    keeps = ~full.reshape(shape)

    def kept(rewards: Array | None) -> Array | None:
        return None if rewards is None else jnp.where(keeps[..., None], rewards, 0.0)

    outcomes = dataclasses.replace(
        outcomes,
        rewards=jnp.where(keeps, outcomes.rewards, 0.0),
        step_rewards=kept(outcomes.step_rewards),
        reward_parts=kept(outcomes.reward_parts),
    )
    metrics = {
        "filtered_answers": (full.mean(), 1),
        "outcomes_counted": ((known >= 0).sum(axis=1).mean(), 1),
        "uncounted_answers": ((given & ~counted).mean(), 1),
    }
    return outcomes, (known, counts), metrics
