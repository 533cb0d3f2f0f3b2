"""Several prompts, each a tree of its own: walks of different lengths to outcomes that other prompts reward."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.state_graph import StateGraph


@dataclasses.dataclass(frozen=True)
class Trees(StateGraph):
    """The walks of `Tree`, from a state of its own for each prompt, so that a table of logits learns each prompt alone.

    Attributes:
      tree: what each prompt has a copy of.
      rewards: one tuple of rewards for each prompt.
    """

    tree: Tree
    rewards: tuple[tuple[float, ...], ...]

    @property
    def num_prompts(self) -> int:
        return len(self.rewards)

    @property
    def num_observations(self) -> int:
        return self.num_prompts * self.tree.num_observations

    @property
    def num_outcomes(self) -> int:
        return self.tree.num_outcomes

    @property
    def vocabulary_size(self) -> int:
        return self.tree.vocabulary_size

    @property
    def max_tokens(self) -> int:
        return self.tree.max_tokens

    def first_state(self, prompt_index: Array) -> Array:
        return prompt_index * self.tree.num_observations

    def legal(self, state: Array) -> Array:
        return self.tree.legal(self._in_tree(state))

    def step(self, state: Array, token: Array) -> Array:
        inside = self.tree.num_observations
        reached = self.tree.step(self._in_tree(state), token)
        first = state - state % inside
        outcome = self.num_observations + reached - inside
        return jnp.where(reached < inside, first + reached, outcome)

    def num_parents(self, state: Array) -> Array:
        return self.tree.num_parents(self._in_tree(state))

    def outcome_names(self) -> tuple[str, ...]:
        return self.tree.outcome_names()

    def reward_table(self) -> np.ndarray:
        return np.array(self.rewards, np.float32)

    def logits_for(self, probs: np.ndarray) -> np.ndarray:
        """`[S, V]` float32: logits whose walks end with given probabilities, all walks to one outcome equally likely.

            pi(move | s) = h(s') / h(s),   h(s) = sum of h(s') over the legal moves,   h(outcome) = its prob / its walks

        Args:
          probs: `[num_prompts, K]`, positive, each row adds up to 1.
        """
        tree, inside = self.tree, self.tree.num_observations
        states = np.arange(inside)
        targets = np.asarray(tree.step(states[:, None], np.arange(tree.vocabulary_size)))
        legal = np.asarray(tree.legal(states))
        value = np.concatenate([np.zeros((len(probs), inside)), probs / tree.path_counts()], axis=1)
        for state in states[::-1]:
            value[:, state] = value[:, targets[state][legal[state]]].sum(axis=-1)
        ahead = np.log(value[:, np.where(legal, targets, inside)])
        logits = np.where(legal, ahead - np.log(value[:, :inside, None]), 0.0)
        return logits.reshape(-1, tree.vocabulary_size).astype(np.float32)

    def _in_tree(self, state: Array) -> Array:
        """The state or outcome of `Tree`."""
        inside = self.tree.num_observations
        outcome = state - self.num_observations + inside
        return jnp.where(state < self.num_observations, state % inside, outcome)


def prior_probs(right: np.ndarray, pass_rates: np.ndarray, preference: np.ndarray) -> np.ndarray:
    """`[P, K]`, a distribution of outcomes of which a known share is right, for each prompt.

    Args:
      right: `[P, K]` bool.
      pass_rates: `[P]`, in (0, 1), the probability of all right outcomes.
      preference: `[P, K]`, positive, of right outcomes to each other; wrong ones are equally likely.
    """

    def normalised(weights: np.ndarray) -> np.ndarray:
        return weights / weights.sum(axis=1, keepdims=True)

    rates = np.asarray(pass_rates)[:, None]
    return rates * normalised(right * preference) + (1 - rates) * normalised(1.0 - right)
