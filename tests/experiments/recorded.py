"""Records of a study without a command: those of its curves, and made-up ones."""

import numpy as np

from ipsrl.records.run_folder import RunFolder
from ipsrl.records.tidy import Records
from ipsrl.study.recording import record


def recorded(module, settings, path):
    with RunFolder.open(path, {}, resume=False) as folder:
        return record(list(module.curves(settings)), folder, None, report=lambda line: None)


def courses(labels, arms, steps):
    """Records of arms, by the values of their labels: for each value `[seed][step]`, its course at these steps."""
    rows = [
        dict(zip(labels, arm, strict=True))
        | {"step": step, "seed": seed}
        | {name: course[seed][place] for name, course in values.items()}
        for arm, values in arms.items()
        for seed in range(len(next(iter(values.values()))))
        for place, step in enumerate(steps)
    ]
    return Records(rows, labels)


def made_up(labels, arms):
    """Records of arms, by the values of their labels: for each value its ends, one of each seed or one for all."""
    rows = [
        dict(zip(labels, arm, strict=True)) | {"step": 1, "seed": seed} | dict(zip(values, ends, strict=True))
        for arm, values in arms.items()
        for seed, ends in enumerate(zip(*np.broadcast_arrays(*values.values()), strict=True))
    ]
    return Records(rows, labels)
