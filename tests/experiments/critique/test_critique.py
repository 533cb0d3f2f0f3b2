import pytest

from experiments import critique
from experiments.critique import FIRST, WORDS, Settings


def test_settings_out_of_range():
    with pytest.raises(ValueError, match="--arms is 'ppo', it must be one of grpo_8, "):
        Settings(arms=("ppo",))
    with pytest.raises(ValueError, match="--critics is 'me', it must be one of first_mistake, "):
        Settings(critics=("me",))
    with pytest.raises(ValueError, match="--asked is 1, it must be at least 2"):
        Settings(asked=1)


def test_a_small_run_measures_all(smoke):
    settings, found = smoke(critique)
    assert len(found) == 2 * (1 + 3 * len(settings.arms))
    assert found.where(arm=WORDS).distinct("step") == [0, 250, 500]
    priors, arms = critique.TABLE(found, settings).split("\n\n")
    assert FIRST in priors
    assert WORDS in arms
    assert "learning rate" in arms
    assert critique.FIGURE(found, settings).rows
