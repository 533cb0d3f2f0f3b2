"""Content of the page of the wind tunnel: states, flows, verdicts and drawings, without a browser."""

import csv
import dataclasses
import io
import json

import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics import field as fields
from ipsrl.dynamics.expected_update import Steps, expected_update
from ipsrl.dynamics.field import Field, follow
from ipsrl.dynamics.rest_points import rest_points
from ipsrl.dynamics.verdict import verdict
from ipsrl.figures import interactive_portraits as figures
from ipsrl.figures import table
from ipsrl.figures.phase_portraits import CORNERS
from ipsrl.tunnel import pictures
from ipsrl.tunnel.pictures import TIME, Controls, picture, verdict_of, with_rest_points

GRPO = Controls("grpo", (1.0, 1.0, 0.5), group_size=4)


def test_a_link_names_a_state():
    state = Controls("ips_grpo(alpha=0.5, floor=0.2)", (0.25, 1.0, 0.0), 5, 3, 0.125, (0.1, 0.2, 0.7))
    assert Controls.of(state.query) == state
    assert " " not in state.query
    assert Controls.of("") == Controls()
    assert Controls.of("?rewards=1,1,0.5&objective=grpo&group_size=4") == GRPO


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?objectve=grpo", "the link names 'objectve': known: objective, rewards,"),
        ("?rewards=1,x,0", "rewards is '1,x,0', it must be numbers between commas"),
        ("?rewards=1,1", "it must be three numbers from 0 to 1, not all 0"),
        ("?rewards=0,0,0", "it must be three numbers from 0 to 1, not all 0"),
        ("?start=0.5,0.5,0", "it must be three positive probabilities whose sum is 1"),
        ("?steps=", "steps is '', it must be a whole number"),
    ],
)
def test_a_wrong_link_is_refused_in_one_sentence(query, message):
    with pytest.raises(ValueError, match=r"^.+$") as error:
        Controls.of(query)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("objective", "message"),
    [("", "cannot read ''"), ("progrpo", "the objective needs prompt_log_probs")],
)
def test_an_objective_without_a_picture_is_refused_in_one_sentence(objective, message):
    with pytest.raises(ValueError, match=f"^{message}.*$"):
        picture(Controls(objective))


