"""Records as a comparison of objectives leaves them."""

from ipsrl.records.tidy import Records


def made_up(ends):
    """Records by objective and learning rate: rewards and effective outcomes at the end, one of each seed.

    At the start both are 0.5; reward-proportional probabilities earn 0.9.
    """
    rows = []
    for (objective, rate), (rewards, outcomes) in ends.items():
        for seed, end in enumerate(zip(rewards, outcomes, strict=True)):
            for step, (reward, effective) in ((0, (0.5, 0.5)), (4, end)):
                row = {"objective": objective, "learning_rate": rate, "seed": seed, "step": step, "reward": reward}
                rows.append(row | {"effective_outcomes": effective, "proportional_reward": 0.9})
    return Records(rows, ("objective", "learning_rate"))
