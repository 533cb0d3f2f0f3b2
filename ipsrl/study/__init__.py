"""What all studies share: `from ipsrl import study` is the one import that a study needs beside what it studies.

A study is one module, described in `ipsrl.study.study`.
"""

from ipsrl.study.claims import (
    Claim,
    Number,
    above,
    all_of,
    among,
    at_each,
    below,
    difference,
    equal_within,
    final,
    share,
    share_above,
)
from ipsrl.study.command_line import main
from ipsrl.study.curves import Curve, Points, TrainingRun
from ipsrl.study.ensembles import trained
from ipsrl.study.settings import EnsembleSettings, Settings, better_and_worse, objectives, rising, seeds, selecting
from ipsrl.study.study import Output, Study, Variant
from ipsrl.study.tables import Grid, Table, one_below_the_other

__all__ = [
    "Claim",
    "Curve",
    "EnsembleSettings",
    "Grid",
    "Number",
    "Output",
    "Points",
    "Settings",
    "Study",
    "Table",
    "TrainingRun",
    "Variant",
    "above",
    "all_of",
    "among",
    "at_each",
    "below",
    "better_and_worse",
    "difference",
    "equal_within",
    "final",
    "main",
    "objectives",
    "one_below_the_other",
    "rising",
    "seeds",
    "selecting",
    "share",
    "share_above",
    "trained",
]
