import types

import pytest

from ipsrl.distributed.mesh import make_mesh
from ipsrl.training.text_evaluation import prompts_at_once

pytestmark = pytest.mark.eight_devices


@pytest.mark.parametrize(
    ("mesh", "answers", "prompts"),
    [("data:8", 8, 16), ("data:8", 4, 16), ("data:8", 16, 8), ("data:8", 1000, 8), ("data:2,model:4", 20, 6)],
)
def test_an_evaluation_samples_no_more_at_once_than_training(mesh, answers, prompts):
    training = types.SimpleNamespace(prompts_per_step=16, group_size=8)
    assert prompts_at_once(training, make_mesh(mesh), answers) == prompts
