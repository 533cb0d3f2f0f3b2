"""Rewards revealed by demonstrations: of experts in random decision processes, and of trained policies."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.inverse_soft_rl.demonstrated_chains import chain_counts, limit_of_reward_error
from experiments.inverse_soft_rl.estimation import (
    PSEUDO_COUNT,
    excess_divergence,
    rank_one_policy,
    tabular,
)
from experiments.inverse_soft_rl.rewards import least_squares_reward, norm
from experiments.inverse_soft_rl.soft_bellman import invariant_law, regret, soft_control
from ipsrl import study
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.measures.power_law import log_slopes
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.study.curves import Curve, Points

STATES, ACTIONS = 6, 3
STRONG = 10 * PSEUDO_COUNT
"""The weight of a strong penalty."""
LIMIT_OF_DIVERGENCE = STATES * (ACTIONS - 1) / 2
"""lim n E[KL] of the tabular maximum likelihood policy, whatever the chain: KL is weighted by the invariant law rho,
and state s has about n rho(s) independent actions, so that each state adds rho(s) (A - 1) / (2 n rho(s)).
"""
OUTCOMES = {
    "equal": (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0),
    "graded": (1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0),
}
"""Rewards of eight outcomes, the right ones first; the first two are equally good in both."""
LONG = 10_000
"""Length of a chain from which on its errors are compared with their limits."""


@dataclasses.dataclass(frozen=True)
class Process:
    """A decision process with a reward, and its expert; all arrays in float64.

    Attributes:
      transitions: `[S, A, S]`.
      rewards: `[S, A]`.
      discount: gamma.
    """

    transitions: np.ndarray
    rewards: np.ndarray
    discount: float

    @classmethod
    def drawn(cls, seed: int, discount: float, held: float = 0.0) -> "Process":
        """Rows of transitions from a flat Dirichlet distribution, normal rewards; seed 0 is that of our own checks.

        Args:
          held: probability that a state stays as it is, whatever the action: the chain then mixes more slowly.
        """
        random = np.random.default_rng(seed)
        transitions = random.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
        rewards = random.normal(size=(STATES, ACTIONS))
        return cls((1 - held) * transitions + held * np.eye(STATES)[:, None], rewards, discount)

    def with_other_moves(self, seed: int, share: float) -> np.ndarray:
        """`[S, A, S]`, transitions of which a share is replaced by other ones, independent of them."""
        other = np.random.default_rng((seed, 1)).dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
        return (1 - share) * self.transitions + share * other

    @functools.cached_property
    def log_policy(self) -> np.ndarray:
        return np.asarray(soft_control(self.rewards, self.transitions, self.discount)[0])

    @functools.cached_property
    def law(self) -> np.ndarray:
        """`[S, A]`, the expert's invariant law."""
        return np.asarray(invariant_law(np.exp(self.log_policy), self.transitions))

    def revealed(
        self, log_policy: np.ndarray, weights: np.ndarray, transitions: np.ndarray | None = None
    ) -> np.ndarray:
        """The least-squares reward of a policy, `[..., S, A]`; the transitions are known by default."""
        moves = self.transitions if transitions is None else transitions
        return np.asarray(least_squares_reward(log_policy, moves, weights, self.discount))

    def regrets(self, rewards: np.ndarray, transitions: np.ndarray) -> np.ndarray:
        """`[...]`, what the soft-optimal policies of rewards `[..., S, A]` lose under the expert's reward."""

        def lost(reward):
            log_policy, _ = soft_control(reward, transitions, self.discount)
            return regret(log_policy, self.rewards, transitions, self.discount)

        found = jax.jit(jax.vmap(lost))(jnp.asarray(rewards.reshape(-1, STATES, ACTIONS)))
        return np.asarray(found).reshape(rewards.shape[:-2])


KINDS = ("tabular", "slow chain", "strong penalty", "uniform weights", "rank 1")
TABULAR, SLOW, PENALISED, UNIFORM, LOW = KINDS


