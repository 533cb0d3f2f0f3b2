"""A verdict with the same end in all cases."""

import numpy as np

from experiments.verdicts.verdict_page import PublishedVerdict
from ipsrl.dynamics.cases import CASES, STARTS


def made_up(objective, word, text="0.50 : 0.50 : 0", ends=(0.5, 0.5, 0.0), references=("uniform",), evidence="seen"):
    """`ends` are those from each start, or one from all."""
    of_case = dict.fromkeys(CASES, np.broadcast_to(ends, (len(STARTS), 3)).tolist())
    by_reference = (dict.fromkeys(references, of) for of in (dict.fromkeys(CASES, text), of_case))
    return PublishedVerdict(objective, word, evidence, "", "", "", "", *by_reference)
