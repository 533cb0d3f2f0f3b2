"""Tables, figure and page of searches for molecules."""

from pathlib import Path

from experiments.molecules.flags import Settings
from ipsrl import extras
from ipsrl.environments.molecules.parsing import parsed, silent
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study.pages.tables import Table, one_below_the_other

SEARCHED = {
    "yield_80": "found at 0.80",
    "yield_85": "at 0.85",
    "burden_80": "OB100 at 0.80",
    "burden_85": "at 0.85",
    "diversity": "IntDiv1",
    "circles": "#Circles (0.75)",
    "evaluated": "evaluations",
    "strings": "strings",
    "repeats": "repeats in groups",
}
PRODUCED = {
    "mean_reward": "mean stand-in reward",
    "unique_valid": "unique valid",
    "scaffolds": "effective scaffolds",
    "top": "top-1 mass",
    "divergence": "KL to the prior",
}
SEARCH = {"part": "search"}
CELL = (260, 210)
"""Width and height of a drawn molecule, in pixels."""
TABLES = one_below_the_other(
    Table(title="the prior; distances to the split test of {data}", where={"part": "prior"}),
    Table(
        SEARCHED,
        "stand-in reward {reward}, {evaluations} evaluations, seeds {seeds} [95 % interval]",
        SEARCH,
        ("arm",),
    ),
    Table(PRODUCED, "{samples} strings of the last policy", SEARCH, ("arm",)),
)


def best_molecules(records: Records, settings: Settings, png: Path) -> list[Path]:
    """A page with the best molecules of the first seed, a row of drawings by RDKit for each arm."""
    extras.require("rdkit")
    from rdkit.Chem import Draw

    molecules, legends = [], []
    for arm in settings.arms:
        labels = {"part": "search", "arm": arm, "seed": settings.seeds[0]}
        rewards = records.array("best_rewards", **labels)
        with silent():
            molecules.append(list(map(parsed, records.array("best", **labels))))
        legends.append([f"{arm}, stand-in reward {reward:.3f}" for reward in rewards])
    if not any(molecules):
        return []
    page = png.with_name("best_molecules.png")
    Draw.MolsMatrixToGridImage(molecules, CELL, legends).save(page)
    return [page]


FIGURES = Panels(
    [
        Panel(
            [Line("yield_80", by="arm")],
            xlabel="evaluations (different valid molecules)",
            ylabel="found with stand-in reward of 0.80",
        ),
        Panel([Bars("circles", by="arm")], xlabel="#Circles (0.75) of these"),
        Panel([Bars("unique_valid", by="arm")], xlabel="unique valid share of {samples} strings"),
    ]
)
