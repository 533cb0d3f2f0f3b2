"""The page of the wind tunnel: its controls, and what a change of one computes."""

from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update

from ipsrl import objectives
from ipsrl.figures import table
from ipsrl.tunnel import figures
from ipsrl.tunnel.pictures import LARGEST_GROUP, MOST_STEPS, Controls, picture, verdict_of, with_rest_points

SLIDERS = [f"{what}{number}" for what in ("reward", "start") for number in (1, 2, 3)]
FIELDS = ["objective", "group_size", "steps", "step_size"]
SETTLED_MS = 400
SETTLE = f"""function(state) {{
    clearTimeout(window.settling);
    window.settling = setTimeout(() => dash_clientside.set_props("settled", {{data: state}}), {SETTLED_MS});
    return dash_clientside.no_update;
}}"""
"""While a slider is dragged, nothing slow is asked for."""
COLUMN = {"flex": "1 1 420px", "minWidth": "380px"}
PROBLEM = {"color": "#B00020", "minHeight": "1.4em"}


def make() -> Dash:
    """The page, with nothing from another host."""
    app = Dash("ipsrl.tunnel", title="ipsrl: wind tunnel", update_title="", serve_locally=True)
    app.layout = _layout()
    shown = [Output("objective", "value"), *(Output(name, "value") for name in (*FIELDS[1:], *SLIDERS))]
    values = [Input(name, "value") for name in (*FIELDS, *SLIDERS)]

    @app.callback(*shown, Output("link_problem", "children"), Input("url", "search"), Input("triangle", "clickData"))
    def set_controls(search: str, clicked: dict[str, Any] | None) -> list[Any]:
        if ctx.triggered_id == "triangle":
            return [no_update] * 7 + clicked["points"][0]["customdata"] + [no_update]
        try:
            controls, problem = Controls.of(search or ""), ""
        except ValueError as error:
            controls, problem = Controls(), str(error)
        return [*(getattr(controls, name) for name in FIELDS), *controls.rewards, *controls.start, problem]

    @app.callback(
        Output("triangle", "figure"), Output("curves", "figure"), Output("problem", "children"),
        Output("link", "href"), Output("state", "data"), *values,
    )  # fmt: skip
    def draw(*values: Any) -> list[Any]:
        try:
            controls = controls_of(*values)
            drawn = picture(controls)
        except ValueError as error:
            return [no_update, no_update, str(error), no_update, no_update]
        return [figures.triangle(drawn), figures.curves(drawn), "", controls.query, controls.query]

    app.clientside_callback(SETTLE, Output("state", "id"), Input("state", "data"), prevent_initial_call=True)

    @app.callback(
        Output("triangle", "figure", allow_duplicate=True), Output("complete", "data"),
        Input("settled", "data"), prevent_initial_call=True,
    )  # fmt: skip
    def add_rest_points(state: str) -> tuple[dict[str, Any], str]:
        return figures.triangle(with_rest_points(Controls.of(state))), state

    @app.callback(Output("verdict", "children"), Input("complete", "data"), prevent_initial_call=True)
    def judge(state: str) -> list[Any]:
        word, meaning, evidence = verdict_of(Controls.of(state))
        return [html.B(word, id="word"), f": {meaning}. Evidence: {evidence}."]

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
    """The state by the values of the controls: a number that is not finished is None, the start need not add up to 1.

    Raises:
      ValueError: one is out of its range.
    """
    start = (value / sum(sliders[3:]) for value in sliders[3:])
    rewards, start = (tuple(round(float(value), 9) for value in part) for part in (sliders[:3], start))
    size = step_size if step_size is None else float(step_size)
    return Controls(objective or "", rewards, group_size, steps, size, start)


def _layout() -> html.Div:
    names = [html.Option(value=name) for name in objectives.names()]
    number = {"type": "number", "debounce": True, "style": {"width": "5em", "marginRight": "1em"}}
    controls = [
        dcc.Input(id="objective", list="names", debounce=True, style={"width": "95%", "fontFamily": "monospace"}),
        html.Datalist(names, id="names"),
        html.P(
            [
                "group size ", dcc.Input(id="group_size", min=1, max=LARGEST_GROUP, **number),
                "steps on a batch ", dcc.Input(id="steps", min=1, max=MOST_STEPS, **number),
                "of size ", dcc.Input(id="step_size", step="any", **number),
            ]
        ),
        *(part for name in SLIDERS for part in (html.Label(f"{name[:-1]} {name[-1]}"), _slider(name))),
        html.P([html.A("link to this state", id="link"), " ", html.Button("save numbers (CSV)", id="save")]),
    ]  # fmt: skip
    png = {"format": "png", "scale": 3, "filename": "wind_tunnel"}
    graph = {"figure": figures.EMPTY, "config": {"displaylogo": False, "toImageButtonOptions": png}}
    return html.Div(
        [
            dcc.Location(id="url", refresh=False), *(dcc.Store(id=name) for name in ("state", "settled", "complete")),
            dcc.Download(id="download"),
            html.Div([html.H3("What does this objective do?"), *controls], style=COLUMN),
            html.Div(
                [
                    html.P(id="link_problem", style=PROBLEM), html.P(id="problem", style=PROBLEM),
                    html.P(id="verdict", style={"minHeight": "3em"}), dcc.Graph(id="triangle", **graph),
                ],
                style=COLUMN,
            ),
            html.Div(dcc.Graph(id="curves", **graph), style=COLUMN),
        ],
        style={"display": "flex", "flexWrap": "wrap", "gap": "1em", "fontFamily": "sans-serif", "margin": "1em"},
    )  # fmt: skip


def _slider(name: str) -> dcc.Slider:
    low = 0.0 if name.startswith("reward") else 0.001
    return dcc.Slider(low, 1, 0.001, id=name, marks=None, updatemode="drag", tooltip={"placement": "left"})
