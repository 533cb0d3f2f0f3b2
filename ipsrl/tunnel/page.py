"""The page of the wind tunnel: its controls, and what a change of one computes."""

from typing import Any

from ipsrl import extras, objectives
from ipsrl.figures import interactive_portraits as figures
from ipsrl.figures import table
from ipsrl.tunnel.pictures import TIME, Controls, picture, verdict_of, with_rest_points

try:
    from dash import Dash, Input, Output, State, ctx, dcc, html, no_update, set_props
except ImportError:
    extras.require("dash")
    raise

NUMBERS = {"group_size": "group size ", "steps": " steps on a batch ", "step_size": " of size "}
FIELDS = ("objective", *NUMBERS)
SLIDERS = [f"{what}{number}" for what in ("reward", "start") for number in (1, 2, 3)]
LEAST = 0.001
"""Smallest value of the sliders of the start."""
ASK = """function(busy, ...values) {
    const now = JSON.stringify(values);
    if (busy || now === window.asked) return dash_clientside.no_update;
    window.asked = now;
    clearTimeout(window.settling);
    return values;
}"""
"""One picture after the other: a drag would queue dozens, of which all but the last come too late."""
SETTLE = """function(state) {
    window.settling = setTimeout(() => dash_clientside.set_props("settled", {data: state}), 400);
    return dash_clientside.no_update;
}"""
"""While a slider is dragged, nothing slow is asked for."""
COMPLETE = """function([state, figure], now) {
    return state === now ? [figure, state] : [dash_clientside.no_update, dash_clientside.no_update];
}"""
"""Rest points that come after the state has changed are not shown."""
STYLE = """<style>
    [data-dash-is-loading], :has(> #triangle[data-dash-is-loading]) > #verdict {opacity: 0.3; transition: 0.2s 0.5s}
    h3, p {margin: 0.6em 0}
</style></head>"""
"""Style that turns parts pale that take more than half a second to compute anew."""
COLUMN = {"flex": "1 1 420px", "minWidth": "380px"}


def make() -> Dash:
    """The page, with nothing from another host."""
    app = Dash("ipsrl.tunnel", title="ipsrl: wind tunnel", update_title="", serve_locally=True, on_error=_report)
    app.layout, app.index_string = _layout(), app.index_string.replace("</head>", STYLE)
    shown = [Output(name, "value") for name in (*FIELDS, *SLIDERS)]
    values = [Input(name, "value") for name in (*FIELDS, *SLIDERS)]
    complete = [Output("triangle", "figure", allow_duplicate=True), Output("complete", "data")]

    @app.callback(*shown, Output("link_problem", "children"), Input("url", "search"), Input("triangle", "clickData"))
    def set_controls(search: str | None, clicked: dict[str, Any] | None) -> list[Any]:
        if ctx.triggered_id == "triangle" and clicked is not None:
            start = [max(chance, LEAST) for chance in clicked["points"][0]["customdata"]]
            return [no_update] * 7 + start + [no_update]
        try:
            controls, problem = Controls.of(search or ""), ""
        except ValueError as error:
            controls, problem = Controls(), str(error)
        return [*(getattr(controls, name) for name in FIELDS), *controls.rewards, *controls.start, problem]

    app.clientside_callback(ASK, Output("asked", "data"), Input("busy", "data"), *values)
    figure, text = [Output("triangle", "figure"), Output("curves", "figure")], Output("problem", "children")
    named, running = [Output("link", "href"), Output("state", "data")], [(Output("busy", "data"), True, False)]

    @app.callback(*figure, text, *named, Input("asked", "data"), running=running)
    def draw(values: list[Any]) -> list[Any]:
        controls = controls_of(*values)
        found = picture(controls)
        lines = figures.curves(found.portrait, found.times, found.exponents, TIME)
        return [figures.triangle(found.portrait), lines, "", controls.query, controls.query]

    app.clientside_callback(SETTLE, Output("state", "id"), Input("state", "data"), prevent_initial_call=True)

    @app.callback(Output("rested", "data"), Input("settled", "data"), prevent_initial_call=True)
    def add_rest_points(state: str) -> list[Any]:
        return [state, figures.triangle(with_rest_points(Controls.of(state)).portrait)]

    rested = Input("rested", "data"), State("state", "data")
    app.clientside_callback(COMPLETE, *complete, *rested, prevent_initial_call=True)

    @app.callback(Output("verdict", "children"), Input("complete", "data"), prevent_initial_call=True)
    def judge(state: str) -> list[Any]:
        controls = Controls.of(state)
        word, meaning, evidence = verdict_of(controls)
        several = f", {controls.steps} steps of {controls.step_size:g} on a batch" if controls.steps > 1 else ""
        of = f"{controls.objective}, groups of {controls.group_size}{several}: "
        return [of, html.B(word, id="word"), f", {meaning}. Evidence: {evidence}."]

    @app.callback(
        Output("download", "data"), Input("save", "n_clicks"), State("state", "data"), prevent_initial_call=True
    )
    def save(_: int, state: str) -> dict[str, Any]:
        rows = list(with_rest_points(Controls.of(state)).rows())
        return {"content": table.as_csv(rows), "filename": "wind_tunnel.csv"}

    return app