def errors(
    kind: str,
    discount: float,
    lengths: Sequence[int],
    seeds: Sequence[int],
    held: float,
    changed: float,
) -> Points:
    """Errors of what one chain reveals, by its length, `[S, L]`; slopes and ratios to limits are one for each seed.

    divergence: KL of the estimated policy, under "rank 1" in excess of the best one of the class.
    reward error: of the least-squares reward, in L2 of the expert's invariant law.
    regret, regret elsewhere: of its soft-optimal policy, in the same process and in one with other moves.
    n KL / limit, n error^2 / limit: means over the lengths from `LONG` on, or of the longest.

    Args:
      kind: "tabular"; "slow chain", which holds its state; "strong penalty" of the likelihood; "uniform weights" of the
        least squares, whose target differs as well; or "rank 1", where no policy of the class is the expert.
    """
    with jax.enable_x64(True):
        hold = held if kind == SLOW else 0.0
        process = Process.drawn(0, discount, hold)
        expert = np.exp(process.log_policy)
        counts = demonstrated(discount, hold, tuple(lengths), tuple(seeds))
        penalty = STRONG if kind == PENALISED else PSEUDO_COUNT
        actions = counts.sum(axis=-1).astype(float)
        policies, values = tabular(actions, penalty), {}
        if kind == LOW:
            fit = jax.jit(jax.vmap(rank_one_policy))
            found = fit((actions + penalty).reshape(-1, STATES, ACTIONS))
            policies, best = np.reshape(found, actions.shape), rank_one_policy(process.law)
            values["divergence of the class"] = float(excess_divergence(expert, best, process.law))
        divergence = np.asarray(excess_divergence(expert, policies, process.law))
        divergence = divergence - values.get("divergence of the class", 0.0)
        weights, of_expert = actions + PSEUDO_COUNT, process.law
        if kind == UNIFORM:
            of_expert = np.full(expert.shape, 1 / expert.size)
            weights = np.broadcast_to(of_expert, weights.shape)
        usual_target = process.revealed(process.log_policy, process.law)
        target = process.revealed(process.log_policy, of_expert)
        rewards = process.revealed(np.log(policies), weights, tabular(counts))
        error = np.asarray(norm(rewards - target, process.law))
        values |= {
            "divergence": divergence,
            "reward error": error,
            "slope of divergence": log_slopes(lengths, divergence)[:, None],
            "slope of reward error": log_slopes(lengths, error)[:, None],
            "regret": process.regrets(rewards, process.transitions),
            "regret elsewhere": process.regrets(rewards, process.with_other_moves(0, changed)),
            "apart from the invariant law's": float(norm(target - usual_target, process.law)),
        }
        if kind in (TABULAR, SLOW, PENALISED):
            sizes = np.asarray(lengths, float)
            late = sizes >= min(LONG, sizes.max())
            limit = float(limit_of_reward_error(expert, process.transitions, discount))
            ratios = {
                "n KL / limit": divergence * sizes / LIMIT_OF_DIVERGENCE,
                "n error^2 / limit": error**2 * sizes / limit,
            }
            values |= {
                name: of_length[:, late].mean(axis=1, keepdims=True)
                for name, of_length in ratios.items()
            }
            values["steps to mix"] = mixing_time(expert, process.transitions)
    return Points(lengths, values, seeds)


@functools.lru_cache(maxsize=2)
def demonstrated(
    discount: float, held: float, lengths: tuple[int, ...], seeds: tuple[int, ...]
) -> np.ndarray:
    """Counts of the expert's chains, drawn once for all kinds of estimates; see `chain_counts`."""
    process = Process.drawn(0, discount, held)
    return chain_counts(np.exp(process.log_policy), process.transitions, lengths, seeds)


def mixing_time(policy: np.ndarray, transitions: np.ndarray) -> float:
    """1 / (1 - the second largest eigenvalue by size) of the chain of states."""
    sizes = np.sort(np.abs(np.linalg.eigvals(np.einsum("sa,sat->st", policy, transitions))))
    return float(1 / (1 - sizes[-2]))


def at_discount(discount: float, length: int, seeds: Sequence[int]) -> Points:
    """Measures at one length: n error^2 and n regret `[S, 1]`, the exact limit, norms of rewards, policy's error."""
    with jax.enable_x64(True):
        process = Process.drawn(0, discount)
        expert = np.exp(process.log_policy)
        counts = chain_counts(expert, process.transitions, (length,), seeds)[:, 0]
        actions = counts.sum(axis=-1)
        target = process.revealed(process.log_policy, process.law)
        rewards = process.revealed(
            np.log(tabular(actions)), actions + PSEUDO_COUNT, tabular(counts)
        )
        error = np.asarray(norm(rewards - target, process.law))
        again = np.exp(soft_control(target, process.transitions, discount)[0])
        limit = limit_of_reward_error(expert, process.transitions, discount)
        values = {
            "n error^2": (length * error**2)[:, None],
            "limit": float(limit),
            "norm revealed": float(norm(target, process.law)),
            "norm of the expert's": float(norm(process.rewards, process.law)),
            "policy off by": float(np.abs(again - expert).max()),
            "n regret": (length * process.regrets(rewards, process.transitions))[:, None],
        }
    return Points([length], values, seeds)


CANDIDATES = ("expert's", "least squares", "uniform weights", "log-policy")


