"""The study decides from what stands before and after reinforcement learning."""

import pytest

from experiments.sft_bias import CLAIMS, CONTROLS, FORMS, MANY, NUMBERS, Settings
from ipsrl.records.tidy import Records
from ipsrl.study import claims

EPOCHS = (1, 4, 16)


def records(before: dict[str, tuple[float, ...]], after: tuple[float, ...], control: float, spread=0.0) -> Records:
    """Of six seeds: measures before, and pass@64 and forms after, by epochs.

    All of a seed differ from the others by as much, which leaves paired differences; the last ones by a spread, too.
    """
    rows = []
    for arm, epochs, last in [*(("taught", *pair) for pair in zip(EPOCHS, after, strict=True)),
                              *((arm, 16, control) for arm in CONTROLS)]:  # fmt: skip
        for seed in range(6):
            labels, noise = {"arm": arm, "epochs": epochs, "objective": "grpo", "seed": seed}, 0.05 * seed
            first = {name: values[EPOCHS.index(epochs)] + noise for name, values in before.items()}
            kept = last + noise + (spread * (-1) ** seed if epochs == 16 else 0)
            end = dict.fromkeys(first, 0.0) | {MANY: kept}
            for step, values in ((0, first), (60, end)):
                rows.append(labels | {"step": step} | values | {FORMS: 10 * values[MANY]})
    return Records(rows, ("arm", "epochs", "objective"))


BEFORE = {
    "pass_at_1": (0.1, 0.3, 0.5),
    "entropy": (1.0, 0.6, 0.1),
    MANY: (0.9, 0.8, 0.7),
    "held_out_loss": (5.0, 6.0, 9.0),
}
LOSS = "pass@64 is over 0.02 lower after the most epochs than after the fewest"
STRONGER = "entropy before correlates with pass@64 after by over 0.1 more strongly than pass@1"


def decided(found: Records) -> dict[str, bool | None]:
    return claims.decided(CLAIMS, found)


def test_an_inversion_and_a_loss_are_seen():
    found = records(BEFORE, (0.9, 0.8, 0.6), control=0.7)
    # What favours no form loses, too, but less; all measures before are ranked alike, so that none is the better.
    assert [sentence for sentence, held in decided(found).items() if not held] == [
        STRONGER.replace("entropy", name) for name in ("entropy", "pass@64", "held-out loss")
    ]
    ranks = NUMBERS["rank correlation of pass@1 before with pass@64 after"]
    assert ranks(found).mean == pytest.approx(-1.0)
    assert NUMBERS["pass@64 is lower after the most epochs than after the fewest, by"](found).low == pytest.approx(0.3)


def test_ranks_that_stay_and_controls_that_restore_are_seen_too():
    found = records(BEFORE, (0.6, 0.8, 0.9), control=0.9)
    assert set(decided(found).values()) == {False}


def test_what_differs_between_seeds_is_undecided():
    found = records(BEFORE, (0.8, 0.8, 0.8), control=0.8, spread=0.1)
    assert set(decided(found).values()) == {None, False}
    assert decided(found)[LOSS] is None
    of_one_number = records(BEFORE, (0.9, 0.8, 0.6), control=0.7).where(epochs=16)
    assert decided(of_one_number)[LOSS] is None


def test_a_measure_whose_ranks_are_those_of_pass_at_64_after_predicts_it_better_than_pass_at_1():
    mixed = BEFORE | {"pass_at_1": (0.3, 0.1, 0.5)}
    assert decided(records(mixed, (0.9, 0.8, 0.6), control=0.7))[STRONGER] is True


def test_no_epoch_is_not_supervised_training():
    with pytest.raises(ValueError, match="--sft_epochs is"):
        Settings(sft_epochs=(0, 1))
