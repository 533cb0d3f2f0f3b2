"""Into how many devices a CPU is divided where nobody says."""

import pytest

from experiments import grid
from experiments.grid import TrainingFlags


@pytest.mark.parametrize(
    ("cores", "changes", "devices"),
    [
        (2, {"prompts_per_step": 40, "micro_batches": 5}, 2),
        (12, {"prompts_per_step": 40, "micro_batches": 5}, 4),
        (8, {"prompts_per_step": 24, "mini_batches": 2, "micro_batches": 4}, 1),
        (8, {"mesh": "data:2,model:4"}, None),
        (8, {"micro_batches": 0}, 8),
    ],
)
def test_a_device_for_each_core_as_far_as_they_divide_the_prompts(cores, changes, devices, monkeypatch):
    monkeypatch.setattr(grid, "cores", lambda: cores)
    assert TrainingFlags(**changes).host_devices == devices
