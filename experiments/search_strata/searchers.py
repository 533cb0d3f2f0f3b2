"""Search agents in tables whose short searches are trained and whose long ones are not, and two strata without noise.

The stratum of an answer is its number of look-ups. All questions have an answer within one look-up and a chain of three
facts; there are many ways of two and three look-ups.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.modes.mode_bandit import ModeBandit
from experiments.modes.mode_paths import Update, exact_path
from experiments.search_agents import tables
from experiments.search_agents.tables import Settings, noise, prior_probs, small_agent
from ipsrl import objectives
from ipsrl.checking.fields import share
from ipsrl.environments.agents.knowledge_graph import STOP
from ipsrl.measures.diversity import distinct_outcomes
from ipsrl.objectives.advantages import GroupMeanStd
from ipsrl.objectives.aggregation import SequenceSum
from ipsrl.objectives.estimators.subgroups import normalised_among, stratum_of
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.parts import RolloutPart
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.rewards import RewardTable
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Rollouts, Sizes

EQUAL, LONGER, SHORTER = "equal", "longer", "shorter"
WORTH = {EQUAL: (0.0, 1.0, 1.0, 1.0), LONGER: (0.0, 0.4, 0.7, 1.0), SHORTER: (0.0, 1.0, 0.7, 0.4)}
"""Regime -> the rewards of a right answer after 0 to 3 look-ups."""
ANSWERS = 64
"""The number of answers to each prompt whose behaviours are counted."""
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

    The first group of a prompt is compared with its own mean, later ones with b, which does not depend on their
    answers. The state is b, `[num_prompts]`, NaN before the first group.
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
        strata = jax.vmap(jax.random.permutation)(rollouts.keys, stratum_of(rollouts, "planning"))
        inside = normalised_among(values, strata[:, :, None] == strata[:, None, :])
        return self.alpha * inside + (1.0 - self.alpha) * GroupMeanStd()(values, rollouts)


ADVANTAGES = {VALUE: RunningBaseline(), SHUFFLED: ShuffledStrata(BLENDS["blend_08"])}
"""Arms with advantages of their own; the others have those of the catalog."""


def objective_of(arm: str, stratum: str = "planning") -> Objective:
    """The objective of an arm; all sum over tokens and divide by the longest answer's length.

    A mean over the tokens of each answer would itself prefer some strata, because long searches have more tokens.
    """
    if arm in STRATIFIED:
        alpha = STRATIFIED[arm]
        made = objectives.make(f"stratified_grpo(stratum={stratum}, alpha={alpha})")
    else:
        made = objectives.make("ips_grpo" if arm == IPS else "grpo")
    advantages = ADVANTAGES.get(arm, made.advantages)
    return dataclasses.replace(made, advantages=advantages, aggregation=SequenceSum(length=None))


TASK = small_agent(hops=(3,), shortest=1, problems=8, outcome="lookups")
"""Eight questions. Outcomes, which only IPS reads, are answers with numbers of look-ups."""
POLICY = Tabular.of(TASK)
"""A table sees the prompt, the number of look-ups, the last result and what was just named."""
SKILL, STOPS = 0.6, 0.4
NOISE = 0.2
"""Standard deviation of each seed's own addition to the logits of the prior."""


def reward_table(regime: str) -> np.ndarray:
    """`[num_prompts, 4 N]` float32, what each outcome is worth."""
    right = np.arange(TASK.entities) == TASK.answers[:, None]
    worth = np.kron(np.float32(WORTH[regime]), right)
    return worth.astype(np.float32)


