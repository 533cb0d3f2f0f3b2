"""Search agents before and after training by demonstrations or by rewards, and how many ways of searching they keep.

The agent is a `SharedRelationTable`. It is trained on half of the questions on one graph; the others are held out.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.search_diversity.counted_searches import counted_searches
from experiments.search_diversity.search_routes import SearchRoutes
from experiments.search_diversity.shared_table import SharedRelationTable, replayed
from ipsrl import objectives
from ipsrl.environments.knowledge_graph import FIRST_ENTITY, STOP
from ipsrl.environments.search_agent import SearchAgent
from ipsrl.fields import Checked, non_negative, open_probability
from ipsrl.policies.policy import Parameters
from ipsrl.rewards import NoisyVerifier
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.stored_groups import StoredGroups, given_answers
from ipsrl.structures import Trajectories, masked_sum
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ANSWER, BEHAVIOUR = "answer", "behaviour"
PRIOR = "prior"
DIVERSE = "sft_diverse"
NARROW = "sft_narrow"
SHIFTED = "sft_shifted"
TAUGHT = (DIVERSE, NARROW, SHIFTED)
"""Arms that imitate, see `Agents.taught`."""
GRPO = "grpo"
THEN = "sft_then_grpo"
BY_ANSWER = "ips_by_answer"
BY_BEHAVIOUR = "ips_by_behaviour"
PROGRPO = "progrpo"
DARLING = "darling"
RANDOM = "grpo_random"
REWARDED = {
    **dict.fromkeys((GRPO, THEN, RANDOM), ("grpo(aggregation=constant_length)", ANSWER)),
    BY_ANSWER: ("ips_grpo(aggregation=constant_length)", ANSWER),
    BY_BEHAVIOUR: ("ips_grpo(aggregation=constant_length)", BEHAVIOUR),
    DARLING: ("darling(aggregation=constant_length)", BEHAVIOUR),
    PROGRPO: ("progrpo(reference=correct, aggregation=constant_length)", ANSWER),
}
"""Arms that are rewarded -> the objective, and what it takes for an outcome.

