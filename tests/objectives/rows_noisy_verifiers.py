from tests.objectives.rows import Row, centred, like_dr_grpo, like_grpo
from tests.oracles.token_values import clipped, constant_length

ROWS = {
    "backward_correction": like_dr_grpo(lambda n, p, r: centred(n, r) / 0.5, tokens=constant_length(clipped(0.2, 0.2))),
    "backward_correction(false_positive_rate=0.45, standardise=True)": like_grpo(),
    "forward_correction": Row(False, None, "never", lambda n, p, r: r - 0.7, tokens=constant_length(clipped(0.2, 0.2))),
    "forward_correction(standardise=True)": like_grpo(),
}
