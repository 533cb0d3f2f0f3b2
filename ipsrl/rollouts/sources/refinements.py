"""Off-policy answers: replaces one answer of a group by a refinement."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, at_least, finite, one_of
from ipsrl.distributed.mesh import sharded
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.critics import Critic, as_lists, quoting
from ipsrl.rollouts.sources.source import Actors, Groups, Request, Sampled, State, Wrapper, with_sampling_metrics
from ipsrl.structures import Metrics, Outcomes, Trajectories, masked_mean, select

# The number of the critic's own stream: the sampler has the small ones, one for each token.
CRITIC = 2**31 - 2


class Refine(abc.ABC):
    """Samples refinements, for an environment that can criticise an attempt."""

    NAMED: ClassVar[dict[str, Callable[..., "Refine"]]] = {}
    """Names in texts such as `off_policy(answers=8, refine=second_attempt)`."""

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError if the environment or the policy cannot do what this needs."""
        del sampled

    @abc.abstractmethod
    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, number: int, key: Array
    ) -> tuple[Trajectories, Array | float]:
        """Refinements `[P, n, T]` of the attempts, and the number of tokens that the policy sampled besides them.

        The prompts they are sampled from may hold an attempt and its critique; the returned prompts, observations,
        tokens, masks and legal actions must be those of an answer to the prompt alone.

        Args:
          sampled: environment and policy.
          parameters: of the policy that samples.
          attempts: the groups, `[P, G, T]`, with their outcomes.
          number: n.
          key: the same key gives the same answers.
        """


@dataclasses.dataclass(frozen=True)
class OffPolicyAnswers(Wrapper):
    """Replaces the first answer of a group by the best of several refinements, as in Critique-GRPO (arXiv 2506.03106).

    The best is the first with the highest reward, so it may be wrong. It is scored by the behaviour policy given the
    prompt alone, whichever prompt it was sampled from, and marked in `Rollouts.off_policy`.

    Refinements come from `refine`. Without it they are independent answers to the same prompt, which is best-of-n: not
    Critique-GRPO but its placebo arm, whose refinements use neither attempt nor critique.

    Metrics: `off_policy_reward`, the mean reward of the refinements put into groups. `tokens_sampled` counts all
    refinements, and what the policy writes as its own critic.

    Attributes:
      answers: n, refinements for each prompt; at most one is used. The paper has 8, one for each attempt.
      actor: which policy samples them, the trained `policy` or the `reference`.
      at_most: groups with a higher mean reward keep their first answer; None replaces one in every group.
      refine: samples the refinements, see `Refine` and `SecondAttempt`; None for independent answers.

    Raises:
      ValueError: a field is out of its range.
    """

    answers: int = at_least(1, 8, called="the number of refinements")
    actor: Literal["policy", "reference"] = one_of("policy", "reference", default="policy")
    at_most: float | None = finite(None)
    refine: Refine | None = None

    asks = "policy"

    def provides(self, fields: frozenset[str]) -> frozenset[str]:
        """Adds `off_policy`, and drops the policy's most likely tokens if the reference policy samples."""
        lost = {"top_log_probs"} if self.actor == "reference" else set()
        return fields - lost | {"off_policy"}

    def check_inner(self) -> None:
        """Raises ValueError also if the environment cannot do what the refinements need."""
        super().check_inner()
        if self.refine is not None:
            self.refine.check(self.sampled)

    @property
    def answers_held(self) -> int:
        """Counts the refinements of all prompts, too."""
        return self.sampled.prompts_per_step * self.answers + self.inner.answers_held

    @property
    def on_host(self) -> bool:
        """True if refinements are not plain samples: those are made on the host."""
        return self.refine is not None or self.inner.on_host

    @property
    def needs_reference(self) -> bool:
        return self.actor == "reference" or self.inner.needs_reference

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        inner, groups, metrics = self.inner(state[1], actors, request)
        metrics, sampled = with_sampling_metrics(groups, metrics), self.sampled
        parameters = actors.policy if self.actor == "policy" else actors.reference
        refined, spent = self._refined(self.reward_of((None, inner)), parameters, groups, request)
        groups = with_best_answer(
            sampled.policy, actors.policy, *groups, *sharded(refined), sampled.temperature, self.at_most
        )
        return (None, inner), groups, _counted(metrics, refined[0].token_mask, spent, groups)

    def _refined(
        self, reward: Reward | None, parameters: Parameters, groups: Groups, request: Request
    ) -> tuple[Groups, Array | float]:
        key, spent = request.key("refinements"), 0.0
        if self.refine is None:
            refined = self.sampled.answers(parameters, groups[0].prompts, key, self.answers)
        else:
            refined, spent = self.refine(self.sampled, parameters, groups, self.answers, key)
        # The reward learns from the groups alone.
        outcomes, _ = self.sampled.verify(reward, refined, request.key("reward of refinements"))
        return (refined, outcomes), spent


@jax.jit
def _counted(metrics: Metrics, refined_mask: Array, spent: Array | float, groups: Groups) -> Metrics:
    """The metrics with those of refinements `[P, n, T]`, of which the best are in the groups."""
    put_in = groups[0].off_policy
    assert put_in is not None, "`with_best_answer` marks what it puts in"
    number, tokens = (metrics[name][0] for name in ("trajectories_sampled", "tokens_sampled"))
    return metrics | {
        "trajectories_sampled": (number + math.prod(refined_mask.shape[:2]), 0),
        "tokens_sampled": (tokens + refined_mask.sum(dtype=jnp.float32) + spent, 0),
        "off_policy_reward": (masked_mean(groups[1].rewards, put_in), 1),
    }


