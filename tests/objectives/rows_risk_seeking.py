import numpy as np

from tests.objectives.rows import Row
from tests.oracles.token_values import PPO


def relative_utility(counts, rewards, beta=2.0):
    utility = np.exp(np.minimum(beta * (rewards - rewards[counts > 0].max()), 0.0))
    return (utility / (counts @ utility / counts.sum()) - 1) / beta


ROWS = {
    "rs_grpo": Row(True, None, "equal rewards", lambda n, p, r: relative_utility(n, r), tokens=PPO),
    "rs_grpo(beta=0.5)": Row(True, None, "equal rewards", lambda n, p, r: relative_utility(n, r, 0.5)),
}