All sum over tokens and divide by the longest answer's length, so that no length of a search is preferred.
"""
NAMES = {
    PRIOR: "the prior",
    DIVERSE: "SFT on diverse demonstrations",
    NARROW: "SFT on narrow demonstrations",
    SHIFTED: "SFT on the routes of other questions",
    GRPO: "GRPO",
    THEN: "SFT then GRPO",
    BY_ANSWER: "IPS by answer",
    BY_BEHAVIOUR: "IPS by behaviour",
    PROGRPO: "ProGRPO",
    DARLING: "DARLING",
    RANDOM: "GRPO with random rewards",
}
"""Arms -> what they are called."""
PLACEBOS = (SHIFTED, RANDOM)
"""Arms that are no suggestion of anyone."""
DIVERSITY = (BY_BEHAVIOUR, PROGRPO, DARLING)
"""Arms that are to keep several behaviours."""
COIN = NoisyVerifier(0.5, 0.5)
"""Random rewards."""


@dataclasses.dataclass(frozen=True)
class ShiftedRoutes(SearchRoutes):
    """The placebo of `SearchRoutes`: each question gets the routes of the next one, walked from its own entity.

    So demonstrations are as many, as long and as diverse, but mostly end at a wrong answer.
    """

    def known(self, task: SearchAgent, prompt: int) -> list[tuple[int, ...]]:
        return super().known(task, (prompt + 1) % task.num_prompts)


@dataclasses.dataclass(frozen=True)
class Budget:
    """What an arm may use.

    Attributes:
      steps, record_every: of both SFT and RL.
      group_size: answers to each of eight questions in a step of RL.
      demonstrations, sft_rate: of SFT, to a question, all of them in each step.
    """

    steps: int
    record_every: int
    group_size: int
    demonstrations: int
    sft_rate: float


@dataclasses.dataclass(frozen=True)
class Agents(Checked):
    """A task, its prior, and how the prior is trained.

    The prior, which is all in the shared part, asks for the relation that the question asks for next with probability
    (1 - stops) skill, for any other with equal ones, and stops with `stops`, or with `ends` where the chain is over. It
    names the last result, and not the question's entity, with `stays`. So it knows no route but the chain.

    Attributes:
      noise: standard deviation of each seed's own addition to the logits of each state.
    """

    skill: float = open_probability(0.5)
    stops: float = open_probability(0.1)
    ends: float = open_probability(0.7)
    stays: float = open_probability(0.9)
    noise: float = non_negative(0.5)

    def task(self, problems: int = 8, outcome: str = ANSWER) -> SearchAgent:
        """Questions of two and three hops on eight entities; the first eight are those that training asks."""
        return SearchAgent(
            entities=8,
            relations=3,
            synonyms=1,
            hops=(2, 3),
            problems=problems,
            lookups=3,
            sees="state",
            outcome=outcome,
        )

    @functools.cached_property
    def asked(self) -> SearchAgent:
        """All sixteen questions, of which the last eight are held out."""
        return self.task(16)

    @functools.cached_property
    def policy(self) -> SharedRelationTable:
        """Of all questions."""
        task = self.asked
        return SharedRelationTable(task.num_observations, task.vocabulary_size, task=task)

    def prior(self, seeds: Sequence[int]) -> Parameters:
        """Leaves `[seed, ...]`."""
        task, words = self.asked, slice(self.asked.first_word, None)
        number, count = 2 * task.relations, task.entities
        probs = np.ones((task.relations + 1, count, count + 1, task.vocabulary_size))
        to_name, relations = probs[:, :, -1], probs[:, :, :-1]
        to_name[..., FIRST_ENTITY : task.first_word] = 1 - self.stays
        for at in range(count):
            to_name[:, at, FIRST_ENTITY + at] = self.stays
        relations[..., STOP] = self.stops
        relations[..., words] = (1 - self.stops) * (1 - self.skill) / (number - 1)
        for following in range(task.relations):
            asked_next = task.first_word + following
            relations[following, ..., asked_next] = (1 - self.stops) * self.skill
        relations[-1, ..., STOP] = self.ends
        relations[-1, ..., words] = (1 - self.ends) / number
        shared = jnp.log(jnp.asarray(probs.reshape(-1, task.vocabulary_size), jnp.float32))

        def own(seed: Array) -> Array:
            shape = self.policy.num_observations, task.vocabulary_size
            return self.noise * jax.random.normal(stream(seed, 0, "prior"), shape)

        return {
            "own": jax.vmap(own)(jnp.asarray(seeds)),
            "shared": jnp.broadcast_to(shared, (len(seeds), *shared.shape)),
        }

    def demonstrations(self, routes: SearchRoutes) -> Trajectories:
        """Answers to the trained questions, with the states in which a table sees their tokens; `[P, G, T]`."""
        task = self.task()
        stored = StoredGroups.of(task, self.policy, task.problems, routes.rows(task))
        prompts = task.prompts(jnp.arange(task.problems))
        tokens, lengths, own = map(jnp.asarray, (stored.tokens, stored.lengths, stored.own))
        return replayed(task, given_answers(prompts, tokens, lengths, own=own))

    def found(
        self, arm: str, rate: float | None, seeds: Sequence[int], budget: Budget
    ) -> dict[str, np.ndarray]:
        """What `counted_searches` counts in the runs of an arm: name -> `[seed, record]`; the prior has one record.

        Args:
          rate: the learning rate of an arm of `REWARDED`.
        """
        if arm in REWARDED:
            policies = self.rewarded(arm, rate, seeds, budget)
        elif arm in TAUGHT:
            policies = self.taught(arm, seeds, budget)
        else:
            policies = jax.tree.map(lambda leaf: leaf[:, None], self.prior(seeds))
        return counted_searches(
            self.asked, self.policy, policies, jnp.asarray(seeds), self.task().problems
        )

    def taught(self, arm: str, seeds: Sequence[int], budget: Budget) -> Parameters:
        """The prior of each seed after maximum likelihood of the demonstrations that this seed draws.

        They follow any route of up to three facts, the chain of the question, or shifted routes. Each step is one of
        gradient descent on all of them. Leaves `[seed, steps / record_every + 1, ...]`.
        """
        kind = ShiftedRoutes if arm == SHIFTED else SearchRoutes
        routes = kind("chain" if arm == NARROW else "all", answers=budget.demonstrations)
        drawn = [self.demonstrations(dataclasses.replace(routes, seed=seed)) for seed in seeds]
        shown, every = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn), budget.record_every
        rate = jnp.float32(budget.sft_rate)
        return _taught(self.policy, self.prior(seeds), shown, rate, budget.steps // every, every)

    def rewarded(self, arm: str, rate: float, seeds: Sequence[int], budget: Budget) -> Parameters:
        """Runs of an arm of `REWARDED`, from the prior or from what `THEN` is taught: leaves `[seed, record, ...]`."""
        objective, outcome = REWARDED[arm]
        task = self.task(outcome=outcome)
        settings = TrainSettings(
            budget.steps, task.problems, budget.group_size, optimizer="sgd", max_gradient_norm=None
        )
        initial = self.prior(seeds)
        if arm == THEN:
            initial = jax.tree.map(lambda leaf: leaf[:, -1], self.taught(DIVERSE, seeds, budget))
        return train_ensemble(
            Trainer(task, self.policy, objectives.make(objective), settings),
            jnp.asarray(seeds),
            itself,
            budget.record_every,
            jnp.full(len(seeds), rate, jnp.float32),
            initial,
            COIN if arm == RANDOM else None,
        )


@functools.partial(jax.jit, static_argnames=("policy", "records", "record_every"))
def _taught(
    policy: SharedRelationTable,
    priors: Parameters,
    shown: Trajectories,
    rate: Array,
    records: int,
    record_every: int,
) -> Parameters:
    def of_seed(prior: Parameters, answers: Trajectories) -> Parameters:
        def loss(parameters: Parameters) -> Array:
            log_probs = policy.score(parameters, answers, 1.0).log_probs
            return -masked_sum(log_probs, answers.token_mask) / answers.token_mask.sum()

        def step(parameters: Parameters, _: None) -> tuple[Parameters, None]:
            return jax.tree.map(
                lambda leaf, slope: leaf - rate * slope, parameters, jax.grad(loss)(parameters)
            ), None

        def interval(parameters: Parameters, _: None) -> tuple[Parameters, Parameters]:
            parameters, _ = jax.lax.scan(step, parameters, length=record_every)
            return parameters, parameters

        _, later = jax.lax.scan(interval, prior, length=records)
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), prior, later)

    return jax.lax.map(lambda run: of_seed(*run), (priors, shown))
