"""Off-policy answers: replaces one answer of a group by a refinement."""

import dataclasses
import functools
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import Checked, at_least, finite, one_of
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.structures import Outcomes, Trajectories


@dataclasses.dataclass(frozen=True)
class OffPolicyAnswers(Checked):
    """Replaces the first answer of a group by the best of several refinements, as in Critique-GRPO (arXiv 2506.03106).

    The best is the first with the highest reward, so it may be wrong. It is scored by the behaviour policy given the
    prompt alone, whichever prompt it was sampled from, and marked in `Rollouts.off_policy`.

    Refinements come from a function, see `Refinements`. Without one they are independent answers to the same prompt,
    which is best-of-n: not Critique-GRPO but its placebo arm, whose refinements use neither attempt nor critique.

    Attributes:
      answers: n, refinements for each prompt; at most one is used. The paper has 8, one for each attempt.
      source: which policy samples them, `policy` (the trained one) or `reference`.
      at_most: groups with a higher mean reward keep their first answer; None replaces one in every group.

    Raises:
      ValueError: a field is out of its range.
    """

    answers: int = at_least(1, 8, called="the number of refinements")
    source: Literal["policy", "reference"] = one_of("policy", "reference", default="policy")
    at_most: float | None = finite(None)


def spend_samples(objective: Objective, samples: int) -> tuple[int, OffPolicyAnswers | None]:
    """How an objective uses its samples for a prompt: the group size, and the off-policy answers.

    All samples form the group, unless the objective needs off-policy answers: then half of them do, and the other half
    are refinements.

    Raises:
      ValueError: the objective needs off-policy answers, but `samples` is below 2.
    """
    if "off_policy" not in objective.needs:
        return samples, None
    return samples - samples // 2, OffPolicyAnswers(answers=samples // 2)


class Refinements(Protocol):
    """Samples the refinements of `OffPolicyAnswers`, for an environment that can criticise an attempt."""

    def __call__(
        self, parameters: Parameters, attempts: Trajectories, outcomes: Outcomes, key: Array
    ) -> tuple[Trajectories, Outcomes]:
        """Refinements `[P, n, T]` of the attempts, with the environment's outcomes.

        The prompts they are sampled from may hold an attempt and its critique; the returned observations, tokens, masks
        and legal actions must be those of an answer to the prompt alone.

        Args:
          parameters: of the policy that samples.
          attempts: the groups, `[P, G, T]`.
          outcomes: of the attempts.
          key: the same key gives the same answers.
        """
        ...


@functools.partial(jax.jit, static_argnames=("policy", "temperature"))
def with_best_answer(
    policy: Policy,
    behaviour: Parameters,
    attempts: Trajectories,
    outcomes: Outcomes,
    refined: Trajectories,
    refined_outcomes: Outcomes,
    temperature: float,
    at_most: float | None = None,
) -> tuple[Trajectories, Outcomes]:
    """Replaces the first answer of each group by the best refinement, scored by the behaviour policy given the prompt.

    Groups with a mean reward above `at_most` do not change.
    """
    hard = jnp.ones(len(outcomes.rewards), bool) if at_most is None else outcomes.rewards.mean(axis=1) <= at_most
    best = refined_outcomes.rewards.argmax(axis=1)

    def choose(leaf):
        return jnp.take_along_axis(leaf, best.reshape(-1, *(1,) * (leaf.ndim - 1)), axis=1)

    def put_first(answer, group):
        first = jnp.where(hard.reshape(-1, *(1,) * (group.ndim - 1)), answer, group[:, :1])
        return jnp.concatenate([first, group[:, 1:]], axis=1)

    answer = jax.tree.map(choose, dataclasses.replace(refined, prompts=None))
    scores = policy.score(behaviour, dataclasses.replace(answer, prompts=attempts.prompts), temperature)
    answer = dataclasses.replace(
        answer,
        behaviour_log_probs=scores.log_probs,
        behaviour_entropy=scores.entropy,
        top_log_probs=scores.top_log_probs,
    )
    groups = jax.tree.map(put_first, answer, dataclasses.replace(attempts, prompts=None))
    off_policy = jnp.zeros(outcomes.rewards.shape, bool).at[:, 0].set(hard)
    groups = dataclasses.replace(groups, prompts=attempts.prompts, off_policy=off_policy)
    return groups, jax.tree.map(put_first, jax.tree.map(choose, refined_outcomes), outcomes)
