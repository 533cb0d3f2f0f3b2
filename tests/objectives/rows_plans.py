import numpy as np

from tests.objectives.rows import centred, like_dr_grpo, like_grpo, standardised
from tests.objectives.rows_expected_return import k3_gradient
from tests.oracles.token_values import clipped, control_and_response, sequence_mean


def raised(advantages, alpha=0.2, failures=-1.0):
    return advantages + alpha * np.where(advantages < 0, failures * advantages, advantages)


ROWS = {
    "hicra": like_dr_grpo(lambda n, p, r: raised(centred(n, r)), tokens=sequence_mean(clipped(0.2, 0.28))),
    "hicra(planned=random, failures=sharpened)": like_dr_grpo(
        lambda n, p, r: raised(centred(n, r), failures=1.0), random=True
    ),
    "hicra(planned=high_entropy, failures=kept)": like_dr_grpo(lambda n, p, r: raised(centred(n, r), failures=0.0)),
    "hicra(planned=first, standardise=True)": like_grpo(lambda n, p, r: raised(standardised(n, r))),
    "degrpo": like_dr_grpo(
        "a bandit's only token has the weight 1/1000: see the rows below",
        tokens=control_and_response(0.001, clipped(0.2, 0.2)),
    ),
    "degrpo(alpha=0.5)": like_dr_grpo(lambda n, p, r: 0.5 * centred(n, r) - 0.001 * k3_gradient(p)),
    "degrpo(alpha=0.5, response=token_mean, standardise=True, kl=0.04)": like_grpo(
        lambda n, p, r: 0.5 * standardised(n, r) - 0.04 * k3_gradient(p)
    ),
}
