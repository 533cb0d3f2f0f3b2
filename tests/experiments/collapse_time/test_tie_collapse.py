import numpy as np
import pytest

from experiments.collapse_time.tie_collapse import tie_collapse_time


def test_tie_collapse_time():
    """Numbers of updates: times the step size, 1/2, they are 249, 497, 995, 1989 and 3979."""
    updates = [tie_collapse_time(group_size, 0.5) for group_size in (4, 8, 16, 32, 64)]
    np.testing.assert_allclose(np.array(updates) * 0.5, [249, 497, 995, 1989, 3979], atol=0.5)
    assert tie_collapse_time(4, 0.5, reward=2.0) == pytest.approx(updates[0] / 4)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [("must be positive", (4, 0.0)), ("at least 1 sample", (0, 0.5)), ("threshold is 0.2", (4, 0.5, 1.0, 0.2))],
)
def test_bad_input_is_refused(message, arguments):
    with pytest.raises(ValueError, match=message):
        tie_collapse_time(*arguments)