def prior() -> np.ndarray:
    """`[S, V]` float32, logits without noise.

    With probability SKILL they ask for a relation that leads from the question's entity to the answer, and having found
    the answer they stop. All else is random: other relations are equally likely, anywhere else they stop with STOPS.
    """
    number = 2 * TASK.relations
    words = slice(TASK.first_word, None)
    probs = prior_probs(TASK, (TASK.problems, TASK.lookups + 1), STOPS)
    relations = probs[:, :, :, :-1]
    for of_prompt, start, goal in zip(relations, TASK.starts, TASK.answers, strict=True):
        of_prompt[:, :, goal, STOP] = SKILL
        of_prompt[:, :, goal, words] = (1 - SKILL) / number
        direct = TASK.first_word + np.argmax(TASK.heads[:, start] == goal)
        of_prompt[0, :, start] = (1 - SKILL) / number
        of_prompt[0, :, start, direct] = SKILL
    return np.log(probs).reshape(TASK.num_observations, -1).astype(np.float32)


def measures(parameters: Parameters, reward: Array) -> dict[str, Array]:
    """Exact: `reward`; `look_ups_0` to `look_ups_3`, the shares of answers with so many; `long`, that of two or three,
    and `long_skill`, the share of right ones among these; and, sampled, `behaviours`, the right ones to a prompt in 64
    answers.
    """
    prompts = jnp.arange(TASK.num_prompts)
    answers = TASK.answer_probs(parameters["logits"])
    right = answers[prompts, :, TASK.answers].mean(axis=0)
    use = answers.sum(axis=-1).mean(axis=0)
    sampled = sample_groups(
        TASK, POLICY, parameters, TASK.prompts(prompts), jax.random.key(0), ANSWERS
    )
    done = TASK.searches(sampled)
    is_right = done.answer == jnp.asarray(TASK.answers)[:, None]
    behaviours = distinct_outcomes(jnp.where(is_right, done.behaviour, -1))
    look_ups = {f"look_ups_{number}": of_number for number, of_number in enumerate(use)}
    return look_ups | {
        "reward": (answers.reshape(reward.shape) * reward).sum(axis=1).mean(),
        "long": use[2:].sum(),
        "long_skill": right[2:].sum() / use[2:].sum(),
        "behaviours": behaviours.mean(),
    }


def trained(
    objective: Objective, regime: str, rate: float, settings: Settings
) -> dict[str, np.ndarray]:
    """`measures` of runs in a regime, name -> `[seed, record]`."""
    reward = reward_table(regime)
    first = {"logits": prior() + NOISE * noise(settings.seeds, prior().shape)}
    of_runs = RewardTable(jnp.tile(reward, (len(settings.seeds), 1, 1)))
    recorded = tables.trained(TASK, POLICY, objective, first, rate, settings, of_runs)
    return _measured(recorded, reward)


@jax.jit
def _measured(recorded: Parameters, reward: Array) -> dict[str, Array]:
    """`measures` of runs with leaves `[run, record, ...]`: name -> `[run, record]`."""
    return jax.lax.map(jax.vmap(lambda policy: measures(policy, reward)), recorded)


def two_strata(
    objective: Objective, updates: int, group_size: int, learning_rate: float
) -> dict[str, np.ndarray]:
    """Exact training on two strata of different value: name -> `[1, updates + 1]`.

    The strata are the modes of a `ModeBandit`, to think or to be short, chosen by the first of two tokens; both have a
    skill of 0.6 at first, but an answer in the worse one is right with half of its skill. `better` is the probability
    to choose the better stratum, `reward` the mean one, and `drift`, the same at each update, the first expected update
    of the logit that chooses the better stratum.
    """
    world = ModeBandit(ceilings=(0.5,), think_tokens=2, gamma=0.0)
    prior = world.prior(short=0.6, think=0.6)
    update = Update(objective, group_size)
    drift = jax.jit(update.expected, static_argnums=0)(world, prior, prior)["shared"]
    path = exact_path(world, update, prior, updates, learning_rate)
    values = {"better": path["share"], "reward": path["reward"], "drift": drift}
    return {
        name: np.broadcast_to(np.float64(each), (1, updates + 1)) for name, each in values.items()
    }
