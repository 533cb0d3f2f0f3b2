import dataclasses

import numpy as np
import pytest
from matplotlib.quiver import Quiver

from experiments.phase_portraits import drawn_portraits
from ipsrl.dynamics.portraits import Portrait, lattice
from ipsrl.dynamics.rest_points import RestPoint
from ipsrl.figures.phase_portraits import CORNERS
from tests.figures.words import words_of

CORNER = RestPoint(np.array([1.0, 0.0, 0.0]), np.zeros(0), np.array([-1.0, -1.0]))


def portrait(rewards, objective="grpo"):
    """The flow of replicators, dp_i/dt = p_i (r_i - rbar): tied outcomes rest on their edge."""
    distributions = lattice(12)
    gains = np.array(rewards) - (distributions @ rewards)[:, None]
    return Portrait(
        objective=objective,
        rewards=rewards,
        intervals=12,
        velocity=distributions * gains,
        moves=np.abs(distributions * gains).max(axis=1) > 1e-9,
        paths=[np.array([[0.2, 0.3, 0.5], [0.5, 0.4, 0.1]])],
        finished=[True],
        rest_points=[CORNER],
    )


def test_every_mark_has_an_entry_in_the_key():
    inside = np.array([0.4, 0.3, 0.3])
    kinds = {
        "rests and attracts": RestPoint(inside, np.array([-1.0, -2.0]), np.zeros(0)),
        "rests, but repels": RestPoint(inside, np.array([1.0, 2.0]), np.zeros(0)),
        "rests, attracts from some sides": RestPoint(inside, np.array([-1.0, 2.0]), np.zeros(0)),
        "rests, to first order indifferent": RestPoint(inside, np.array([-1.0, 0.0]), np.zeros(0)),
    }
    plain = portrait((1.0, 0.6, 0.3))
    for shown, point in kinds.items():
        text = words_of(drawn_portraits.draw([dataclasses.replace(plain, rest_points=[point])], 8).figure)
        assert [entry for entry in kinds if entry in text] == [shown]
        assert not any(entry in text for entry in ("every policy", "stopped", "reference policy"))
    tied = dataclasses.replace(portrait((1.0, 1.0, 0.5)), finished=[False])
    text = words_of(drawn_portraits.draw([tied], 8, reference=(0.2, 0.3, 0.5)).figure)
    for entry in ("every policy of the edge rests", "stopped: the field jumps", "reference policy"):
        assert entry in text.replace("\n", " ")
    # A corner of an edge that rests is no rest point of its own.
    assert not [entry for entry in kinds if entry in text]


@pytest.mark.slow
def test_a_block_for_each_reward_vector():
    names = ("grpo", "grpo(kl=0.1)", "ips_grpo", "darling", "gapo", "ucpo")
    portraits = [portrait(rewards, name) for name in names for rewards in ((1.0, 1.0, 0.5), (1.0, 1.0, 1.0))]
    drawing = drawn_portraits.draw(portraits, 8)
    text = words_of(drawing.figure)
    for words in ("rewards 1, 1, 0.5", "rewards 1, 1, 1", "(kl=0.1)", "r₃ = 0.5", "|dp/dt|"):
        assert words in text
    assert text.count("every policy rests") == len(names)
    panels = [axes for axes in drawing.figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == 2 * [name.partition("(")[0] for name in names]


def test_arrows_point_where_the_policy_goes():
    figure = drawn_portraits.draw([portrait((1.0, 0.0, 0.0))], 8).figure
    (arrows,) = figure.findobj(Quiver)
    distributions = np.array([(i, j, 4 - i - j) for i in (1, 2) for j in range(1, 4 - i)]) / 4
    np.testing.assert_allclose(arrows.XY, distributions @ CORNERS)
    # Where all that is gained goes to the first outcome, the others keep their odds: straight to its corner.
    directions = np.stack([arrows.U, arrows.V], axis=1)
    towards = CORNERS[0] - distributions @ CORNERS
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 0.62 / 4)
    np.testing.assert_allclose(directions / (0.62 / 4), towards / np.linalg.norm(towards, axis=1, keepdims=True))


def test_the_data_are_distributions_and_velocities():
    shown = portrait((1.0, 1.0, 0.5))
    data = drawn_portraits.draw([shown], 8).rows
    assert {row["objective"] for row in data} == {"grpo"}
    assert {(row["r1"], row["r2"], row["r3"]) for row in data} == {shown.rewards}

    def distributions(measure, columns=("p1", "p2", "p3")):
        return np.array([[row[column] for column in columns] for row in data if row["measure"] == measure])

    np.testing.assert_array_equal(distributions("field"), shown.policies)
    np.testing.assert_array_equal(distributions("field", ("dp_dt_1", "dp_dt_2", "dp_dt_3")), shown.velocity)
    np.testing.assert_array_equal(distributions("path"), shown.paths[0])
    np.testing.assert_array_equal(distributions("rest"), [CORNER.probs])
    np.testing.assert_array_equal(distributions("resting_edge"), [[0.5, 0.5, 0.0]])


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="nothing to draw"):
        drawn_portraits.draw([], 8)
