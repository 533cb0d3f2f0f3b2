import numpy as np
import pytest
from matplotlib.image import imread

pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')

from experiments import molecules
from experiments.molecules import ARMS, PRESETS, Settings
from experiments.molecules.tables import CELL, best_molecules
from ipsrl.policies.state_space import StateSpace
from ipsrl.records.tidy import Records


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_can_be_trained(arm):
    PRESETS["smoke"].search().curve(arm, ARMS[arm], 0)


def test_a_page_has_a_row_of_molecules_for_each_arm(tmp_path):
    arrays = [
        ({"part": "search", "arm": arm, "seed": 0}, {"best": np.array(best), "best_rewards": np.ones(len(best))})
        for arm, best in (("prior", ["CCO", "c1ccccc1"]), ("grpo", ["CC"]))
    ]
    (page,) = best_molecules(Records([], ("part", "arm"), arrays), PRESETS["smoke"], tmp_path / "molecules.png")
    picture = imread(page)[..., :3]
    assert picture.shape[:2] == (2 * CELL[1], 2 * CELL[0])
    drawn = picture.reshape(2, CELL[1], 2, CELL[0], 3).min(axis=(1, 3, 4))
    assert (drawn < 0.5).tolist() == [[True, True], [True, False]]


def test_the_policy_of_the_paper_has_its_size():
    paper = PRESETS["paper"]
    policy = StateSpace(37, paper.hidden_size, paper.num_layers, state_size=paper.state_size)
    assert (policy.inner_size, policy.convolution) == (512, 4)


def test_missing_molecules_are_named_with_the_command_that_makes_them(tmp_path, monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="run python scripts/make_molecules"):
        list(molecules.curves(Settings()))
