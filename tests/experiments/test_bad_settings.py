"""Every study refuses settings that make no sense with a sentence that says which and why."""

import dataclasses
import math
from typing import get_type_hints

import pytest

from ipsrl.study import catalog

pytestmark = pytest.mark.core

OUT_OF_RANGE = {
    int: [-(10**9)],
    float: [-1e9, math.nan],
    str: ["no_such_name"],
    tuple[int, ...]: [(-(10**9),)],
    tuple[float, ...]: [(-1e9,), (math.nan,)],
    tuple[str, ...]: [("no_such_name",)],
}
UNLIMITED = {
    *("beginning", "data", "model_dir", "system_prompt"),
    *("constant of inference_routing", "lora_alpha", "lora_targets", "seed of phase_portraits"),
    "optimizer of path_multiplicity",
}
"""Flags that any value of their type fits, or that are read where they are used."""
ONE_SEED = {
    *("collapse_time", "compare", "countdown", "group_size_and_floor", "hypergrid", "hypospace", "inside_trl"),
    *("math_answers", "molecules", "one_of_many", "reasoning_gym", "survival_map", "two_outcomes"),
}
"""Studies that run with one seed; the claims of others take intervals."""
REFUSED = {
    "collapse_time": [
        ({"threshold": 0.5}, "must lie between 1/2"),
        ({"step_size": 100.0}, "a tie would last 0.0124 to 0.0497 updates, it must be 10 to 2.7e"),
        ({"step_size": 1e-200}, "a tie would last inf to inf updates"),
        ({"keepers": ("trajectory_balance",)}, "the objective needs log_backward"),
    ],
    "dialogue_users": [
        ({"updates": 51}, "--updates is 51, it must be a multiple of 2 --records, "),
        ({"turns": 42}, "--turns is 42, it must be a multiple of 4"),
    ],
    "evolution": [({"population": 7}, "--population is 7, it must be even and positive")],
    "group_size_and_floor": [
        ({"group_sizes": (4, 12)}, "--answers_per_step is 32, it must be a multiple of the group size 12"),
    ],
    "group_size_or_sampling": [
        ({"group_sizes": (8, 48)}, "--group_sizes has 48, it must divide --batch, which is"),
        ({"budget": 1000}, "--budget is 1000, it must be a multiple of --batch, which is"),
    ],
    "hybrid_modes": [
        ({"arms": ("forced_grpo",), "group_size": 6}, "--group_size is 6, it must be a multiple of 4 for forced_grpo"),
    ],
    "hypergrid": [({"side": 8, "dimensions": (7,)}, r"^8\^7 cells are more than 1,000,000")],
    "inference_routing": [
        ({"p_min": 0.6}, "--budget is 0.5, it must be above --p_min, 0.6"),
        ({"rounds": 41}, "--rounds is 41, it must be a multiple of --intervals, "),
    ],
    "inverse_soft_rl": [({"lengths": (100,)}, "it must have two numbers or more: a slope needs two")],
    "many_outcomes": [
        ({"rate_batches": 1}, "--rate_batches is 1, it must be at least 2"),
        ({"group_size": 2}, "--group_size is 2, it must be at least 3"),
        ({"num_outcomes": (16, 40)}, "has 40, it must be an even multiple of 16 samples"),
        ({"objectives": ("grpo", "progrpo")}, "progrpo cannot be trained here: .* prompt_log_probs"),
    ],
    "mode_bench": [({"level": 6}, "--level is 6, it must lie between 1 and 5")],
    "overoptimisation": [({"steps": 401}, "--steps is 401, it must be a positive multiple of 50")],
    "path_multiplicity": [
        ({"steps": 150}, "must be a multiple of --record_every, 500"),
        ({"ends": (8, 1)}, "must be two ends, of which more paths lead to the first"),
        ({"ends": (1, 3)}, "must be two ends, of which more paths lead to the first"),
        ({"ends": (3,)}, "must be two ends, of which more paths lead to the first"),
    ],
    "perturbed_policies": [
        ({"draws": (4,)}, "it must be two numbers, few draws and many"),
        ({"smoothings": (0.1, 0.2)}, "it must begin with 0 and have two from"),
        ({"smoothings": (0.0, 0.2)}, "have two from 0.1 to 0.4"),
        ({"samples": (25,)}, "a slope over them takes two or more"),
    ],
    "phase_portraits": [
        ({"rewards": ((1.0, 1.0),)}, "must be three finite numbers each"),
        ({"rewards": ((1.0, 1.0, math.nan),)}, "--rewards is .*nan"),
        ({"rewards": ((1.0, 1.0, -1.0),)}, "none negative"),
        ({"rewards": ((1.0, 1.0, 0.5), (0.0, 0.0, 0.0))}, "not all zero"),
        ({"reference": (0.5, 0.5, 0.0)}, "three positive probabilities"),
        ({"reference": (0.5, 0.5, 0.5)}, "whose sum is 1"),
    ],
    "recovery_time": [
        ({"group_size": 126}, "--group_size is 126, it must lie between 2 and 125"),
        ({"alpha": 1000.0}, "--alpha is 1000.0, it must lie between 0.01 and 8"),
        ({"starts": (0.1, 0.2)}, "must lie between 0 and 0.0975"),
        ({"group_size": 5}, "the weaker outcome survives from 6 on"),
        ({"rewards": (1000.0, 1.0)}, "the weaker outcome survives from 1002 on"),
        ({"rewards": (1.9, 1.0), "group_size": 3, "starts": (1e-3,)}, "is too small: p_2 rests at"),
        ({"step_size": 5.0}, "it must be below 1.96"),
    ],
    "slower_drains": [({"group_size": 1}, "--group_size is 1, it must lie between 2 and 630")],
    "survival_map": [
        ({"floor": 2.0}, "--floor is 2.0, it must be at least 0 and below 1"),
        ({"threshold": 2.0}, "--threshold is 2.0, it must lie strictly between 0 and 1"),
        ({"alphas": 1}, "--alphas is 1, it must lie between 2 and 1000"),
        ({"group_sizes": (4,)}, "a map takes two --group_sizes at least"),
        ({"lowest_alpha": 2.0}, "--lowest_alpha below --highest_alpha"),
        ({"steps": 30}, "it must be a multiple of 20"),
    ],
    "two_outcomes": [
        ({"rewards": (1.0,)}, "must be two positive numbers"),
        ({"rewards": (1.0, 0.0)}, "must be two positive numbers"),
    ],
}


