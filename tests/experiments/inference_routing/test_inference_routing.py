"""What the study decides from made-up regrets, variances and costs, and that a small run records them."""

import pytest

from experiments import inference_routing as study
from experiments.inference_routing import CLAIMS, COMMON, RARE, Settings
from experiments.inference_routing.routed_tasks import ARMS
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("error_rate", "depth", "arm")
# By depth, from 2 to 5, and for rare errors.
PLACES = [(COMMON, 2), (COMMON, 3), (COMMON, 4), (COMMON, 5), (RARE, 5)]
AS_CLAIMED = {
    "regret": {"plain": (100, 130, 160, 200, 40), "learned": (40, 40, 40, 40, 40.5), "full": (35,) * 5},
    "uniform_variance": {"learned": (0.8, 0.8, 0.7, 0.6, 0.95), "weighted": (0.8,) * 5},
    "uniform_choice_variance": {"learned": (0.8,) * 5},
    "off": {"clipped": (-0.1,) * 5},
    "overspent": {"no_queues": (0.2,) * 5},
    "spread": {"learned": (0.5,) * 5},
}
AS_CLAIMED["regret"]["weighted"] = AS_CLAIMED["regret"]["learned"]
NOT_AS_CLAIMED = {
    "regret": {"plain": (100, 100, 100, 100, 40), "learned": (100, 100, 100, 150, 45), "full": (35,) * 5},
    "uniform_variance": {"learned": (0.95, 1.0, 1.1, 1.2, 0.8)},
    "uniform_off": {"learned": (0.0, 0.0, 0.0, 0.1, 0.0)},
    "overspent": {"learned": (0.0, 0.0, 0.0, 0.1, 0.0)},
    "spread": {"learned": (2.0,) * 5},
}
USUAL = {"regret": 100.0, "uniform_variance": 1.0, "uniform_choice_variance": 1.0}


def decided(of_arms, arms=ARMS, chance=0.0):
    """Sixteen seeds, whose regrets differ by 4 in all arms but `learned`, and there by `spread` times 4.

    Args:
      chance: by how much the seeds of `learned` differ in all values, half of them up, half down.
    """
    rows = []
    for place, (error_rate, depth) in enumerate(PLACES):
        for arm in arms:

            def value(name, arm=arm, place=place):
                return of_arms.get(name, {}).get(arm, (USUAL.get(name, 0.0),) * 5)[place]

            for seed in range(16):
                values = {name: value(name) for name in (*USUAL, "off", "uniform_off", "overspent")}
                spread = value("spread") if arm == "learned" else 1.0
                values["regret"] += 4 * spread * (-1) ** (seed // 2)
                if arm == "learned":
                    values = {name: of + chance * (-1) ** seed for name, of in values.items()}
                labels = {"error_rate": error_rate, "depth": depth, "arm": arm}
                rows.append(labels | values | {"revealed": 0.1, "step": 1, "seed": seed})
    return claims.decided(CLAIMS, Records(rows, LABELS))


def test_all_that_is_claimed_may_hold():
    assert set(decided(AS_CLAIMED).values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    assert set(decided(NOT_AS_CLAIMED).values()) == {False}


def test_seeds_that_disagree_decide_nothing():
    found = decided({}, chance=120.0)
    assert {held for sentence, held in found.items() if "a learned baseline ends" in sentence} == {None}


def test_what_was_not_run_decides_nothing():
    found = decided(AS_CLAIMED, arms=("learned",))
    assert {sentence for sentence, held in found.items() if held is not None} == {
        sentence for sentence in CLAIMS if "mean estimate with" in sentence or "with queues" in sentence
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depths": (1, 2)}, "--depths is .* increasing numbers from 2 to 7"),
        ({"arms": ("exp3",)}, "--arms is 'exp3', it must be one of plain, constant"),
        ({"arms": ()}, "--arms is empty"),
        ({"p_min": 0.0}, "--p_min is 0.0, it must lie above 0"),
        ({"p_min": 0.6}, "budgets has 0.5, it must be above 0.6, what p_min alone costs"),
        ({"budget": 1.5}, "--budget is 1.5, it must lie above 0 and not above 1"),
        ({"rounds": 41}, "--rounds is 41, it must be a multiple of --intervals, 5"),
        ({"seeds": (0,)}, "at least 2 different numbers"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        list(study.curves(Settings(**changes)))


def test_a_small_run_measures_estimates_and_regret(smoke):
    settings, found = smoke(study)
    assert len(found) == 2 * 2 * 2 * 2
    ends = found.at_end()
    assert set(ends.column("step").tolist()) == {settings.rounds}
    # With equal weights both decide alike.
    plain, learned = (found.where(arm=arm) for arm in ("plain", "learned"))
    assert plain.column("uniform_revealed").tolist() == learned.column("uniform_revealed").tolist()
    assert plain.column("uniform_variance").tolist() != learned.column("uniform_variance").tolist()
    assert set(found.column("learning_rate").tolist()) <= set(settings.learning_rates)
    assert study.TABLE(found, settings).count("learned") == 2 * 5
    assert study.FIGURE(found, settings).rows
