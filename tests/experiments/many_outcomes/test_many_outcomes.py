import numpy as np
import pytest

from experiments import many_outcomes
from experiments.many_outcomes import COUNTS, EXACT


def test_measures_are_of_what_pays():
    logits = np.log([[0.5, 0.25, 0.25]])
    measures = many_outcomes.measures({"logits": logits})
    assert measures["reward"] == pytest.approx(0.75)
    shares = np.array([2 / 3, 1 / 3])
    assert measures["diversity"] == pytest.approx(np.exp(-shares @ np.log(shares)) / 2)


def test_counts_fall_behind_as_outcomes_multiply_and_exact_probabilities_do_not(smoke):
    _, records = smoke(many_outcomes)
    kept = {
        name: {count: records.mean("diversity", objective=name, num_outcomes=count) for count in (16, 512)}
        for name in ("grpo", COUNTS, EXACT)
    }
    passes, course = records.curve("diversity", "passes", objective="grpo", num_outcomes=512)
    assert passes.tolist() == list(range(17))
    assert kept["grpo"][512] < course[0, 0]
    assert min(kept[EXACT].values()) > 0.9
    lost = {count: kept[EXACT][count] - kept[COUNTS][count] for count in (16, 512)}
    assert lost[512] > lost[16] + 0.05
