import jax.numpy as jnp
import numpy as np
import pytest

from experiments.crossed.nine_answers import exact_coverage

RIGHT = np.array([[True, True, False], [True, False, False]])


def test_exact_numbers_of_two_prompts():
    found = exact_coverage(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0]]), RIGHT, (1, 2))
    assert float(found["pass_at_1"]) == pytest.approx((0.75 + 0.1) / 2)
    assert float(found["pass_at_2"]) == pytest.approx((1 - 0.25**2 + 1 - 0.9**2) / 2)
    # The first prompt has two right answers, found in two tries with 3/4 and 7/16.
    assert float(found["covered_at_2"]) == pytest.approx(((3 / 4 + 7 / 16) / 2 + 0.19) / 2)
    assert float(found["covered_at_1"]) == pytest.approx((0.375 + 0.1) / 2)
    # Shares 2/3 and 1/3 at the first, one right answer at the second.
    assert float(found["effective_outcomes"]) == pytest.approx((3 / 2 ** (2 / 3) + 1) / 2)