def in_another_kernel(
    candidate: str, discount: float, share: float, problems: Sequence[int]
) -> Points:
    """`regret` `[S, 1]` of what infinitely many demonstrations reveal, where moves changed; each seed is a process.

    "log-policy" is the consistent reward with V = 0; its soft-optimal policy is the expert's old one in every process.
    """
    found = []
    with jax.enable_x64(True):
        for seed in problems:
            process = Process.drawn(seed, discount)
            uniform = np.full((STATES, ACTIONS), 1 / (STATES * ACTIONS))
            rewards = {
                "expert's": process.rewards,
                "least squares": process.revealed(process.log_policy, process.law),
                "uniform weights": process.revealed(process.log_policy, uniform),
                "log-policy": process.log_policy,
            }
            moves = process.with_other_moves(seed, share)
            log_policy, _ = soft_control(rewards[candidate], moves, discount)
            found.append(float(regret(log_policy, process.rewards, moves, discount)))
    return Points([0], {"regret": np.array(found)[:, None]}, problems)


def trained(
    objective: str,
    rate: float,
    world: str,
    seeds: Sequence[int],
    group_size: int,
    steps: int,
    draws: int,
) -> Curve:
    """The curve of what the policies that an objective trains reveal at the end, one for each seed."""
    rewards = np.array(OUTCOMES[world])
    bandit = Bandit(OUTCOMES[world])
    policy = Tabular.of(bandit)
    return study.trained(
        bandit,
        policy,
        objective,
        None,
        lambda parameters: log_probs_table(policy, parameters, bandit)[0],
        functools.partial(of_policies, rewards=rewards, seeds=seeds, draws=draws),
        whole_runs=True,
        labels={"part": "trained", "world": world, "kind": objective},
        seeds=seeds,
        group_size=group_size,
        learning_rate=rate,
        steps=steps,
        record_every=steps,
    )


def of_policies(
    log_probs: np.ndarray, rewards: np.ndarray, seeds: Sequence[int], draws: int
) -> dict[str, np.ndarray]:
    """Rewards that the last of policies `[N, U, K]` over K outcomes reveal: measures `[N, 1]`, in units of temperature.

    return: the mean reward of the policy itself.
    gap of equals: the largest difference between the revealed rewards of the best outcomes, which are equally good.
    gap of halves: the mean revealed reward of the best outcomes less that of those with half of their reward.
    gap to wrong: the same, less that of outcomes without reward.
    told apart: from `draws` demonstrations, the share of pairs of a right and a wrong outcome in which the right one
      is revealed to be better; a tie counts half.
    unseen: the share of right outcomes that the demonstrations lack.
    without the favourite: the mean reward of the soft-optimal policy of the demonstrations' reward once the likeliest
      outcome of the demonstrated policy can no longer be had.
    """
    log_probs = log_probs[:, -1]
    revealed = of_one_state(log_probs)
    right, wrong = rewards > 0, rewards == 0
    best, half = rewards == rewards.max(), rewards == rewards.max() / 2
    of_best = revealed[..., best].mean(axis=-1)
    probs = np.exp(log_probs)
    values = {
        "return": probs @ rewards,
        "gap of equals": np.ptp(revealed[..., best], axis=-1),
        "gap to wrong": of_best - revealed[..., wrong].mean(axis=-1),
    }
    if half.any():
        values["gap of halves"] = of_best - revealed[..., half].mean(axis=-1)

    probs = probs / probs.sum(axis=-1, keepdims=True)
    counts = np.stack(
        [
            np.random.default_rng(seed).multinomial(draws, of_seed)
            for seed, of_seed in zip(seeds, probs, strict=True)
        ]
    )
    from_counts = of_one_state(np.log(tabular(counts)))
    difference = from_counts[..., right][..., :, None] - from_counts[..., wrong][..., None, :]
    told_apart = np.where(np.abs(difference) < 1e-9, 0.5, difference > 0)
    favourite = np.arange(len(rewards)) == probs.argmax(axis=-1)[..., None]
    others = np.where(favourite, 0.0, np.exp(from_counts))
    values |= {
        "told apart": told_apart.mean(axis=(-2, -1)),
        "unseen": (counts[..., right] == 0).mean(axis=-1),
        "without the favourite": (others @ rewards) / others.sum(axis=-1),
    }
    return {name: of_seeds[:, None] for name, of_seeds in values.items()}


def of_one_state(log_probs: np.ndarray) -> np.ndarray:
    """`[..., K]`, the least-squares reward of a policy over K outcomes, with itself as weights: log pi + H(pi).

    All outcomes end, so there is one state, and the discount, here 0, does not matter.
    """
    with jax.enable_x64(True):
        log_policy = log_probs[..., None, :]
        law = np.exp(log_policy)
        moves = np.ones((*log_policy.shape, 1))
        reward = least_squares_reward(log_policy, moves, law, 0.0)
        return np.asarray(reward)[..., 0, :]
