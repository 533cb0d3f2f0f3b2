import dataclasses

import numpy as np

from experiments import slower_drains
from experiments.slower_drains import CLAIMS, CLIPS, CONTROLS, METHODS, PLACEBO, PRESETS, measures
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from tests.experiments.recorded import recorded


def test_measures_of_a_course_of_three_records():
    probs = np.array([[[0.4, 0.4, 0.2], [0.9, 0.1, 0.0], [1.0, 0.0, 0.0]], [[0.25, 0.25, 0.5]] * 3])
    found = measures(probs, (1.0, 1.0, 0.0), every=5)
    effective = np.exp(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))
    np.testing.assert_allclose(found["effective"][:, 0], [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(found["reward"][:, 0], [1.0, 0.5])
    np.testing.assert_allclose(found["at_bar"][:, 0], [effective, np.nan], rtol=1e-6)
    # From 2 effective outcomes to 1.38: less than half of what is above one is left. The second run keeps all.
    assert found["half_time"][:, 0].tolist() == [5, 10]


def test_claims_are_decided_by_words_times_and_intervals():
    def decided(words, times, ends):
        rows = []
        for name in ("grpo", "ips_grpo", *METHODS, PLACEBO):
            flow = {"word": words.get(name, "collapses"), "half_time": times.get(name, 200)}
            rows += [{"side": "exact", "objective": name, "k": k, "step": 1, **flow} for k in (1, 8)]
            end = ends.get(name, 2.0)
            values = [{"effective": end + 0.01 * seed, "at_bar": end + 0.01 * seed} for seed in range(5)]
            rows += [
                {"side": "sampled", "objective": name, "k": k, "step": 1, "seed": seed, **of_seed}
                for k in (1, 8)
                for seed, of_seed in enumerate(values)
            ]
        return list(claims.decided(CLAIMS, Records(rows, ("side", "objective", "k"))).values())

    kept = {"ips_grpo": "uniform over correct"}
    assert decided(kept, {"grpo": 100}, {"grpo": 1.0, PLACEBO: 1.0}) == [True] * 6
    # Equal intervals leave the first two open, one method that is behind decides them.
    assert decided(kept, {}, {}) == [None, None, False, True, True, True]
    assert decided(kept, {}, {METHODS[0]: 1.0})[:2] == [False, False]
    changed = {CLIPS[0]: "other", CONTROLS[0]: "other"}
    assert decided(changed, {"grpo": 100, CLIPS[1]: 90}, {})[2:] == [False, False, False, False]


def test_grpo_loses_a_right_outcome_and_ips_keeps_both(tmp_path):
    settings = dataclasses.replace(
        PRESETS["demo"], objectives=("grpo", "ips_grpo"), passes=(2,), seeds=(0, 1, 2, 3), group_size=4, steps=400
    )
    records = recorded(slower_drains, settings, tmp_path / "out")
    words = {name: slower_drains.words(records, name) for name in ("grpo", "ips_grpo")}
    assert words == {"grpo": {"collapses"}, "ips_grpo": {"uniform over correct"}}
    fast, slow = (records.mean("half_time", side="exact", objective=name, k=2) for name in ("grpo", PLACEBO))
    assert fast < slow
    sampled = {name: records.mean("effective", side="sampled", objective=name, k=2) for name in words}
    assert sampled["grpo"] + 1 < sampled["ips_grpo"]
