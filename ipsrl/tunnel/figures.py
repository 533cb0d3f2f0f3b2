"""The two figures of the page, as plain dicts in the form that Plotly reads."""

from typing import Any

import numpy as np

from ipsrl.dynamics.portraits import Portrait
from ipsrl.figures.phase_portraits import CORNERS
from ipsrl.tunnel.pictures import TIME, Picture

Trace = dict[str, Any]

OUTCOMES = ("#0072B2", "#009E73", "#CC79A7")
KINDS = {"attracts": "circle", "saddle": "circle-dot", "repels": "circle-open", "neutral": "diamond-open"}
FIRST_SHOWN = 1e-2
"""Start of the axis of time, which is logarithmic."""
MOVING = 0.03
"""Size of an exponent from which it is written."""
EMPTY = {"layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}, "plot_bgcolor": "white"}}


def triangle(picture: Picture) -> dict[str, Any]:
    """The flow on the triangle of policies: arrows by direction, their colour by speed, and the path from the start."""
    portrait = picture.portrait
    path = portrait.paths[0] @ CORNERS
    ends = "" if portrait.finished[0] else ", until the field jumps"
    proportional = np.array([portrait.rewards]) / sum(portrait.rewards)
    star = {"symbol": "star", "size": 12, "color": "#F0E442", "line": {"color": "black", "width": 1}}
    marks = [
        _arrows(portrait),
        *_edges(portrait),
        _line(path, f"expected training from the start{ends}", {"color": "#D55E00", "width": 3}),
        _points(portrait.paths[0][:1], "start", {"size": 11, "color": "#D55E00"}),
        *(
            _points(
                np.array([point.probs for point in portrait.isolated if point.kind == kind]).reshape(-1, 3),
                f"rest point: {kind}", {"symbol": symbol, "size": 13, "color": "black", "line": {"width": 2}},
            )
            for kind, symbol in KINDS.items()
        ),
        _points(proportional, "reward-proportional policy", star),
    ]  # fmt: skip
    corners = [
        {
            "x": x, "y": y, "text": f"<b>{number}</b>, reward {reward:g}", "showarrow": False,
            "yshift": 14 if number == 3 else -14, "font": {"color": OUTCOMES[number - 1]},
        }
        for number, (x, y), reward in zip((1, 2, 3), CORNERS.tolist(), portrait.rewards, strict=True)
    ]  # fmt: skip
    layout = {
        "xaxis": {"visible": False, "range": [-0.12, 1.12], "fixedrange": True},
        "yaxis": {"visible": False, "range": [-0.09, 0.96], "scaleanchor": "x", "fixedrange": True},
        "annotations": corners, "margin": {"l": 5, "r": 5, "t": 5, "b": 5}, "hovermode": "closest",
        "legend": {"orientation": "h", "y": 0, "yanchor": "top"}, "plot_bgcolor": "white",
    }  # fmt: skip
    return {"data": marks, "layout": layout}


def curves(picture: Picture) -> dict[str, Any]:
    """The three probabilities over the logarithm of time, t = updates x step size, from the start."""
    path, times = picture.portrait.paths[0], picture.times
    # What rests before the end stays where it is.
    if picture.portrait.finished[0] and times[-1] < TIME:
        path, times = np.concatenate([path, path[-1:]]), np.append(times, TIME)
    lines = []
    for outcome, colour in enumerate(OUTCOMES):
        exponent = float(picture.exponents[outcome])
        power = f", as t^{exponent:.2g}" if abs(exponent) > MOVING else ""
        name = f"p{outcome + 1} → {path[-1, outcome]:.2g}{power}"
        points = np.stack([times, path[:, outcome]], axis=1)[times >= FIRST_SHOWN / 2]
        lines.append(_line(points, name, {"color": colour, "width": 3}) | {"hoverinfo": "x+y"})
    axes = {
        "xaxis": {
            "type": "log", "range": np.log10([FIRST_SHOWN, TIME]).tolist(), "exponentformat": "power", "dtick": 1,
            "title": {"text": "t = updates × step size"},
        },
        "yaxis": {"range": [-0.02, 1.02], "title": {"text": "probability"}},
    }  # fmt: skip
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
    return {"data": lines, "layout": axes | {"margin": {"l": 55, "r": 15, "t": 15, "b": 45}, "legend": legend}}


def _arrows(portrait: Portrait) -> Trace:
    shown = (portrait.policies > 0).all(axis=1) & portrait.moves
    policies, (x, y) = portrait.policies[shown], (portrait.velocity[shown] @ CORNERS).T
    speed = np.log10(portrait.speed[shown])
    top = float(speed.max()) if len(speed) else 0.0
    ticks = [top - 3, top - 2, top - 1, top]
    scale = {
        "title": {"text": "speed |dp/dt|", "side": "right"}, "tickvals": ticks, "len": 0.6, "thickness": 10,
        "ticktext": [f"{10**tick:.1g}" for tick in ticks], "y": 1, "yanchor": "top",
    }  # fmt: skip
    look = {
        "symbol": "arrow", "size": 11, "angle": np.degrees(np.arctan2(x, y)).tolist(), "color": speed.tolist(),
        "colorscale": "Blues", "cmin": top - 4, "cmax": top, "colorbar": scale,
    }  # fmt: skip
    return _points(policies, "expected update; click on an arrow to start there", look)


def _edges(portrait: Portrait) -> list[Trace]:
    """The border, the triangle filled if all policies rest; edges on which every policy rests are wide and grey."""
    every = portrait.rests_everywhere
    border = _line(CORNERS[[0, 1, 2, 0]], "every policy rests" if every else "", {"color": "#555555", "width": 1})
    resting = [] if every else portrait.resting_edges
    gap = [[np.nan, np.nan]]
    joined = np.vstack([np.empty((0, 2)), *(np.vstack([CORNERS[list(edge)], gap]) for edge in resting)])
    fill = {"fill": "toself", "fillcolor": "#DDDDDD"} if every else {}
    return [border | fill, _line(joined, "every policy of the edge rests", {"color": "#777777", "width": 7})]


def _points(policies: np.ndarray, name: str, look: Trace) -> Trace:
    texts = [" : ".join(f"{p:.3g}" for p in probs) for probs in policies]
    x, y = (policies @ CORNERS).T.tolist()
    return {
        "type": "scatter", "mode": "markers", "x": x, "y": y, "name": name, "marker": look, "hoverinfo": "text",
        "showlegend": len(policies) > 0, "text": texts, "customdata": policies.tolist(),
    }  # fmt: skip


def _line(points: np.ndarray, name: str, look: Trace) -> Trace:
    x, y = np.where(np.isnan(points), None, points).T.tolist()
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "line": look, "hoverinfo": "skip",
        "showlegend": bool(name) and len(points) > 0,
    }  # fmt: skip
