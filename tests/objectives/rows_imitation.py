from tests.objectives.rows import Row
from tests.oracles.token_values import policy_gradient, token_mean

ROWS = {"supervised": Row(False, 1, "no reward", lambda n, p, r: r, tokens=token_mean(policy_gradient))}
