from tests.objectives.rows import like_grpo
from tests.oracles.token_values import clipped, token_mean

ROWS = {
    # The tokens of a bandit all have the same entropy: none is left out.
    "forking_tokens": like_grpo(
        tokens=token_mean(clipped(0.2, 0.28)),
        lengths="lengths move the quantile of the entropies: see test_forks.py",
    ),
    "forking_tokens(threshold=quantile, denominator=all)": like_grpo(),
    "forking_tokens(fraction=0.9)": like_grpo(),
    "forking_tokens(tokens=planning)": like_grpo(),
    # A bandit has no fork.
    "simko": like_grpo(
        tokens=token_mean(clipped(0.2, 0.2)),
        lengths="the quantile of an answer's entropies depends on its length: see test_forks.py",
    ),
    "simko(top=2, spread=0.3, heavier=2.0, quantile=0.5)": like_grpo(),
}
