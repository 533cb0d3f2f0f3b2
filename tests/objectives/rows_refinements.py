import numpy as np

from tests.objectives.rows import Row, centred, like_dr_grpo, over_std
from tests.objectives.rows_expected_return import entropy_gradient
from tests.objectives.rows_prompt_weights import relative
from tests.oracles.token_values import PPO, constant_length, likelihood_elsewhere, sequence_mean, shaped_elsewhere


def distinct(counts, rewards, tau, over="mean", baseline="kept"):
    """DaGRPO: on a bandit different outcomes share no token and no outcome."""
    group = np.repeat(np.arange(len(rewards)), counts)
    values = rewards[group]
    side = np.sign(values - values.mean())
    kept = []
    for i in range(len(group)):
        gaps = np.abs(values[i] - values[side == -side[i]]) if side[i] else np.array([])
        kept.append(len(gaps) > 0 and (gaps.max() if over == "max" else gaps.mean()) >= tau)
    kept = np.array(kept)
    if not kept.any():
        return 0 * rewards
    among = values[kept] if baseline == "kept" else values
    outcome_kept = np.isin(np.arange(len(rewards)), group[kept])
    std = among.std()
    return outcome_kept * over_std(rewards - among.mean(), std, among) * len(group) / kept.sum()


ROWS = {
    # The threshold is in units of reward.
    "dagrpo": Row(True, None, "equal rewards", lambda n, p, r: distinct(n, r, 0.5), tokens=PPO),
    "dagrpo(tau=0.9)": Row(True, None, "equal rewards", lambda n, p, r: distinct(n, r, 0.9)),
    "dagrpo(tau=0.4, over=max, baseline=group, similarity=outcome, anchors=True, gamma=0.2)": Row(
        True, None, "equal rewards", lambda n, p, r: distinct(n, r, 0.4, "max", "group")
    ),
    "critique_grpo": like_dr_grpo(
        more=lambda p, r: 0.001 * entropy_gradient(p), tokens=constant_length(shaped_elsewhere(0.1))
    ),
    "critique_grpo(gamma=None, clip=(0.2, 0.28), entropy=0.0)": like_dr_grpo(),
    # The groups of a bandit here have own answers only; replayed ones have a gradient whatever the others earn.
    "mode_replay": Row(
        False, 0, "no reward", lambda n, p, r: relative(n, r), tokens=sequence_mean(likelihood_elsewhere(0.2, 0.2))
    ),
    "mode_replay(base=dr_grpo, beta=0.5, clip=(0.2, 0.28))": Row(
        False, None, "no reward", lambda n, p, r: centred(n, r)
    ),
}
