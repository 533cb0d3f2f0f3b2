"""The records of a study, without a command."""

from ipsrl.records.run_folder import RunFolder
from ipsrl.study.recording import record


def recorded(module, settings, path):
    with RunFolder.open(path, {}, resume=False) as folder:
        return record(list(module.curves(settings)), folder, None, report=lambda line: None)
