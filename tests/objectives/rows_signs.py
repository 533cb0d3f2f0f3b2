"""Declarations of the rows in `catalog/signs.py`; n are counts, p the distribution, r the rewards."""

from tests.objectives.rows import Row
from tests.objectives.token_values import clipped, token_mean


def signed(rewards, positive, negative):
    return positive * rewards - negative * (1 - rewards)


ROWS = {
    "w_reinforce": Row(False, None, "never", lambda n, p, r: signed(r, 0.1, 1.0), tokens=token_mean(clipped(0.2, 0.2))),
    "w_reinforce(positive=0.0, negative=0.7)": Row(False, None, "never", lambda n, p, r: signed(r, 0.0, 0.7)),
    "w_reinforce(positive=1.0, negative=0.0)": Row(False, 1, "no reward", lambda n, p, r: r),
}
