import numpy as np

from tests.objectives.rows import Row, centred, like_dr_grpo, like_grpo, standardised
from tests.oracles.token_values import (
    REFERENCE,
    augmented_residual,
    bellman_errors,
    implicit_residual,
    regression_residual,
    sequence_mean,
    squares,
    token_mean,
)


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
