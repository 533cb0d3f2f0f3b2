"""What `survival_map`, `collapse_time` and `recovery_time` must show, at sizes that take half a minute each."""

import dataclasses
import json

import numpy as np
import pytest

from experiments import collapse_time, recovery_time, survival_map
from experiments.launch import Output
from ipsrl.training.metric_log import read


def summary_of(experiment, folder, **settings):
    experiment.run(dataclasses.replace(experiment.PRESETS["demo"], **settings), Output(folder, resume=False))
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.slow
def test_the_weaker_outcome_survives_above_the_border(tmp_path):
    rules = summary_of(survival_map, tmp_path, group_sizes="3,5,8,16", alphas=8, seeds="0:8")["rules"]
    assert len(rules) == 3
    for row in rules.values():
        assert row["beyond_border"] < 0.1
        assert row["wrong_share"] < 0.1
        assert row["off_law_at_rest_median"] < 0.002
    cells = read(tmp_path / "metrics.jsonl")
    assert len(cells) == 3 * 4 * 8
    assert {cell["survival"] for cell in cells} >= {0.0, 1.0}


def test_cells_on_the_border_are_on_no_wrong_side():
    second = np.zeros((3, 2, 4))
    second[1:, 1] = 0.3
    second[2, 0, 0] = 0.3
    axes = {"rule": "no baseline", "group_sizes": np.array([2, 4]), "alphas": np.array([0.0, 1.0, 1.5])}
    trained = survival_map.Map(**axes, second=second, critical_alpha=np.array([2.0, 1.0]))
    np.testing.assert_allclose(trained.share(0.01), [[0, 0], [0, 1], [0.25, 1]])
    assert not trained.wrong(0.01).any()
    survivor = survival_map.Map(**axes, second=second + 0.1, critical_alpha=np.array([2.0, 1.0]))
    assert survivor.wrong(0.01).tolist() == [[True, True], [True, False], [True, False]]


@pytest.mark.slow
def test_a_floor_above_the_better_share_of_the_reward_loses_the_weaker_outcome_in_every_group(tmp_path):
    settings = {"group_sizes": "4,16", "lowest_alpha": 0.5, "highest_alpha": 1.0, "alphas": 2, "seeds": "0:4"}
    summary_of(survival_map, tmp_path, floor=0.3, **settings)
    assert {cell["survival"] for cell in read(tmp_path / "metrics.jsonl")} == {0.0}


@pytest.mark.slow
def test_ties_collapse_after_the_exact_time_and_others_keep_them(tmp_path):
    summary = summary_of(collapse_time, tmp_path, group_sizes="4,16", seeds="0:1000", keeper_seeds="0:40")
    for point in summary["collapse_time"]:
        standard_error = (point["sampled"]["high"] - point["sampled"]["low"]) / (2 * 1.96)
        assert abs(point["sampled"]["mean"] - point["exact"]) < 4 * standard_error
        # The diffusion limit's own error, 0.25 h r / sqrt(G) at most.
        assert 0 < point["exact"] / point["formula"] - 1 < 0.25 * 0.5 / np.sqrt(point["group_size"])
    shares = summary["collapsed_share"]
    assert {share["runs"] for share in shares.values()} == {80}
    assert shares.pop("ips_reinforce(alpha=0.5)")["low"] < 0.05
    assert len(shares) == 5
    assert all(share["collapsed"] == 0 and 0 < share["high"] < 0.05 for share in shares.values())


@pytest.mark.slow
def test_rare_outcomes_recover_hyperbolically(tmp_path):
    rules = summary_of(recovery_time, tmp_path)["rules"]
    assert len(rules) == 3
    for points in rules.values():
        for point in points:
            standard_error = (point["sampled"]["high"] - point["sampled"]["low"]) / (2 * 1.96)
            # A finite step takes longer by up to h r_2 omega(1) / G = 1 % of omega(1) / (omega(1) - 4 omega(G)).
            excess = point["sampled"]["mean"] - point["mean_field"]
            assert -4 * standard_error < excess < 4 * standard_error + 0.0135 * point["mean_field"]
        assert points[-1]["sampled"]["mean"] == pytest.approx(points[-1]["approximation"], rel=0.05)


@pytest.mark.parametrize(
    ("experiment", "settings", "message"),
    [
        (survival_map, {"rewards": "1.0,4.0"}, "must be finite and positive, and the first the larger one"),
        (survival_map, {"rewards": "inf,1.0"}, "must be finite and positive, and the first the larger one"),
        (survival_map, {"group_sizes": "4,2"}, "must be rising numbers from 2 to 125"),
        (survival_map, {"group_sizes": "4,126"}, "must be rising numbers from 2 to 125"),
        (survival_map, {"group_sizes": "4"}, "must be two or more"),
        (survival_map, {"floor": 2.0}, "0 .none. or more, and less than 1"),
        (survival_map, {"threshold": 2.0}, "must lie between 0 and 1"),
        (survival_map, {"highest_alpha": np.inf}, "to a finite number"),
        (survival_map, {"highest_alpha": 0.0}, "they must rise from 0 or more"),
        (survival_map, {"steps": 30}, "it must be a multiple of 20"),
        (collapse_time, {"threshold": 0.5}, "must lie between 1/2"),
        (collapse_time, {"group_sizes": "1"}, "must be rising numbers from 2 to 125"),
        (collapse_time, {"seeds": "0"}, "an interval needs two"),
        (collapse_time, {"step_size": 100.0}, "a tie would last 0.0124 updates .* a smaller --step_size"),
        (collapse_time, {"threshold": 0.999999999}, "can be sampled: take a lower --threshold"),
        (collapse_time, {"step_size": 1e-200}, "can be sampled: take a lower --threshold"),
        (collapse_time, {"keepers": "no_such_objective"}, "no_such_objective"),
        (recovery_time, {"starts": "0.1,0.2"}, "must lie between 0 and 0.0975"),
        (recovery_time, {"seeds": "0"}, "an interval needs two"),
        (recovery_time, {"group_size": 5}, "must lie between 6, the first above"),
        (recovery_time, {"group_size": 126}, "must lie between 6, .* and 125"),
        (recovery_time, {"rewards": "1000,1"}, "only in groups of more than 125"),
        (recovery_time, {"rewards": "1.9,1", "group_size": 3, "starts": "1e-3"}, "is too small: with group mean "),
        (recovery_time, {"alpha": 1000.0}, "must fit in float32"),
        (recovery_time, {"step_size": 5.0}, "it must be below 1.96"),
        (recovery_time, {"rewards": "1.0,1.0"}, "must be finite and positive, and the first the larger one"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(experiment, settings, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.PRESETS["smoke"], **settings)
