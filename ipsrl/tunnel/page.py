"""The page of the wind tunnel: its controls, and what a change of one computes."""

from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update, set_props

from ipsrl import objectives
from ipsrl.figures import interactive_portraits as figures
from ipsrl.figures import table
from ipsrl.tunnel.pictures import TIME, Controls, picture, verdict_of, with_rest_points

NUMBERS = {"group_size": "group size ", "steps": " steps on a batch ", "step_size": " of size "}
FIELDS = ("objective", *NUMBERS)
SLIDERS = [f"{what}{number}" for what in ("reward", "start") for number in (1, 2, 3)]
LEAST = 0.001
"""Of the sliders of the start."""
SETTLE = """function(state) {
    clearTimeout(window.settling);
    window.settling = setTimeout(() => dash_clientside.set_props("settled", {data: state}), 400);
    return dash_clientside.no_update;
}"""
"""While a slider is dragged, nothing slow is asked for."""
COLUMN = {"flex": "1 1 420px", "minWidth": "380px"}
PROBLEM = {"color": "#B00020", "minHeight": "1.4em"}


def make() -> Dash:
    """The page, with nothing from another host."""
    app = Dash("ipsrl.tunnel", title="ipsrl: wind tunnel", update_title="", serve_locally=True, on_error=_report)
    app.layout = _layout()
    shown = [Output(name, "value") for name in (*FIELDS, *SLIDERS)]
    values = [Input(name, "value") for name in (*FIELDS, *SLIDERS)]
    triangle = Output("triangle", "figure", allow_duplicate=True)

    @app.callback(*shown, Output("link_problem", "children"), Input("url", "search"), Input("triangle", "clickData"))
    def set_controls(search: str | None, clicked: dict[str, Any] | None) -> list[Any]:
        if ctx.triggered_id == "triangle":
            start = [max(chance, LEAST) for chance in clicked["points"][0]["customdata"]]
            return [no_update] * 7 + start + [no_update]
        try:
            controls, problem = Controls.of(search or ""), ""
        except ValueError as error:
            controls, problem = Controls(), str(error)
        return [*(getattr(controls, name) for name in FIELDS), *controls.rewards, *controls.start, problem]

    drawn = [Output("triangle", "figure"), Output("curves", "figure"), Output("problem", "children")]

    @app.callback(*drawn, Output("link", "href"), Output("state", "data"), *values)
    def draw(*values: Any) -> list[Any]:
        controls = controls_of(*values)
        found = picture(controls)
        lines = figures.curves(found.portrait, found.times, found.exponents, TIME)
        return [figures.triangle(found.portrait), lines, "", controls.query, controls.query]

    app.clientside_callback(SETTLE, Output("state", "id"), Input("state", "data"), prevent_initial_call=True)

    @app.callback(triangle, Output("complete", "data"), Input("settled", "data"), prevent_initial_call=True)
    def add_rest_points(state: str) -> tuple[dict[str, Any], str]:
        return figures.triangle(with_rest_points(Controls.of(state)).portrait), state

    @app.callback(Output("verdict", "children"), Input("complete", "data"), prevent_initial_call=True)
    def judge(state: str) -> list[Any]:
        controls = Controls.of(state)
        word, meaning, evidence = verdict_of(controls)
        return [f"{controls.objective}: ", html.B(word, id="word"), f", {meaning}. Evidence: {evidence}."]

    @app.callback(
        Output("download", "data"), Input("save", "n_clicks"), State("state", "data"), prevent_initial_call=True
    )
    def save(_: int, state: str) -> dict[str, Any]:
        rows = list(with_rest_points(Controls.of(state)).rows())
        return {"content": table.as_csv(rows), "filename": "wind_tunnel.csv"}

    return app


def controls_of(
    objective: str | None, group_size: int | None, steps: int | None, step_size: float | None, *sliders: float
) -> Controls:
    """The state by the values of the controls: a number that is missing is None, the start need not add up to 1.

    Raises:
      ValueError: one is out of its range.
    """
    start = (value / sum(sliders[3:]) for value in sliders[3:])
    rewards, start = (tuple(round(float(value), 9) for value in part) for part in (sliders[:3], start))
    size = step_size if step_size is None else float(step_size)
    return Controls(objective or "", rewards, group_size, steps, size, start)


def _report(error: Exception) -> None:
    """Shows what is wrong, and keeps what is drawn."""
    if not isinstance(error, ValueError):
        raise error
    set_props("problem", {"children": str(error)})


def _layout() -> html.Div:
    wide = {"width": "95%", "fontFamily": "monospace"}
    number = {"type": "number", "debounce": True, "style": {"width": "5em"}}
    inputs = [part for name, label in NUMBERS.items() for part in (label, dcc.Input(id=name, **number))]
    controls = [
        html.H3("What does this objective do?"), dcc.Input(id="objective", list="names", debounce=True, style=wide),
        html.Datalist([html.Option(value=name) for name in objectives.names()], id="names"),
        html.P(inputs),
        *(part for name in SLIDERS for part in (html.Label(f"{name[:-1]} {name[-1]}"), _slider(name))),
        html.P([html.A("link to this state", id="link"), " ", html.Button("save numbers (CSV)", id="save")]),
        *(dcc.Store(id=name) for name in ("state", "settled", "complete")), dcc.Location(id="url", refresh=False),
        dcc.Download(id="download"),
    ]  # fmt: skip
    png = {"format": "png", "scale": 3, "filename": "wind_tunnel"}
    graph = {"figure": figures.EMPTY, "config": {"displaylogo": False, "toImageButtonOptions": png}}
    judged = [
        *(html.P(id=name, style=PROBLEM) for name in ("link_problem", "problem")),
        html.P(id="verdict", style={"minHeight": "4em"}), dcc.Graph(id="triangle", **graph),
    ]  # fmt: skip
    columns = [html.Div(column, style=COLUMN) for column in (controls, judged, dcc.Graph(id="curves", **graph))]
    look = {"display": "flex", "flexWrap": "wrap", "gap": "1em", "fontFamily": "sans-serif", "margin": "1em"}
    return html.Div(columns, style=look)


def _slider(name: str) -> dcc.Slider:
    low = 0.0 if name.startswith("reward") else LEAST
    return dcc.Slider(low, 1, 0.001, id=name, marks=None, updatemode="drag", tooltip={"placement": "left"})
