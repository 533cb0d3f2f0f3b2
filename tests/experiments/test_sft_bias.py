"""The study decides from what stands before and after reinforcement learning."""

import numpy as np
import pytest

from experiments.sft_bias import CLAIMS, MANY, NUMBERS, PLACEBOS, correlation
from ipsrl.records.tidy import Records

EPOCHS = (1, 4, 16)


def records(before: dict[str, tuple[float, ...]], after: tuple[float, ...], placebo: float) -> Records:
    """Of five seeds that differ a little: measures before, and pass@64 and forms after, by epochs."""
    rows = []
    for arm, epochs, last in [*(("taught", *pair) for pair in zip(EPOCHS, after, strict=True)),
                              *((arm, 16, placebo) for arm in PLACEBOS)]:  # fmt: skip
        for seed in range(5):
            labels, noise = {"arm": arm, "epochs": epochs, "objective": "grpo", "seed": seed}, 0.001 * seed
            first = {name: values[EPOCHS.index(epochs)] + noise for name, values in before.items()}
            end = dict.fromkeys(first, 0.0) | {MANY: last + noise}
            for step, values in ((0, first), (60, end)):
                forms = {"effective_outcomes": 10 * values[MANY]}
                rows.append(labels | {"step": step} | values | forms)
    return Records(rows, ("arm", "epochs", "objective"))


BEFORE = {
    "pass_at_1": (0.1, 0.3, 0.5),
    "entropy": (1.0, 0.6, 0.1),
    MANY: (0.9, 0.8, 0.7),
    "held_out_loss": (5.0, 6.0, 9.0),
}


def decided(found: Records) -> list[bool]:
    return [bool(claim(found)) for claim in CLAIMS.values()]


def test_an_inversion_is_seen():
    found = records(BEFORE, (0.9, 0.8, 0.6), placebo=0.7)
    assert decided(found) == [True] * 7
    assert correlation("pass_at_1", found).mean == pytest.approx(-1.0)
    assert NUMBERS["pass@64 after the fewest epochs"](found).mean == pytest.approx(0.902)


def test_ranks_that_stay_and_heat_that_restores_are_seen_too():
    found = records(BEFORE, (0.6, 0.8, 0.9), placebo=0.95)
    assert decided(found) == [False] * 7
    assert np.isclose(NUMBERS["pass@64 after the most epochs, reheated"](found).mean, 0.952)