def controls_of(*values: Any) -> Controls:
    """The state by the values of the controls, None where one is empty; the start need not add up to 1.

    Raises:
      ValueError: one is empty or out of its range.
    """
    for name, value in zip((*FIELDS, *SLIDERS), values, strict=True):
        if value is None:
            raise ValueError(f"{name} is empty, it must have a value")
    objective, group_size, steps, step_size, *sliders = values
    start = (value / sum(sliders[3:]) for value in sliders[3:])
    rewards, start = (tuple(round(float(value), 9) for value in part) for part in (sliders[:3], start))
    return Controls(objective, rewards, group_size, steps, float(step_size), start)


def _report(error: Exception) -> None:
    """Shows what is wrong, and keeps what is drawn."""
    if not isinstance(error, ValueError):
        raise error
    set_props("problem", {"children": str(error)})


def _layout() -> html.Div:
    wide, problem = {"width": "95%", "fontFamily": "monospace"}, {"color": "#B00020", "minHeight": "1.3em"}
    number: dict[str, Any] = {"type": "number", "debounce": True, "style": {"width": "5em"}}
    png = {"format": "png", "scale": 3, "filename": "wind_tunnel"}
    # By default Plotly has a button that uploads a figure.
    config = {"displaylogo": False, "showSendToCloud": False, "toImageButtonOptions": png}
    graph: dict[str, Any] = {"figure": figures.EMPTY, "config": config}
    what = "The verdict is on four fixed vectors of rewards and twelve starts, not those of the sliders."
    controls = [
        html.H3("What does this objective do?"),
        dcc.Input(id="objective", list="names", debounce=True, style=wide),
        html.Datalist([html.Option(value=name) for name in objectives.names()], id="names"),
        html.P([part for name, label in NUMBERS.items() for part in (label, dcc.Input(id=name, **number))]),
        html.P([html.Span(id="link_problem"), " ", html.Span(id="problem")], style=problem),
        *map(_slider, SLIDERS),
        html.P([html.A("link to this state", id="link"), " ", html.Button("save numbers (CSV)", id="save")]),
        dcc.Graph(id="curves", style={"height": 310}, **graph),
        *(dcc.Store(id=name) for name in ("busy", "asked", "state", "settled", "rested", "complete")),
        dcc.Location(id="url", refresh=False),
        dcc.Download(id="download"),
    ]
    triangle = dcc.Graph(id="triangle", style={"height": 600}, **graph)
    judged = [html.P(id="verdict", style={"minHeight": "3.6em"}), html.Small(what), triangle]
    look = {"display": "flex", "flexWrap": "wrap", "gap": "1em", "fontFamily": "sans-serif", "margin": "0 1em"}
    return html.Div([html.Div(column, style=COLUMN) for column in (controls, judged)], style=look)


def _slider(name: str) -> html.Div:
    what, low = ("reward ", 0.0) if name.startswith("reward") else ("start, share of ", LEAST)
    slider = dcc.Slider(low, 1, 0.001, id=name, marks=None, updatemode="drag", tooltip={"placement": "left"})
    label = html.Label(what + name[-1], style={"width": "9em"})
    return html.Div([label, html.Div(slider, style={"flex": 1})], style={"display": "flex", "alignItems": "center"})
