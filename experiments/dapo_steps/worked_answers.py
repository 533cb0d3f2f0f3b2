"""Answers that need work: long and short right answers on a graph, with their exact success and length."""

import dataclasses
import itertools
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.state_graph import StateGraph
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular

STOP, STEP, FILLER, SLIP = range(4)


@dataclasses.dataclass(frozen=True)
class WorkedAnswers(StateGraph):
    """Prompt i needs `needs[i]` right steps before the answer stops; filler makes it longer, a slip makes it wrong.

    A state is the prompt, the tokens written, and the steps left or, last, that there was a slip. Outcomes are wrong
    and right answers of each length, and last the answer that did not stop within `max_tokens`. The policy reads the
    prompt and the steps left, but not the length.

    Attributes:
      needs: steps of each prompt, at least one.
      ease: of each prompt, added to the first logit of a right step.
      max_tokens: longest answer, the stop included; above the largest need.
    """

    needs: tuple[int, ...] = (1, 2)
    ease: tuple[float, ...] = (0.0, 0.0)
    max_tokens: int = 4
    vocabulary_size = 4

    @classmethod
    def from_short_to_long(cls) -> Self:
        """32 prompts of 1 to 12 steps, easy and hard; right answers have 2 to 20 tokens, ten in 16 start below 2 %."""
        kinds = itertools.product((1, 3, 6, 12), (-5.0, -4.0, -2.0, 3.0))
        needs, ease = zip(*kinds, strict=True)
        return cls(needs * 2, ease * 2, max_tokens=20)

    @property
    def num_prompts(self) -> int:
        return len(self.needs)

    @property
    def stages(self) -> int:
        """Steps left, from 0 to the largest need, and one more after a slip."""
        return max(self.needs) + 2

    @property
    def states_of_prompt(self) -> int:
        return self.max_tokens * self.stages

    @property
    def num_observations(self) -> int:
        return self.num_prompts * self.states_of_prompt

    @property
    def num_outcomes(self) -> int:
        return 2 * self.max_tokens + 1

    @property
    def policy(self) -> "StageTable":
        """The table that fits."""
        return StageTable.of(self, task=self)

    def first_state(self, prompt_index: Array) -> Array:
        return prompt_index * self.states_of_prompt + jnp.asarray(self.needs)[prompt_index]

    def step(self, state: Array, token: Array) -> Array:
        written = state // self.stages % self.max_tokens
        stage = state % self.stages
        after = state - stage + self.stages + self.next_stage(stage, token)
        unfinished = self.num_observations + self.num_outcomes - 1
        answered = self.num_observations + jnp.where(stage == 0, self.max_tokens, 0) + written
        going_on = jnp.where(written == self.max_tokens - 1, unfinished, after)
        return jnp.where(token == STOP, answered, going_on)

    def next_stage(self, stage: Array, token: Array) -> Array:
        """After any token but a stop."""
        slipped = self.stages - 1
        after = jnp.where((token == STEP) & (stage != slipped), jnp.maximum(stage - 1, 0), stage)
        return jnp.where(token == SLIP, slipped, after)

    def num_parents(self, state: Array) -> Array:
        """Moves from all states, also from those that no walk reaches."""
        states = jnp.arange(self.num_observations)[:, None]
        reached = self.step(states, jnp.arange(self.vocabulary_size))
        length = self.num_observations + self.num_outcomes
        return jnp.bincount(reached.ravel(), length=length)[state]

    def outcome_names(self) -> tuple[str, ...]:
        lengths = range(1, self.max_tokens + 1)
        words = itertools.product(("wrong", "right"), lengths)
        return *(f"{word} after {length}" for word, length in words), "unfinished"

    def reward_table(self) -> np.ndarray:
        right = np.arange(self.num_outcomes) // self.max_tokens == 1
        return np.tile(right.astype(np.float32), (self.num_prompts, 1))

    def prior(self) -> Parameters:
        """Half right steps, the rest filler, slips and early stops; with nothing left, half stops and half filler."""
        first = np.tile(np.log([0.1, 0.5, 0.3, 0.1]), (self.stages, 1))
        first[0] = np.log([0.45, 0.05, 0.45, 0.05])
        own = np.zeros((self.num_prompts, self.stages, 4))
        own[:, 1:-1, STEP] = np.array(self.ease)[:, None]
        return {"shared": jnp.asarray(first, jnp.float32), "own": jnp.asarray(own, jnp.float32)}

    def exact(self, parameters: Parameters) -> dict[str, Array]:
        """`[P]`: `accuracy`, and the expected tokens of an answer, `length`, and of a right answer, `right_length`."""
        prompt = jnp.arange(self.num_prompts)[:, None]
        stage = jnp.arange(self.stages)
        states = prompt * self.states_of_prompt + stage
        probs = jax.nn.softmax(self.policy.logits(parameters, states))
        after = self.next_stage(stage[:, None], jnp.arange(1, 4))
        going_on = jax.nn.one_hot(after, self.stages)
        moves = jnp.einsum("psa,sat->pst", probs[..., 1:], going_on)

        def token(mass, _):
            right = mass[:, 0] * probs[:, 0, STOP]
            written = mass.sum(axis=-1)
            return jnp.einsum("ps,pst->pt", mass, moves), (right, written)

        start = jax.nn.one_hot(jnp.asarray(self.needs), self.stages)
        _, (right, written) = jax.lax.scan(token, start, length=self.max_tokens)
        success = right.sum(axis=0)
        lengths = jnp.arange(1, self.max_tokens + 1)
        return {
            "accuracy": success,
            "length": written.sum(axis=0),
            "right_length": lengths @ right / success,
        }

    def measures(self, parameters: Parameters) -> dict[str, Array]:
        """Means of `exact` over prompts."""
        return {name: of_prompts.mean() for name, of_prompts in self.exact(parameters).items()}


@dataclasses.dataclass(frozen=True)
class StageTable(Tabular):
    """logits = shared[steps left] + own[prompt, steps left]: what is learned on one prompt helps the others.

    Parameters: `{"shared": [stages, V], "own": [prompts, stages, V]}`, first zeros.

    Attributes:
      task: what it answers.
    """

    task: WorkedAnswers = dataclasses.field(kw_only=True)

    def init(self, key: Array) -> Parameters:
        shape = self.task.stages, self.vocabulary_size
        return {"shared": jnp.zeros(shape), "own": jnp.zeros((self.task.num_prompts, *shape))}

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        stage = observations % self.task.stages
        prompt = observations // self.task.states_of_prompt
        return parameters["shared"][stage] + parameters["own"][prompt, stage]
