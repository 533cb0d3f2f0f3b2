"""Studies refuse settings that do not go together with a sentence that says which and why.

Types and ranges of single settings are tried in tests/checking/test_refusals.py.
"""

import dataclasses
import math
from pathlib import Path

import pytest

from ipsrl.study import catalog

pytestmark = pytest.mark.core

REFUSED = {
    "collapse_time": [
        ({"step_size": 100.0}, "a tie would last 0.0124 to 0.0497 updates, it must be 10 to 2.7e"),
        ({"step_size": 1e-200}, "a tie would last inf to inf updates"),
        ({"keepers": ("trajectory_balance",)}, "the objective needs log_backward"),
    ],
    "compare": [
        ({"objectives": ("progrpo",)}, "progrpo: the objective needs prompt_log_probs"),
        ({"learning_rates": (0.1, 0.1)}, "must be different positive numbers"),
        ({"steps": 15}, "must be a multiple of --evaluate_every, 10"),
        ({"objectives": ("all", "grpo(clip=0.2)")}, "are the same objective: name each once"),
        ({"filters": "dynamic_sampling"}, "--filters=dynamic_sampling are for text tasks"),
        ({"environment": "hypospace_boolean", "filters": "off_policy"}, "--filters=off_policy is not for all"),
        ({"environment": "math_answers"}, "math_answers has no small policy: take a bandit, a tree, a grid or a text"),
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
    "hypospace": [
        ({"group_size": 1}, "group_size is 1, it must be at least 2"),
        ({"objectives": ("critique_grpo",)}, r'--filters="off_policy\(answers=8\)"'),
        ({"objectives": ("grpo",), "refresh_reference_every": 2}, "this run has no reference"),
    ],
    "inference_routing": [
        ({"p_min": 0.6}, "--budget is 0.5, it must be above --p_min, 0.6"),
        ({"rounds": 41}, "--rounds is 41, it must be a multiple of --intervals, "),
    ],
    "inverse_soft_rl": [({"lengths": (100,)}, "it must have two numbers or more: a slope needs two")],
    "many_outcomes": [
        ({"num_outcomes": (16, 40)}, "has 40, it must be an even multiple of 16 samples"),
        ({"objectives": ("grpo", "progrpo")}, "progrpo cannot be trained here: .* prompt_log_probs"),
    ],
    "mode_bench": [({"objectives": ("critique_grpo",)}, "needs off-policy answers")],
    "one_of_many": [
        (
            {"policy": "small", "model_dir": "", "max_tokens": 256, "frozen_dtype": "float32"},
            "--held_out is for language models: give --policy=hf and --model_dir as well",
        ),
    ],
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
        ({"objectives": ("grpo", "progrpo")}, "progrpo has no portrait: .*needs prompt_log_probs"),
        ({"objectives": ("grpo", "placebo")}, "placebo has no portrait: .*samples at random"),
    ],
    "recovery_time": [
        ({"starts": (0.1, 0.2)}, "must lie between 0 and 0.0975"),
        ({"group_size": 5}, "the weaker outcome survives from 6 on"),
        ({"rewards": (1000.0, 1.0)}, "the weaker outcome survives from 1002 on"),
        ({"rewards": (1.9, 1.0), "group_size": 3, "starts": (1e-3,)}, "is too small: p_2 rests at"),
        ({"step_size": 5.0}, "it must be below 1.96"),
    ],
    "survival_map": [
        ({"group_sizes": (4,)}, "a map takes two --group_sizes at least"),
        ({"lowest_alpha": 2.0}, "--lowest_alpha below --highest_alpha"),
        ({"steps": 30}, "it must be a multiple of 20"),
    ],
    "transfer": [
        ({"objectives": ("progrpo",)}, "progrpo cannot be trained here: the objective needs prompt_log_probs"),
        ({"model_dir": "nowhere", "levels": ("language_model",)}, "there is no folder nowhere"),
        ({"document": "nowhere.md"}, "there is no such page; write one with marks"),
        ({"document": str(Path(__file__).parents[2] / "README.md")}, "the page lacks the marks"),
    ],
    "two_outcomes": [
        ({"rewards": (1.0,)}, "must be two positive numbers"),
        ({"rewards": (1.0, 0.0)}, "must be two positive numbers"),
    ],
}


SLOW = [pytest.mark.slow]


@pytest.mark.parametrize(
    ("study", "changes", "message"),
    [
        # Portraits compile the field of the first objective before the second one is refused.
        pytest.param(catalog.find(name), *row, marks=SLOW * (name == "phase_portraits" and "objectives" in row[0]))
        for name, rows in REFUSED.items()
        for row in rows
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_bad_settings_are_refused(study, changes, message):
    with pytest.raises(ValueError, match=message):
        list(study.curves(dataclasses.replace(study.presets["smoke"], **changes).resolved()))
