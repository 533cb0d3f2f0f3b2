"""Answers in a group that the policy did not find by itself: where a refinement enters."""

import dataclasses
import functools
import math
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.structures import Outcomes, Trajectories


@dataclasses.dataclass(frozen=True)
class OffPolicyAnswers:
    """The first answer of a group gives way to the best of some further ones, as in Critique-GRPO (arXiv 2506.03106).

    The best is the first of the highest reward, so it may be wrong. It is scored by the behaviour policy given the
    prompt alone, whatever it was sampled from, and marked in `Rollouts.off_policy`.

    Refinements come from a function, see `Refinements`. Without one they are independent answers to the same
    prompt, and the rule is best-of-n: not Critique-GRPO, but its honest placebo arm, a refinement that has seen neither
    attempt nor critique.

    Attributes:
      answers: n, refinements to each prompt; all but one are thrown away. 8, one for each attempt, is the paper's.
      source: who draws them, the policy that is trained or the reference policy.
      at_most: groups with a higher mean reward keep their own first answer; None puts one into every group.

    Raises:
      ValueError: there are no refinements, or `at_most` is no number.
    """

    answers: int = 8
    source: Literal["policy", "reference"] = "policy"
    at_most: float | None = None

    def __post_init__(self):
        if self.answers < 1:
            raise ValueError(f"the number of refinements is {self.answers}, it must be at least 1")
        if self.source not in ("policy", "reference"):
            raise ValueError(f"refinements come from policy or reference, not from {self.source!r}")
        if self.at_most is not None and not math.isfinite(self.at_most):
            raise ValueError(f"at_most is {self.at_most}, it must be a finite mean reward, or None for every group")


def spend_samples(objective: Objective, samples: int) -> tuple[int, OffPolicyAnswers | None]:
    """How an objective spends the samples that it has for each prompt: the size of its group, and what else it draws.

    All become the group, unless the objective needs an answer that the policy did not sample from the prompt: then half
    of them, and the best of the other half.

    Raises:
      ValueError: it needs such an answer, but there is one sample.
    """
    if "off_policy" not in objective.needs:
        return samples, None
    return samples - samples // 2, OffPolicyAnswers(answers=samples // 2)


class Refinements(Protocol):
    """Samples the refinements of `OffPolicyAnswers`, for an environment that can criticise an attempt."""

    def __call__(
        self, parameters: Parameters, attempts: Trajectories, outcomes: Outcomes, key: Array
    ) -> tuple[Trajectories, Outcomes]:
        """Refinements `[P, n, T]` to the prompts of the attempts, and what the environment says of them.

        The prompts that they are sampled from may hold an attempt and its critique; their observations, tokens, masks
        and legal actions are those of an answer to the prompt alone.

        Args:
          parameters: of the policy that draws.
          attempts: the groups, `[P, G, T]`.
          outcomes: what the environment says of them.
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
    """Groups whose first answer is the best further one, scored by the behaviour policy given the prompt alone.

    Groups with a mean reward above `at_most` stay as they are.
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
