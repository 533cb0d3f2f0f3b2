"""What policies have learned: how far from the target, and the probability of each product over its target."""

import numpy as np
from matplotlib.figure import Figure

from experiments.molecules_enumerated.reaction_products import SGD
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.figures import style, table
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel
from ipsrl.records.line_styles import line_styles
from ipsrl.records.tidy import Records
from ipsrl.study.settings import EnsembleSettings


def draw(records: Records, reactions: Reactions, settings: EnsembleSettings) -> style.Drawing:
    """Total variations over training by SGD, and the products' probabilities at its end for the first seed.

    On the grey lines these are the target's; probabilities below a tenth of the least target lie on the edge.
    """
    records = records.where(training=SGD)
    target, routes = reactions.outcome_space(0).target, reactions.route_counts()
    least, ends = target.min() / 10, [target.min(), target.max()]
    names, line = records.distinct("objective"), Line("total_variation")
    panel = Panel([line], xlabel="updates", ylabel="total variation", yscale="log")
    rows = line.rows(records)
    with style.looks():
        figure = Figure(figsize=(14, 5.4))
        left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.3))
        panel.draw(left.subplots(), records, line_styles(names), settings)
        grid = right.subplots(2, -(-len(names) // 2), sharex=True, sharey=True, squeeze=False)
        for axes, name in zip(grid.flat, names, strict=False):
            probs = records.array("probs", objective=name, training=SGD)
            axes.plot(ends, ends, color="0.45", linewidth=1, zorder=0)
            points = axes.scatter(target, np.maximum(probs, least), 12, routes, cmap="cividis")
            axes.set(xscale="log", yscale="log", ylim=(least / 1.2, 1.5))
            axes.set_title(name.replace("(", "\n(", 1), fontsize=8)
            places = {"outcome": reactions.outcome_names(), "routes": routes, "target": target}
            rows += table.curve({"measure": "probability", "objective": name}, probs, **places)
        for axes in grid.flat[len(names) :]:
            axes.remove()
        right.colorbar(points, ax=grid, label="routes")
        right.supxlabel("target probability", fontsize=9)
        right.supylabel("probability", fontsize=9)
    return style.Drawing(figure, rows)
