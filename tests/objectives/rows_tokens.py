"""Declarations of the rows in `catalog/tokens.py`; in the rules n are counts, p the law, r the rewards."""

from rows import Row, standardised


def shifted(counts, law, rewards, alpha=0.3):
    """ARM with prompt confidence 0.35; the confidence in a one-token answer is its probability."""
    shift = alpha * (0.35 - law) if (counts * rewards).any() else 0.0
    return standardised(counts, rewards) + shift


def shifted_to_correct(counts, law, rewards):
    correct = counts * (rewards > 0)
    level = (correct * law).sum() / max(correct.sum(), 1)
    shift = 0.3 * (level - law) if correct.any() else 0.0
    return standardised(counts, rewards) + shift


def shifted_where_mixed(counts, law, rewards):
    advantages = standardised(counts, rewards)
    return advantages + 0.3 * (0.35 - law) if advantages.any() else advantages


ROWS = {
    # A shift turns wrong answers into correct ones; the gate and the set of correct answers notice.
    "progrpo": Row(False, 0, "no reward", shifted),
    "progrpo(reference=correct)": Row(False, 0, "no reward", shifted_to_correct),
    "progrpo(gate=mixed)": Row(True, 0, "equal rewards", shifted_where_mixed),
}
