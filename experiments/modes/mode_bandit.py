"""The mode bandit: answers that think or do not, where the skill of a mode grows only while the mode is sampled."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.state_graph import StateGraph
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular

SHORT, THINK = range(2)


@dataclasses.dataclass(frozen=True)
class ModeBandit(StateGraph):
    """The first action says whether the answer thinks, the last whether it is right; those between are the only legal
    ones, and make an answer long.

    A prompt is a difficulty. The outcomes are "short wrong", "short right", "think wrong" and "think right", worth 0,
    1, 0 and 1 - gamma. The policy chooses a mode by a logit that all difficulties share, and one of each difficulty:

        P(think | d) = sigmoid(shared + own_d),  P(right | d, think) = sigmoid(skill_think)
        P(right | d, short) = ceiling_d sigmoid(skill_short)

    so that a mode's skill is trained by the policy gradient alone, and only as often as the mode is sampled.

    Source: the toy in our notes on Thinkless (arXiv 2505.13379); there skill is a function of the number of samples.

    Attributes:
      ceilings: of each difficulty, the success of a short mode that has learned all it can; above 0, at most 1.
      short_tokens, think_tokens: of an answer, both the first and the last action included; two or more.
      gamma: what thinking costs a right answer.
      fixed: whether no gradient reaches the skills: the negative control.
      forced: whether half of each group has a mode that is dictated: of every four answers the second thinks, the
        fourth is short, and the others choose. Only for sampled runs.
    """

    ceilings: tuple[float, ...] = (1.0, 0.8, 0.4, 0.1)
    short_tokens: int = 2
    think_tokens: int = 20
    gamma: float = 0.5
    fixed: bool = False
    forced: bool = False
    vocabulary_size = 2

    @property
    def num_prompts(self) -> int:
        return len(self.ceilings)

    @property
    def states_of_prompt(self) -> int:
        """The choice of a mode, and behind it a state for each later token of each mode."""
        return self.short_tokens + self.think_tokens - 1

    @property
    def num_observations(self) -> int:
        return self.num_prompts * self.states_of_prompt

    @property
    def num_outcomes(self) -> int:
        return 4

    @property
    def max_tokens(self) -> int:
        return max(self.short_tokens, self.think_tokens)

    @property
    def policy(self) -> "ModePolicy":
        """The policy that fits."""
        return ModePolicy.of(self, world=self)

    def first_state(self, prompt_index: Array) -> Array:
        return prompt_index * self.states_of_prompt

    def mode_of(self, state: Array) -> tuple[Array, Array]:
        """Whether a state belongs to a thinking answer, and whether its action is the last one."""
        place = state % self.states_of_prompt
        last = (place == self.short_tokens - 1) | (place == self.states_of_prompt - 1)
        return jnp.where(place >= self.short_tokens, THINK, SHORT), last

    @property
    def _beyond(self) -> int:
        """A forced answer begins in its first state plus this, or plus twice this if it thinks."""
        return self.num_observations + self.num_outcomes

    def reset(self, key: Array, prompt_index: Array, member: Array) -> Array:
        state = super().reset(key, prompt_index, member)
        if not self.forced:
            return state
        return state + self._beyond * jnp.array([0, 1 + THINK, 0, 1 + SHORT], jnp.int32)[member % 4]

    def dictated(self, state: Array) -> Array | None:
        return state // self._beyond - 1 if self.forced else None

    def observe(self, state: Array) -> Array:
        return super().observe(state % self._beyond)

    def finished(self, state: Array) -> Array:
        return super().finished(state % self._beyond)

    def legal(self, state: Array) -> Array:
        state = state % self._beyond
        chooses = (state % self.states_of_prompt == 0) | self.mode_of(state)[1]
        return jnp.stack([jnp.ones_like(chooses), chooses], axis=-1)

    def step(self, state: Array, token: Array) -> Array:
        state = state % self._beyond
        mode, last = self.mode_of(state)
        first = state + jnp.where(token == THINK, self.short_tokens, 1)
        later = jnp.where(last, self.num_observations + 2 * mode + token, state + 1)
        return jnp.where(state % self.states_of_prompt == 0, first, later).astype(jnp.int32)

    def num_parents(self, state: Array) -> Array:
        """One, except that all prompts share their outcomes."""
        return jnp.where(state < self.num_observations, 1, self.num_prompts)

    def outcome_names(self) -> tuple[str, ...]:
        return "short wrong", "short right", "think wrong", "think right"

    def reward_table(self) -> np.ndarray:
        return np.tile(np.float32([0, 1, 0, 1 - self.gamma]), (self.num_prompts, 1))

    def prior(self, short: float = 0.12, think: float = 0.9, thinking: float = 0.5) -> Parameters:
        """Parameters of a policy with given skills, both below a ceiling of 1, and a given share of thinking."""
        logit = [jnp.log(share / (1 - share)) for share in jnp.float32([short, think, thinking])]
        return {
            "shared": logit[2],
            "own": jnp.zeros(self.num_prompts),
            "skill": jnp.stack(logit[:2]),
        }

    def measures(self, parameters: Parameters) -> dict[str, Array]:
        """Exact: the share of `thinking` at each difficulty, `[num_prompts]`, and `[]` their mean `share`, the skills
        `short` and `think` below a ceiling of 1, and the mean `reward` of answers.
        """
        thinking = jax.nn.sigmoid(parameters["shared"] + parameters["own"])
        short, think = jax.nn.sigmoid(parameters["skill"])
        worth = (
            thinking * (1 - self.gamma) * think
            + (1 - thinking) * jnp.asarray(self.ceilings) * short
        )
        return {
            "thinking": thinking,
            "share": thinking.mean(),
            "short": short,
            "think": think,
            "reward": worth.mean(),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModePolicy(Tabular):
    """The policy of a `ModeBandit`. Parameters: `{"shared": [], "own": [num_prompts], "skill": [2]}`.

    Attributes:
      world: the mode bandit.
    """

    world: ModeBandit

    def init(self, key: Array) -> Parameters:
        """The prior; `key` is not used."""
        return self.world.prior()

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        world, prompt = self.world, observations // self.world.states_of_prompt
        mode, _ = world.mode_of(observations)
        skill = jax.lax.stop_gradient(parameters["skill"]) if world.fixed else parameters["skill"]
        ceiling = jnp.where(mode == THINK, 1.0, jnp.asarray(world.ceilings)[prompt])
        # The odds of c sigmoid(s) are c / (1 - c + exp(-s)).
        right = jnp.log(ceiling) - jnp.logaddexp(jnp.log1p(-ceiling), -skill[mode])
        thinks = parameters["shared"] + parameters["own"][prompt]
        logit = jnp.where(observations % world.states_of_prompt == 0, thinks, right)
        return jnp.stack([jnp.zeros_like(logit), logit], axis=-1)
