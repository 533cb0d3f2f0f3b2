"""Declarations of the rows in `catalog/balance.py`; n are counts, p the distribution, r the rewards.

The advantage of a squared residual is -2 * residual: learned tables are at their start, 0, and one action is the walk.
"""

import numpy as np

from tests.objectives.rows import Row, centred, like_dr_grpo, like_grpo, standardised
from tests.objectives.token_values import (
    REFERENCE,
    answer_residual,
    augmented_residual,
    bellman_errors,
    group_residual,
    implicit_residual,
    minus_squared_steps,
    regression_residual,
    sequence_mean,
    squares,
    sub_trajectories,
    tilt,
    token_mean,
)


def excess(probs, rewards, floor=-10.0, exponent=1.0):
    with np.errstate(divide="ignore"):
        return np.log(probs) - np.maximum(exponent * np.log(rewards), floor)


def flow(counts, probs, rewards, beta=15.0, unbiased=False):
    return np.log(probs * len(probs)) - beta * standardised(counts, rewards, unbiased)


def implicit(counts, excess, beta):
    """Beta times rewards minus the mean of the others in the group."""
    return beta * counts.sum() / (counts.sum() - 1) * centred(counts, excess)


def optimal_value(counts, probs, rewards, beta):
    """`[K]`, the value estimated from each outcome's other answers in the group, weighted to the uniform reference."""
    others = (counts - np.eye(len(probs)) * (counts > 0)) / probs
    largest = np.where(others > 0, rewards, -np.inf).max(axis=1)
    worth = np.exp(np.minimum(rewards - largest[:, None], 0.0) / beta)
    return largest + beta * np.log((others * worth).sum(axis=1) / others.sum(axis=1))


def regression(beta1, beta2, tokens):
    """The row of a regression; in a bandit's first batch its residual is towards the uniform reference."""
    return Row(
        True,
        None,
        "equal rewards",
        lambda n, p, r: 2 * beta2 * (r - optimal_value(n, p, r, beta1) - beta2 * np.log(p * len(p))),
        tokens=tokens,
        lengths="weighs whole answers: see test_implicit_rewards.py",
    )


def balance(rule, tokens=None):
    return Row(False, None, "never", rule, tokens=tokens)


def flowrl(rule, tokens=None):
    return like_grpo(rule, tokens=tokens)


def augmented(sigma):
    """The advantages are the rewards, so that groups without any count as silent, although the prior still pulls."""
    return Row(
        False,
        None,
        "no reward",
        lambda n, p, r: 2 * (sigma * r - np.log(p * len(p))),
        tokens=sequence_mean(squares(augmented_residual(sigma))),
    )


ROWS = {
    "trajectory_balance": balance(lambda n, p, r: -2 * excess(p, r), tokens=sequence_mean(squares(answer_residual))),
    "trajectory_balance(log_reward_floor=-0.5, reward_exponent=0.5)": balance(
        lambda n, p, r: -2 * excess(p, r, -0.5, 0.5)
    ),
    "vargrad": balance(lambda n, p, r: -2 * centred(n, excess(p, r)), tokens=sequence_mean(squares(group_residual))),
    "detailed_balance": balance(lambda n, p, r: -2 * excess(p, r), tokens=sequence_mean(minus_squared_steps)),
    "subtrajectory_balance": balance(lambda n, p, r: -2 * excess(p, r), tokens=sequence_mean(sub_trajectories(0.9))),
    "flowrl": flowrl(lambda n, p, r: -2 * flow(n, p, r), tokens=sequence_mean(tilt(15.0, 0.2, 0.2))),
    "flowrl(beta=0.5, partition=group, unbiased_std=True)": flowrl(
        lambda n, p, r: -2 * centred(n, flow(n, p, r, 0.5, unbiased=True))
    ),
    "flowrl(released_weight=True)": flowrl(lambda n, p, r: -2 * flow(n, p, r)),
    "gvpo": like_dr_grpo(lambda n, p, r: implicit(n, r, 0.1), tokens=sequence_mean(squares(implicit_residual(0.1)))),
    "gvpo(beta=0.4, anchor=reference)": like_dr_grpo(
        lambda n, p, r: implicit(n, r - 0.4 * np.log(p * len(p)), 0.4),
        tokens=sequence_mean(squares(implicit_residual(0.4, REFERENCE))),
    ),
    "a2po": regression(0.5, 1e-3, tokens=sequence_mean(squares(regression_residual(1e-3)))),
    "a2po(beta1=2.0, beta2=0.4, value=others)": regression(
        2.0, 0.4, tokens=sequence_mean(squares(regression_residual(0.4)))
    ),
    "rover": like_dr_grpo(lambda n, p, r: 2 * centred(n, r), tokens=token_mean(bellman_errors(1.0))),
    "rover(beta=0.4, standardise=True, aggregation=sequence_mean)": like_grpo(
        lambda n, p, r: 0.8 * standardised(n, r), tokens=sequence_mean(bellman_errors(0.4))
    ),
    "reinvent": augmented(128.0),
    "reinvent(sigma=0.5)": augmented(0.5),
}