@pytest.mark.parametrize(
    ("study", "changes", "message"),
    [(catalog.find(name), *row) for name, rows in REFUSED.items() for row in rows],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_bad_settings_are_refused(study, changes, message):
    with pytest.raises(ValueError, match=message):
        list(study.curves(dataclasses.replace(study.presets["smoke"], **changes)))


def said(settings, flag, value):
    """The message that refuses a value of a flag; "" if the value is accepted."""
    try:
        dataclasses.replace(settings, **{flag: value})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("study", catalog.every().values(), ids=lambda study: study.name)
def test_every_flag_has_a_range(study):
    """A flag has a range or names its values: refusals that a field declares are tried here, and nowhere one by one."""
    settings = study.presets["smoke"]
    found = {
        flag: [said(settings, flag, value) for value in OUT_OF_RANGE.get(kind, ())]
        for flag, kind in get_type_hints(type(settings)).items()
        if not {flag, f"{flag} of {study.name}"} & UNLIMITED
    }
    named = {flag: all(flag in text or "no_such_name" in text for text in texts) for flag, texts in found.items()}
    assert [flag for flag, holds in named.items() if not holds] == []
    for flag in (flag for flag in found if flag.endswith("seeds") and study.name not in ONE_SEED):
        assert "it must be at least 2 different numbers" in said(settings, flag, (0,))
