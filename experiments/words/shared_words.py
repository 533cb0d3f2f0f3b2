"""Words as answers, and a policy whose states share parameters: small, exact, and one prompt's update moves the others.

In a table of logits nothing that is learned at one prompt can harm another one, so that hardly any step is too large.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.state_graph import StateGraph
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.refinements import Refine
from ipsrl.rollouts.sources.source import Groups, Sampled
from ipsrl.structures import Trajectories


@dataclasses.dataclass(frozen=True)
class Words(StateGraph):
    """Each prompt asks for one of a few right words of `length` letters; the other words pay 0.

    The state is the prompt and the letters so far: the nodes of a tree, numbered by level, for each prompt. The outcome
    is the word, its first letter the most significant digit.

    Attributes:
      asked: P, number of prompts.
      letters: V, of the alphabet.
      length: T, of a word.
      right: number of right words of each prompt; which, is drawn once, the same for all runs.
    """

    asked: int = 16
    letters: int = 4
    length: int = 4
    right: int = 8

    @property
    def num_prompts(self) -> int:
        return self.asked

    @property
    def nodes(self) -> int:
        """Number of beginnings of a word, shorter than it."""
        return (self.letters**self.length - 1) // (self.letters - 1)

    @property
    def num_observations(self) -> int:
        return self.asked * self.nodes

    @property
    def num_outcomes(self) -> int:
        return self.letters**self.length

    @property
    def vocabulary_size(self) -> int:
        return self.letters

    @property
    def max_tokens(self) -> int:
        return self.length

    def first_state(self, prompt_index: Array) -> Array:
        return prompt_index * self.nodes

    def step(self, state: Array, token: Array) -> Array:
        node = state % self.nodes
        child = node * self.letters + 1 + token
        word = self.num_observations + child - self.nodes
        return jnp.where(child < self.nodes, state - node + child, word)

    def num_parents(self, state: Array) -> Array:
        return jnp.where(self.finished(state) | (state % self.nodes > 0), 1, 0)

    def outcome_names(self) -> tuple[str, ...]:
        return tuple("".join(chr(ord("a") + letter) for letter in word) for word in self.words)

    @property
    def words(self) -> np.ndarray:
        """`[K, T]`, the letters of each outcome."""
        return np.indices((self.letters,) * self.length).reshape(self.length, -1).T

    def reward_table(self) -> np.ndarray:
        words = np.tile(np.arange(self.num_outcomes), (self.asked, 1))
        order = np.random.default_rng(0).permuted(words, axis=1)
        return (order < self.right).astype(np.float32)

    def distribution(self, policy: "SharedTable", parameters: Parameters) -> Array:
        """`[P, K]`, the exact probability of each word at each prompt."""
        actions = jnp.exp(log_probs_table(policy, parameters, self))
        actions = actions.reshape(self.asked, self.nodes, self.letters)
        reached, first = jnp.ones((self.asked, 1)), 0
        for level in range(self.length):
            beyond = first + self.letters**level
            reached = (reached[..., None] * actions[:, first:beyond]).reshape(self.asked, -1)
            first = beyond
        return reached


@dataclasses.dataclass(frozen=True)
class DecidedWords(Words):
    """The first half of the prompts is routine: two letters decide, in places of the prompt, and the rest is filler.
    The other half is hopeless at first: one word is right.
    """

    letters: int = 3
    length: int = 6
    right: int = 1

    @property
    def hopeless(self) -> np.ndarray:
        """`[P]` bool."""
        return np.arange(self.asked) >= self.asked // 2

    def reward_table(self) -> np.ndarray:
        numbers = np.random.default_rng(0)
        wanted = numbers.integers(self.letters, size=(self.asked, 1, self.length))
        order = numbers.permuted(np.tile(np.arange(self.length), (self.asked, 1)), axis=1)
        filler = (order > 1) & ~self.hopeless[:, None]
        return ((self.words == wanted) | filler[:, None]).all(axis=-1).astype(np.float32)


class RightWord(Refine):
    """An expert's answer: the first right word of the prompt."""

    def __call__(
        self, sampled: Sampled, parameters: Parameters, attempts: Groups, number: int, key: Array
    ) -> tuple[Trajectories, float]:
        own, environment = attempts[0], sampled.environment
        prompts = own.prompts.index
        right = jnp.asarray(environment.reward_table().argmax(axis=1))[prompts]
        letters = jnp.asarray(environment.words)[right]
        states = [environment.first_state(prompts)]
        for place in range(environment.length - 1):
            states.append(environment.step(states[-1], letters[:, place]))
        first = jax.tree.map(lambda leaf: leaf[:, :1], dataclasses.replace(own, prompts=None))
        written = dataclasses.replace(
            first,
            prompts=own.prompts,
            tokens=letters[:, None],
            observations=jnp.stack(states, axis=-1)[:, None],
        )
        return written, 0.0


@dataclasses.dataclass(frozen=True)
class SharedTable(Tabular):
    """logits [S, V] = features [S, F] weights [F, V], the features normal numbers drawn once: a linear policy.

    With F < S states overlap, two of them by about 1 / sqrt(F). Parameters: `{"weights": [F, V]}`, first zeros.

    Attributes:
      width: F.
    """

    width: int = 32

    def init(self, key: Array) -> Parameters:
        return {"weights": jnp.zeros((self.width, self.vocabulary_size))}

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        return self._features(observations) @ parameters["weights"]

    def answer_gradients(self, parameters: Parameters, trajectories: Trajectories) -> Array:
        """`[P, G, F V]`, the gradient of the log-probability of each answer by the weights."""
        features = self._features(trajectories.observations)
        probs = jax.nn.softmax(features @ parameters["weights"])
        beyond = jax.nn.one_hot(trajectories.tokens, self.vocabulary_size) - probs
        gradients = jnp.einsum("pgtf,pgtv,pgt->pgfv", features, beyond, trajectories.token_mask)
        return gradients.reshape(*trajectories.truncated.shape, -1)

    def _features(self, observations: Array) -> Array:
        return jnp.asarray(_normal(self.num_observations, self.width))[observations]


@functools.cache
def _normal(states: int, width: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(states, width)).astype(np.float32)


def moves(
    words: Words,
    policy: SharedTable,
    parameters: Parameters,
    of_sampler: Parameters,
    groups: Groups,
) -> dict[str, Array]:
    """Exact means over prompts: `reward`, and `distance`, the total variation between this policy and the sampler."""
    del groups
    now = words.distribution(policy, parameters)
    then = words.distribution(policy, of_sampler)
    reward = (now * words.reward_table()).sum(axis=-1).mean()
    return {"reward": reward, "distance": jnp.abs(now - then).sum(axis=-1).mean() / 2}
