from tests.objectives.rows import Row, centred, standardised
from tests.oracles.token_values import PPO


def focal(counts, rewards, gamma=1.0):
    return (counts[rewards <= 0].sum() / counts.sum()) ** gamma


def relative(counts, rewards, baseline=1.0):
    mean = counts @ rewards / counts.sum()
    return rewards / mean - baseline if mean > 0 else 0 * rewards


def amplified(counts, rewards, q):
    mean = counts @ rewards / counts.sum()
    return centred(counts, rewards) / mean**q if mean > 0 else 0 * rewards


ROWS = {
    "f_grpo": Row(False, 0, "equal rewards", lambda n, p, r: focal(n, r) * standardised(n, r), tokens=PPO),
    "f_grpo(gamma=0.5, standardise=False)": Row(
        False, 1, "equal rewards", lambda n, p, r: focal(n, r, 0.5) * centred(n, r)
    ),
    "maxrl": Row(False, 0, "equal rewards", lambda n, p, r: relative(n, r), tokens=PPO),
    "maxrl(centred=False)": Row(False, 0, "no reward", lambda n, p, r: relative(n, r, 0.0)),
    # Rewards times 3 multiply the advantages by 3^(1-q), which is no whole power.
    "garl": Row(False, None, "equal rewards", lambda n, p, r: amplified(n, r, 0.75), tokens=PPO),
    "garl(q=0.5)": Row(False, None, "equal rewards", lambda n, p, r: amplified(n, r, 0.5)),
    # Dr. GRPO, but that shifts below zero silence it.
    "garl(q=0.0)": Row(True, 1, "equal rewards", lambda n, p, r: centred(n, r)),
}
