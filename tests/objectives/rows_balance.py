"""The advantage of a squared residual is -2 * residual: tables start at 0, and one action is the walk."""

import numpy as np

from tests.objectives.rows import Row, centred, like_grpo, standardised
from tests.oracles.token_values import (
    answer_residual,
    group_residual,
    minus_squared_steps,
    sequence_mean,
    squares,
    sub_trajectories,
    tilt,
)


def excess(probs, rewards, floor=-10.0, exponent=1.0):
    with np.errstate(divide="ignore"):
        return np.log(probs) - np.maximum(exponent * np.log(rewards), floor)


def flow(counts, probs, rewards, beta=15.0, unbiased=False):
    return np.log(probs * len(probs)) - beta * standardised(counts, rewards, unbiased)


def balance(rule, tokens=None):
    return Row(False, None, "never", rule, tokens=tokens)


def flowrl(rule, tokens=None):
    return like_grpo(rule, tokens=tokens)


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
}
