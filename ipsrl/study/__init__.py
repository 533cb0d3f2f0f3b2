"""The framework of all studies: `from ipsrl import study` is the one import needed beside what is studied.

A study is one module, described in `ipsrl.study.study`.
"""

from ipsrl.study.claims import Claim, above, among, at_each, at_some, below, every, near, some
from ipsrl.study.command_line import main
from ipsrl.study.curves import Curve, Curves, Output, Points, TrainingRun
from ipsrl.study.ensembles import trained
from ipsrl.study.numbers import Best, Computed, Number, difference, final, share, share_above
from ipsrl.study.pages.claim_pages import Headline
from ipsrl.study.pages.tables import Grid, Table, one_below_the_other
from ipsrl.study.settings import (
    EnsembleSettings,
    Settings,
    better_and_worse,
    document,
    objectives,
    rising,
    seeds,
    selecting,
    shared,
)
from ipsrl.study.small_transformers import SmallTransformers
from ipsrl.study.study import Study, Variant
