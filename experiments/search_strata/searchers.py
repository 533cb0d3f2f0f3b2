"""Search agents in tables whose short searches are trained and whose long ones are not, and two strata without noise.

The stratum of an answer is its number of look-ups. All questions have an answer within one look-up and a chain of three
facts; there are many ways of two and three look-ups.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.modes.mode_bandit import ModeBandit
from experiments.modes.mode_paths import Update, exact_path
from ipsrl import objectives
from ipsrl.environments.knowledge_graph import FIRST_ENTITY, STOP
from ipsrl.environments.search_agent import SearchAgent
from ipsrl.fields import Checked, non_negative, open_probability, share
from ipsrl.objectives.advantages.baselines import GroupMeanStd
from ipsrl.objectives.estimators.subgroups import normalised_among, stratum_of
from ipsrl.objectives.objective import Objective, RolloutPart
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Rollouts, Sizes
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

EQUAL, LONGER, SHORTER = "equal", "longer", "shorter"
WORTH = {EQUAL: (0.0, 1.0, 1.0, 1.0), LONGER: (0.0, 0.4, 0.7, 1.0), SHORTER: (0.0, 1.0, 0.7, 0.4)}
"""Regime -> what a right answer is worth after 0 to 3 look-ups."""
ANSWERS = 64
"""To each prompt, of which behaviours are counted."""
GRPO = "grpo"
SAN = "san"
VALUE = "running_baseline"
IPS = "ips_over_strata"
SHUFFLED = "shuffled_blend"
BLENDS = {"blend_04": 0.4, "blend_06": 0.6, "blend_08": 0.8}
STRATIFIED = {SAN: 1.0} | BLENDS
"""Arms -> their alpha."""
NAMES = {
    GRPO: "GRPO",
    SAN: "SAN alone",
    **{arm: f"the blend {alpha}" for arm, alpha in BLENDS.items()},
    VALUE: "a running baseline",
    IPS: "IPS over strata",
    SHUFFLED: "the blend 0.8 with shuffled strata",
}
"""Arms -> what they are called."""


@dataclasses.dataclass(frozen=True)
class RunningBaseline(RolloutPart):
    """A_g = r_g - b of the prompt; then b <- (1 - rate) b + rate * mean of the group, from the first group's mean.

    A value of the prompt that is learned from earlier groups, so that it is independent of the answers it is subtracted
    from. The first group of a prompt gets zero. The state is b, `[num_prompts]`, NaN before the first group.
    """

    rate: float = share(0.1)

    def init(self, sizes: Sizes) -> Array:
        return jnp.full(sizes.num_prompts, jnp.nan)

    def update_state(self, values: Array, rollouts: Rollouts, state: Array) -> tuple[Array, Array]:
        mean, before = values.mean(axis=-1), state[rollouts.prompt_index]
        before = jnp.where(jnp.isnan(before), mean, before)
        after = state.at[rollouts.prompt_index].set((1 - self.rate) * before + self.rate * mean)
        return values - before[:, None], after


@dataclasses.dataclass(frozen=True)
class ShuffledStrata(RolloutPart):
    """The placebo of `StratifiedNorm`: the strata of a group are dealt out to its answers at random.

    Attributes:
      alpha: weight of the term inside the shuffled strata.
    """

    alpha: float = share(0.8)
    needs: ClassVar[frozenset[str]] = frozenset({"planning_mask", "keys"})
    smallest_group: ClassVar[int] = 2

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        key = jax.vmap(jax.random.permutation)(rollouts.keys, stratum_of(rollouts, "planning"))
        inside = normalised_among(values, key[:, :, None] == key[:, None, :])
        return self.alpha * inside + (1.0 - self.alpha) * GroupMeanStd()(values, rollouts)


ADVANTAGES = {VALUE: RunningBaseline(), SHUFFLED: ShuffledStrata(BLENDS["blend_08"])}
"""Arms with advantages of their own; the others have those of the catalog."""


def objective_of(arm: str, stratum: str = "planning") -> Objective:
    """The objective of an arm; all sum over tokens and divide by the longest answer's length.

    A mean over the tokens of each answer would itself prefer some strata, because long searches have more tokens.
    """
    name, fields = "grpo", ""
    if arm == IPS:
        name = "ips_grpo"
    if arm in STRATIFIED:
        name, fields = "stratified_grpo", f"stratum={stratum}, alpha={STRATIFIED[arm]}, "
    made = objectives.make(f"{name}({fields}aggregation=constant_length)")
    return dataclasses.replace(made, advantages=ADVANTAGES[arm]) if arm in ADVANTAGES else made


@dataclasses.dataclass(frozen=True)
class StrataSearchers(Checked):
    """A task and its prior. A table sees the prompt, the number of look-ups, the last result and what was just named.

    The prior asks for a relation that leads from the question's entity to the answer with probability `skill`, and
    having found the answer it stops with `skill`. All else is random: other relations are equally likely, anywhere else
    it stops with probability `stops`, and it names the last result and not the question's entity with `stays`.

    Attributes:
      noise: standard deviation of each seed's own addition to the logits.
    """

    skill: float = open_probability(0.6)
    stops: float = open_probability(0.4)
    stays: float = open_probability(0.9)
    noise: float = non_negative(0.2)

    @functools.cached_property
    def task(self) -> SearchAgent:
        """Eight questions on eight entities. Outcomes, which only IPS reads, are answers with numbers of look-ups."""
        return SearchAgent(
            entities=8,
            relations=3,
            synonyms=1,
            hops=(3,),
            shortest=1,
            problems=8,
            lookups=3,
            sees="state",
            outcome="lookups",
        )

    def reward(self, regime: str) -> np.ndarray:
        """`[num_prompts, 4 N]` float32, what each outcome is worth."""
        right = np.arange(self.task.entities) == self.task.answers[:, None]
        return np.kron(np.float32(WORTH[regime]), right).astype(np.float32)

    @functools.cached_property
    def policy(self) -> Tabular:
        """Any table of the task."""
        return Tabular(self.task.num_observations, self.task.vocabulary_size)

    @functools.cached_property
    def prior(self) -> np.ndarray:
        """`[S, V]` float32, the logits of the prior without noise."""
        task, number, words = self.task, 2 * self.task.relations, slice(self.task.first_word, None)
        count, tokens = task.entities, task.vocabulary_size
        probs = np.ones((task.problems, task.lookups + 1, count, count + 1, tokens))
        to_name, relations = probs[:, :, :, -1], probs[:, :, :, :-1]
        to_name[..., FIRST_ENTITY : task.first_word] = 1 - self.stays
        for at in range(count):
            to_name[:, :, at, FIRST_ENTITY + at] = self.stays
        relations[..., STOP] = self.stops
        relations[..., words] = (1 - self.stops) / number
        for of_prompt, start, goal in zip(relations, task.starts, task.answers, strict=True):
            of_prompt[:, :, goal, STOP] = self.skill
            of_prompt[:, :, goal, words] = (1 - self.skill) / number
            direct = task.first_word + np.argmax(task.heads[:, start] == goal)
            of_prompt[0, :, start] = (1 - self.skill) / number
            of_prompt[0, :, start, direct] = self.skill
        return np.log(probs).reshape(task.num_observations, -1).astype(np.float32)

    def measures(self, parameters: Parameters, reward: Array) -> dict[str, Array]:
        """Exact: `reward`; `look_ups_0` to `look_ups_3`, the shares of answers with so many; `long`, that of two or
        three, and `long_skill`, the share of right ones among these; and, sampled, `behaviours`, the right ones to a
        prompt in 64 answers.
        """
        task, prompts = self.task, jnp.arange(self.task.num_prompts)
        answers = task.answer_probs(parameters["logits"])
        right = answers[prompts, :, task.answers].mean(axis=0)
        use = answers.sum(axis=-1).mean(axis=0)
        sampled = sample_groups(
            task, self.policy, parameters, task.prompts(prompts), jax.random.key(0), ANSWERS
        )
        done = task.searches(sampled)
        number = jnp.where(done.answer == jnp.asarray(task.answers)[:, None], done.behaviour, -1)
        ordered = jnp.sort(number, axis=-1)
        new = (ordered >= 0) & (ordered != jnp.roll(ordered, 1, axis=-1).at[:, 0].set(-1))
        look_ups = {f"look_ups_{number}": of_number for number, of_number in enumerate(use)}
        return look_ups | {
            "reward": (answers.reshape(reward.shape) * reward).sum(axis=1).mean(),
            "long": use[2:].sum(),
            "long_skill": right[2:].sum() / use[2:].sum(),
            "behaviours": new.sum(axis=-1).mean(),
        }

    def trained(
        self,
        objective: Objective,
        regime: str,
        steps: int,
        group_size: int,
        learning_rate: float,
        seeds: Sequence[int],
        record_every: int,
    ) -> dict[str, np.ndarray]:
        """Runs in a regime: name -> `[seed, steps / record_every + 1]`, `measures` before training and every
        `record_every` steps.
        """
        training = TrainSettings(
            steps, self.task.problems, group_size, optimizer="sgd", max_gradient_norm=None
        )
        trainer = Trainer(self.task, self.policy, objective, training)
        of_seeds, reward = jnp.asarray(seeds), self.reward(regime)

        def own_noise(seed: Array) -> Array:
            return jax.random.normal(stream(seed, 0, "prior"), self.prior.shape)

        recorded = train_ensemble(
            trainer,
            of_seeds,
            itself,
            record_every,
            jnp.full(len(seeds), learning_rate),
            {"logits": self.prior + self.noise * jax.vmap(own_noise)(of_seeds)},
            RewardTable(jnp.tile(reward, (len(seeds), 1, 1))),
        )
        found = _measured(self, recorded, reward)
        return {name: np.asarray(value, np.float64) for name, value in found.items()}


@functools.partial(jax.jit, static_argnames="world")
def _measured(world: StrataSearchers, recorded: Parameters, reward: Array) -> dict[str, Array]:
    """`measures` of runs with leaves `[run, record, ...]`: name -> `[run, record]`."""
    return jax.lax.map(jax.vmap(lambda policy: world.measures(policy, reward)), recorded)


def two_strata(
    objective: Objective, updates: int, group_size: int, learning_rate: float
) -> dict[str, np.ndarray]:
    """Exact training on two strata of different value: name -> `[updates + 1]`.

    The strata are the modes of a `ModeBandit`, chosen by the first of two tokens; both have a skill of 0.6 at first,
    but an answer in the worse one is right with half of its skill. `better` is the probability to choose the better
    stratum, `reward` the mean one, and `drift`, the same at each update, the first expected update of the logit that
    chooses the better stratum.
    """
    world = ModeBandit(ceilings=(0.5,), think_tokens=2, gamma=0.0)
    prior = world.prior(short=0.6, think=0.6)
    update = Update(objective, group_size)
    drift = jax.jit(update.expected, static_argnums=0)(world, prior, prior)["shared"]
    path = exact_path(world, update, prior, updates, learning_rate)
    values = {
        "better": path["share"],
        "reward": path["reward"],
        "drift": jnp.broadcast_to(drift, updates + 1),
    }
    return {name: np.asarray(each, np.float64) for name, each in values.items()}
