"""Greedy answers: what the policy's likeliest tokens earn, a baseline for the answers of a group."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.rollouts.sources.source import Actors, Groups, Request, State, Wrapper, with_sampling_metrics
from ipsrl.structures import Metrics


@dataclasses.dataclass(frozen=True)
class GreedyAnswers(Wrapper):
    """Adds `Outcomes.greedy_rewards`, the reward of one greedy answer to each prompt, as ReMax (arXiv 2310.10505).

    Each token of that answer is the likeliest by the current policy, and one of the likeliest at random if several
    are. It joins no group; `trajectories_sampled` and `tokens_sampled` count it. No other wrapper can be around this
    one.

    Metrics: `greedy_reward`, the mean reward of the greedy answers.
    """

    asks = "policy"
    outermost = True

    def provides(self, fields: frozenset[str]) -> frozenset[str]:
        """Adds `greedy_rewards`."""
        return fields | {"greedy_rewards"}

    def __call__(self, state: State, actors: Actors, request: Request) -> tuple[State, Groups, Metrics]:
        inner, (trajectories, outcomes), metrics = self.inner(state[1], actors, request)
        metrics = with_sampling_metrics((trajectories, outcomes), metrics)
        likeliest = dataclasses.replace(self.sampled.decoding, top_k=1)
        greedy = dataclasses.replace(self.sampled, decoding=likeliest, top_tokens=0)
        answers = greedy.answers(actors.policy, trajectories.prompts, request.key("greedy answers"), 1)
        # The reward learns from the groups alone.
        found, _ = greedy.verify(self.reward_of((None, inner)), answers, request.key("reward of greedy answers"))
        rewards, metrics = _counted(metrics, found.rewards, answers.token_mask)
        return (None, inner), (trajectories, dataclasses.replace(outcomes, greedy_rewards=rewards)), metrics


@jax.jit
def _counted(metrics: Metrics, rewards: Array, token_mask: Array) -> tuple[Array, Metrics]:
    """`[P]` of the rewards `[P, 1]`, and the metrics with those of the greedy answers."""
    number, tokens = (metrics[name][0] for name in ("trajectories_sampled", "tokens_sampled"))
    return rewards[:, 0], metrics | {
        "greedy_reward": (rewards.mean(), 1),
        "trajectories_sampled": (number + rewards.size, 0),
        "tokens_sampled": (tokens + token_mask.sum(dtype=jnp.float32), 0),
    }
