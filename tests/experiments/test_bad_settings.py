"""Every study refuses settings that make no sense with a sentence that says which and why."""

import dataclasses

import numpy as np
import pytest

from experiments import (
    collapse_time,
    compare,
    group_size_and_floor,
    hypergrid,
    many_outcomes,
    path_multiplicity,
    phase_portraits,
    recovery_time,
    slower_drains,
    survival_map,
    two_outcomes,
    verdicts,
)

pytestmark = pytest.mark.core

REFUSED = {
    collapse_time: [
        ({"threshold": 0.5}, "must lie between 1/2"),
        ({"group_sizes": (1,)}, "must be increasing numbers from 2 to 125"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"keeper_steps": 2**30}, "must be positive and below 2.30"),
        ({"step_size": 100.0}, "a tie would last 0.0124 to 0.0497 updates, it must be 10 to 2.7e"),
        ({"threshold": 0.999999999}, "a tie would last .* change --step_size"),
        ({"step_size": 1e-200}, "a tie would last inf to inf updates"),
        ({"keepers": ("no_such_objective",)}, "no_such_objective"),
        ({"keepers": ("trajectory_balance",)}, "the objective needs log_backward"),
    ],
    compare: [({"skew": 1e30}, r"--skew is 1e\+30, it must lie between -100 and 100")],
    group_size_and_floor: [
        ({"group_sizes": (4, 12)}, "--answers_per_step is 32, it must be a multiple of the group size 12"),
        ({"group_sizes": (8, 4)}, "--group_sizes is .* it must be increasing numbers"),
        ({"micro_batches": 0}, "--micro_batches is 0, it must be at least 1"),
    ],
    hypergrid: [({"side": 8, "dimensions": (7,)}, r"^8\^7 cells are more than 1,000,000")],
    many_outcomes: [
        ({"num_outcomes": (16, 40)}, "has 40, it must be an even multiple of 16 samples"),
        ({"num_outcomes": (64, 16)}, "must be increasing numbers"),
        ({"group_size": 2}, "must be at least 3"),
        ({"rate_batches": 1}, "must be at least 2"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"objectives": ("grpo", "progrpo")}, "progrpo cannot be trained here: .* prompt_log_probs"),
        ({"passes": 0}, "--passes is 0, it must be positive"),
        ({"objectives": ("grppo",)}, "unknown objective 'grppo'"),
    ],
    path_multiplicity: [
        ({"steps": 150}, "must be a multiple of --record_every, 500"),
        ({"ends": (8, 1)}, "must be two ends, of which more paths lead to the first"),
        ({"ends": (1, 3)}, "must be two ends, of which more paths lead to the first"),
        ({"ends": (3,)}, "must be two ends, of which more paths lead to the first"),
        ({"ends": (3, -1)}, "--ends is -1, it must be at least 0"),
        ({"learning_rate": -0.5}, "--learning_rate is -0.5, it must be positive"),
        ({"depth": 0}, "--depth is 0, it must lie between 1 and 60"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"objectives": ("grpo", "progrpo")}, "progrpo cannot be trained here: .* prompt_log_probs"),
        ({"objectives": ("grpo", "ips")}, "unknown objective 'ips'"),
    ],
    phase_portraits: [
        ({"rewards": ((1.0, 1.0),)}, "must be three finite numbers each"),
        ({"rewards": ((1.0, 1.0, float("nan")),)}, "--rewards is .*nan"),
        ({"rewards": ((1.0, 1.0, -1.0),)}, "none negative"),
        ({"rewards": ((1.0, 1.0, 0.5), (0.0, 0.0, 0.0))}, "not all zero"),
        ({"reference": (0.5, 0.5, 0.0)}, "three positive probabilities"),
        ({"reference": (0.5, 0.5, 0.5)}, "whose sum is 1"),
        ({"document": "docs/figure.pdf"}, "must end in .png"),
        ({"arrows": 2}, "--arrows is 2, it must be at least 3"),
        ({"starts": 0}, "--starts is 0, it must be positive"),
        ({"group_size": 1_000_000_000}, "--group_size is 1000000000, it must lie between 1 and 630"),
    ],
    recovery_time: [
        ({"starts": (0.1, 0.2)}, "must lie between 0 and 0.0975"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
        ({"group_size": 5}, "the weaker outcome survives from 6 on"),
        ({"group_size": 126}, "must lie between 2 and 125"),
        ({"rewards": (1000.0, 1.0)}, "the weaker outcome survives from 1002 on"),
        ({"rewards": (1.9, 1.0), "group_size": 3, "starts": (1e-3,)}, "is too small: p_2 rests at"),
        ({"step_size": 5.0}, "it must be below 1.96"),
        ({"alpha": 1000.0}, "must lie between 0.01 and 8"),
        ({"rewards": (1.0, 1.0)}, "must be two finite positive numbers, the larger one first"),
    ],
    slower_drains: [
        ({"steps": 4}, "must be at least 8"),
        ({"passes": (4, 2)}, "must be increasing numbers from 1 to 64"),
        ({"group_size": 1}, "must lie between 2 and 630"),
    ],
    survival_map: [
        ({"rewards": (1.0, 4.0)}, "must be two finite positive numbers, the larger one first"),
        ({"group_sizes": (4, 126)}, "must be increasing numbers from 2 to 125"),
        ({"group_sizes": (4,)}, "a map takes two --group_sizes at least"),
        ({"alphas": 1}, "--alphas is 1, it must lie between 2 and 1000"),
        ({"floor": 2.0}, "--floor is 2.0, it must be at least 0 and below 1"),
        ({"threshold": 2.0}, "must lie strictly between 0 and 1"),
        ({"highest_alpha": np.inf}, "--highest_alpha is inf"),
        ({"highest_alpha": 1e30}, r"--highest_alpha is 1e\+30, it must lie between 0 and 8"),
        ({"lowest_alpha": -1.0}, "--lowest_alpha is -1.0, it must lie between 0 and 8"),
        ({"lowest_alpha": 2.0}, "--lowest_alpha below --highest_alpha"),
        ({"steps": 30}, "it must be a multiple of 20"),
    ],
    two_outcomes: [
        ({"steps": 50}, "must be a multiple of --record_every, 20"),
        ({"rewards": (1.0,)}, "must be two positive numbers"),
        ({"rewards": (1.0, 0.0)}, "must be two positive numbers"),
        ({"objectives": ("reinforce", "rloo")}, "--objectives is 'rloo', it must be one of reinforce"),
        ({"initial_log_ratio": 1e30}, r"--initial_log_ratio is 1e\+30, it must lie between -700.0 and 700.0"),
    ],
    verdicts: [({"group_size": 1_000_000_000}, "--group_size is 1000000000, it must lie between 1 and 630")],
}


@pytest.mark.parametrize(
    ("study", "changes", "message"),
    [(study, *row) for study, rows in REFUSED.items() for row in rows],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_bad_settings_are_refused(study, changes, message):
    with pytest.raises(ValueError, match=message):
        list(study.curves(dataclasses.replace(study.PRESETS["smoke"], **changes)))
