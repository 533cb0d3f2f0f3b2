import dataclasses

from experiments import slower_drains
from experiments.slower_drains import CLAIMS, CLIPS, CONTROLS, METHODS, PLACEBO, PRESETS
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from tests.experiments.recorded import recorded


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