@dataclasses.dataclass(frozen=True)
class SecondAttempt(Refine, Checked):
    """The policy answers again, to a prompt that quotes an earlier attempt of its own and a critic's words on it.

    The i-th refinement is that of the i-th attempt of the group, in turn. The environment writes these prompts, see
    `HypothesisEnvironment.prompts_with_critique`.

    Attributes:
      critic: who says the words, see `ipsrl.rollouts.sources.critics`; None for no words, so that only the attempt is
        seen.
    """

    critic: Critic | None = None

    def check(self, sampled: Sampled) -> None:
        """Raises ValueError if the environment writes no prompts that quote an attempt, or as the critic's `check`."""
        quoting(sampled)
        if self.critic is not None:
            self.critic.check(sampled)

    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, number: int, key: Array
    ) -> tuple[Trajectories, Array | float]:
        given, environment = attempts[0].prompts, quoting(sampled)
        trajectories, outcomes = _in_turn((dataclasses.replace(attempts[0], prompts=None), attempts[1]), number)
        trajectories = dataclasses.replace(trajectories, prompts=given)
        index, answers = as_lists(trajectories)
        if self.critic is None:
            words, spent = [[[]] * number for _ in index], 0.0
        else:
            words, spent = self.critic(sampled, parameters, (trajectories, outcomes), jax.random.fold_in(key, CRITIC))
        quotations = [quotation for pair in zip(answers, words, strict=True) for quotation in zip(*pair, strict=True)]
        width = environment.history_width(1 if self.critic is None else 2)
        prompts = environment.prompts_with_critique(np.repeat(index, number), quotations, width)
        answers = sampled.answers(parameters, prompts, key, 1)
        grouped = _grouped(dataclasses.replace(answers, prompts=None), number)
        return dataclasses.replace(grouped, prompts=given), spent


# Each one program: as an operation for each leaf they deadlocked on CPU when several processes took part, because XLA's
# threads wait for room in a queue of programs that wait for these threads (jax 0.10.2).
@functools.partial(jax.jit, static_argnames="number")
def _in_turn(groups: Groups, number: int) -> Groups:
    """The first `number` of the members `[P, G, ...]`, `[P, number, ...]`; after the last comes the first again."""
    group_size = groups[1].rewards.shape[1]
    return jax.tree.map(lambda leaf: leaf[:, np.resize(np.arange(group_size), number)], groups)


@functools.partial(jax.jit, static_argnames="number")
def _grouped(answers: Trajectories, number: int) -> Trajectories:
    """`[P, number, ...]` of one answer to each of P `number` prompts, `[P number, 1, ...]`."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, number, *leaf.shape[2:]), answers)


Refine.NAMED["second_attempt"] = SecondAttempt


def spend_samples(objective: Objective, samples: int) -> tuple[int, OffPolicyAnswers | None]:
    """The use that an objective makes of its samples for a prompt: the group size, and the off-policy answers.

    All samples form the group, unless the objective needs off-policy answers: then half of them do, and the other half
    are refinements.

    Raises:
      ValueError: the objective needs off-policy answers, but `samples` is below 2.
    """
    if "off_policy" not in objective.needs:
        return samples, None
    return samples - samples // 2, OffPolicyAnswers(answers=samples // 2)


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
) -> Groups:
    """Replaces the first answer of each group by the best refinement, scored by the behaviour policy given the prompt.

    Groups with a mean reward above `at_most` do not change.
    """
    hard = jnp.ones(len(outcomes.rewards), bool) if at_most is None else outcomes.rewards.mean(axis=1) <= at_most
    best = refined_outcomes.rewards.argmax(axis=1)

    def choose(leaf):
        return jnp.take_along_axis(leaf, best.reshape(-1, *(1,) * (leaf.ndim - 1)), axis=1)

    answer = jax.tree.map(choose, (dataclasses.replace(refined, prompts=None), refined_outcomes))
    return put_in(policy, behaviour, attempts, outcomes, *answer, hard, temperature)


@functools.partial(jax.jit, static_argnames=("policy", "temperature", "place"))
def put_in(
    policy: Policy,
    behaviour: Parameters,
    trajectories: Trajectories,
    outcomes: Outcomes,
    answer: Trajectories,
    answer_outcomes: Outcomes,
    chosen: Array,
    temperature: float,
    place: int = 0,
) -> Groups:
    """Puts an answer `[P, 1, T]`, scored by the behaviour policy given the prompt, into the chosen groups `[P]`, in the
    place of their first answer or of another one.
    """

    def put(answer, group):
        return group.at[:, place].set(select(chosen, answer[:, 0], group[:, place]))

    scores = policy.score(behaviour, dataclasses.replace(answer, prompts=trajectories.prompts), temperature)
    answer = dataclasses.replace(
        answer,
        behaviour_log_probs=scores.log_probs,
        behaviour_entropy=scores.entropy,
        top_log_probs=scores.top_log_probs,
    )
    off_policy = jnp.zeros(outcomes.rewards.shape, bool) if trajectories.off_policy is None else trajectories.off_policy
    # Only `verify` needed `final_state`, so it is dropped here.
    plain = {"prompts": None, "off_policy": None, "final_state": None}
    groups = jax.tree.map(put, dataclasses.replace(answer, **plain), dataclasses.replace(trajectories, **plain))
    off_policy = off_policy.at[:, place].set(chosen | off_policy[:, place])
    groups = dataclasses.replace(groups, prompts=trajectories.prompts, off_policy=off_policy)
    return groups, jax.tree.map(put, answer_outcomes, outcomes)
