from tests.objectives.rows import like_grpo
from tests.oracles.token_values import balanced, token_mean

ROWS = {
    "bapo": like_grpo(tokens=token_mean(balanced(0.4, 0.6, 0.9, 0.02, 1.2, 3.0, 0.05))),
    # With targets that are out of reach the limits walk to their ends.
    "bapo(target=0.9, low=(0.5, 0.9, 0.02), high=(1.2, 1.5, 0.05))": like_grpo(),
    "bapo(form=code, target=9.0)": like_grpo(),
}