def test_a_picture_has_the_field_the_path_and_the_rest_points():
    found = with_rest_points(GRPO)
    field = Field(objectives.make("grpo"), GRPO.rewards, 4)
    policies, velocity = found.portrait.policies, found.portrait.velocity
    inside = np.flatnonzero((policies > 0).all(axis=1))[::60]
    for p, dp_dt in zip(policies[inside], velocity[inside], strict=True):
        update = np.asarray(expected_update(field.objective, np.log(p), np.array(GRPO.rewards), 4))
        np.testing.assert_allclose(dp_dt, p * (update - p @ update), atol=1e-6)
    flow = follow(field, [GRPO.start])
    np.testing.assert_allclose(found.portrait.paths[0][-1], flow.distributions[-1, 0], rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(found.exponents, flow.exponents[0], atol=1e-3)
    expected = rest_points(field)
    assert [point.kind for point in found.portrait.rest_points] == [point.kind for point in expected]


def test_several_steps_are_on_each_batch():
    found = picture(dataclasses.replace(GRPO, objective="grpo(clip=0.01)", steps=3, step_size=0.25))
    policy = np.array([7, 6, 5]) / 18
    (place,) = np.flatnonzero(np.abs(found.portrait.policies - policy).max(axis=1) < 1e-9)
    objective, steps = objectives.make("grpo(clip=0.01)"), Steps(3, 0.25)
    update = np.asarray(expected_update(objective, np.log(policy), np.array(GRPO.rewards), 4, steps=steps))
    np.testing.assert_allclose(found.portrait.velocity[place], policy * (update - policy @ update), atol=1e-6)
    assert np.abs(found.portrait.velocity - picture(GRPO).portrait.velocity).max() > 1e-3


def test_to_drag_the_rewards_or_the_start_compiles_nothing():
    of = picture(GRPO).field
    program = fields._program(fields.Batch(of.objective, of.group_size, of.off_policy, of.steps, of.environment))
    programs = program._cache_size()
    picture(dataclasses.replace(GRPO, rewards=(1.0, 0.7, 0.2)))
    picture(dataclasses.replace(GRPO, rewards=(0.0, 0.7, 1.0), start=(0.2, 0.2, 0.6), step_size=0.25))
    assert program._cache_size() == programs


def test_published_verdicts_are_looked_up_and_others_found(monkeypatch, tmp_path):
    rows = [{"objective": "grpo", "word": "other", "evidence": "looked up"}]
    (tmp_path / "verdicts.json").write_text(json.dumps({"group_size": 4, "verdicts": rows}))
    monkeypatch.setattr(pictures, "PUBLISHED", tmp_path / "verdicts.json")
    pictures._verdict.cache_clear()
    assert verdict_of(GRPO) == ("other", "none of these", "looked up")
    found = verdict(objectives.make("reinforce"), 4)
    word, meaning, evidence = verdict_of(dataclasses.replace(GRPO, objective="reinforce"))
    assert (word, evidence) == (found.word, found.evidence) == ("collapses", found.evidence)
    assert meaning == "of two equally good outcomes, one is lost"
    pictures._verdict.cache_clear()


def test_the_drawings_show_the_numbers():
    found = with_rest_points(GRPO)
    drawn = figures.triangle(found.portrait)
    json.dumps(drawn, allow_nan=False)
    traces = {trace["name"]: trace for trace in drawn["data"]}
    arrows = next(trace for name, trace in traces.items() if name.startswith("expected update"))
    turned = np.radians(arrows["marker"]["angle"])
    policies = np.array(arrows["customdata"])
    np.testing.assert_allclose(policies @ CORNERS, np.stack([arrows["x"], arrows["y"]], axis=1))
    lattice = {tuple(p): dp_dt for p, dp_dt in zip(found.portrait.policies, found.portrait.velocity, strict=True)}
    directions = np.array([lattice[tuple(policy)] for policy in policies]) @ CORNERS
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # Plotly turns arrows clockwise, from upwards.
    np.testing.assert_allclose(np.stack([np.sin(turned), np.cos(turned)], axis=1), directions, atol=1e-9)
    # Between two equally good outcomes every policy rests; the third is left.
    edge = traces["every policy of the edge rests"]
    assert edge["showlegend"]
    assert edge["x"][:2] == CORNERS[:2, 0].tolist()
    assert traces["rest point: repels"]["customdata"] == [[0.0, 0.0, 1.0]]
    lines = figures.curves(found.portrait, found.times, found.exponents, TIME)["data"]
    assert lines[2]["name"].endswith(", as t^-1")
    assert np.sum([line["y"] for line in lines], axis=0) == pytest.approx(1)


def test_where_nothing_moves_the_triangle_is_filled_and_the_curves_are_level():
    still = with_rest_points(Controls("grpo", (1.0, 1.0, 1.0), group_size=4))
    filled = next(t for t in figures.triangle(still.portrait)["data"] if t["name"] == "every policy rests")
    assert filled["fill"] == "toself"
    for line, chance in zip(
        figures.curves(still.portrait, still.times, still.exponents, TIME)["data"], (0.5, 0.3, 0.2), strict=True
    ):
        assert line["x"][-1] == TIME
        assert line["y"] == pytest.approx([chance] * len(line["y"]))


def test_the_numbers_are_saved_with_their_times():
    found = with_rest_points(GRPO)
    rows = list(csv.DictReader(io.StringIO(table.as_csv(list(found.rows())))))
    path = [row for row in rows if row["measure"] == "path"]
    assert [float(row["time"]) for row in path] == found.times.tolist()
    assert float(path[-1]["p3"]) == found.portrait.paths[0][-1, 2]
    assert len([row for row in rows if row["measure"] == "field"]) == 190
