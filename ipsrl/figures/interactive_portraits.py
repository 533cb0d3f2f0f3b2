"""A phase portrait for a page, as plain dicts in the form that Plotly reads."""

from typing import Any

import numpy as np

from ipsrl.dynamics.portraits import Portrait
from ipsrl.figures.phase_portraits import CORNERS

Trace = dict[str, Any]
OUTCOMES = ("#0072B2", "#009E73", "#CC79A7")
KINDS = {"attracts": "circle", "saddle": "circle-x-open", "repels": "circle-open", "neutral": "diamond-open"}
PATH, SPEEDS = "#D55E00", [[0, "#C6D7EA"], [1, "#08306B"]]
FIRST_SHOWN = 1e-2
"""Start of the axis of time, which is logarithmic."""
MOVING = 0.03
"""Size of an exponent from which it is written."""
HIDDEN = {"visible": False, "fixedrange": True}
EMPTY = {"layout": {"xaxis": HIDDEN, "yaxis": HIDDEN, "plot_bgcolor": "white"}}


def triangle(portrait: Portrait) -> dict[str, Any]:
    """The flow on the triangle of policies: arrows by direction, their colour by speed, and the first path."""
    jumps = "" if portrait.finished[0] else ", until the field jumps"
    path = f"expected training from the start{jumps}"
    marks = [
        _arrows(portrait),
        *_edges(portrait),
        _line(portrait.paths[0] @ CORNERS, path, {"color": PATH, "width": 3}),
        _points(portrait.paths[0][:1], "start", {"color": PATH, "size": 11}),
    ]
    for kind, symbol in KINDS.items():
        points = np.array([point.probs for point in portrait.isolated if point.kind == kind]).reshape(-1, 3)
        marks.append(_points(points, f"rest point: {kind}", {"symbol": symbol, "size": 13, "color": "black"}))
    star = {"symbol": "star", "size": 11, "color": "#F0E442", "line": {"color": "black", "width": 1}}
    marks.append(_points(np.array([portrait.rewards]) / sum(portrait.rewards), "reward-proportional policy", star))
    corners = [
        {
            "x": x,
            "y": y,
            "text": f"<b>{number}</b>, reward {reward:g}",
            "showarrow": False,
            "yshift": 15 if number == 3 else -15,
            "font": {"color": OUTCOMES[number - 1]},
        }
        for number, (x, y), reward in zip((1, 2, 3), CORNERS.tolist(), portrait.rewards, strict=True)
    ]
    layout = {
        "xaxis": HIDDEN | {"range": [-0.12, 1.12]},
        "yaxis": HIDDEN | {"range": [-0.09, 0.96], "scaleanchor": "x"},
        "annotations": corners,
        "margin": dict.fromkeys("lrtb", 5),
        "plot_bgcolor": "white",
        "legend": {"orientation": "h", "y": -0.02, "yanchor": "top"},
        "hovermode": "closest",
    }
    return {"data": marks, "layout": layout}


def curves(portrait: Portrait, times: np.ndarray, exponents: np.ndarray, until: float) -> dict[str, Any]:
    """The three probabilities along the first path over the logarithm of time, t = updates x step size.

    Args:
      portrait: has the path, `[T, 3]`.
      times: `[T]`, of its points.
      exponents: `[3]`, the powers of time by which the probabilities change at its end.
      until: end of the axis.
    """
    path = portrait.paths[0]
    # What rests before the end stays where it is.
    if portrait.finished[0] and times[-1] < until:
        path, times = np.concatenate([path, path[-1:]]), np.append(times, until)
    lines = []
    for outcome, colour in enumerate(OUTCOMES):
        exponent = float(exponents[outcome])
        power = f", as t^{exponent:.2g}" if abs(exponent) > MOVING else ""
        points = np.stack([times, path[:, outcome]], axis=1)[times >= FIRST_SHOWN / 2]
        name = f"p{outcome + 1} → {path[-1, outcome]:.2g}{power}"
        lines.append(_line(points, name, {"color": colour, "width": 3}) | {"hoverinfo": "x+y"})
    span, title = np.log10([FIRST_SHOWN, until]).tolist(), {"text": "t = updates × step size"}
    layout = {
        "xaxis": {"type": "log", "range": span, "exponentformat": "power", "dtick": 1, "title": title},
        "yaxis": {"range": [-0.02, 1.02], "title": {"text": "probability"}},
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom"},
        "margin": {"l": 55, "r": 15, "t": 55, "b": 45},
    }
    return {"data": lines, "layout": layout}


def _arrows(portrait: Portrait) -> Trace:
    shown = (portrait.policies > 0).all(axis=1) & portrait.moves
    speed, (x, y) = np.log10(portrait.speed[shown]), (portrait.velocity[shown] @ CORNERS).T
    top = float(speed.max(initial=-300.0))
    look = {
        "symbol": "arrow",
        "size": 11,
        "angle": np.degrees(np.arctan2(x, y)).tolist(),
        "color": speed.tolist(),
        "colorscale": SPEEDS,
        "cmin": top - 4,
        "cmax": top,
    }
    text = "expected update, darker if faster, to a 10,000th; click on an arrow to start there"
    return _points(portrait.policies[shown], text, look)


def _edges(portrait: Portrait) -> list[Trace]:
    """The border, the triangle filled if all policies rest; edges on which every policy rests are wide and grey."""
    every = portrait.rests_everywhere
    border = _line(CORNERS[[0, 1, 2, 0]], "every policy rests" if every else "", {"color": "#555555", "width": 1})
    edges = [] if every else [np.vstack([CORNERS[list(edge)], [[np.nan] * 2]]) for edge in portrait.resting_edges]
    joined = np.vstack([np.empty((0, 2)), *edges])
    fill = {"fill": "toself", "fillcolor": "#DDDDDD"} if every else {}
    return [border | fill, _line(joined, "every policy of the edge rests", {"color": "#777777", "width": 7})]


def _points(policies: np.ndarray, name: str, look: Trace) -> Trace:
    texts = [" : ".join(f"{p:.3g}" for p in probs) for probs in policies]
    markers = {"mode": "markers", "marker": look, "hoverinfo": "text", "text": texts, "customdata": policies.tolist()}
    return _line(policies @ CORNERS, name, {}) | markers


def _line(points: np.ndarray, name: str, look: Trace) -> Trace:
    x, y = np.where(np.isnan(points), np.array(None), points).T.tolist()
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": name,
        "line": look,
        "hoverinfo": "skip",
        "showlegend": bool(name) and len(points) > 0,
    }
