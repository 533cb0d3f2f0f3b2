"""Runs an experiment with many settings: every combination of a grid, or the runs that a Python file lists.

python scripts/sweep.py --experiment=hypospace \\
    --grid="objectives=grpo,ips_grpo(floor=0.2);group_size=4,8,16;seeds=0:5" --out=runs/sweep

Every run is `python -m experiments.NAME --preset=... --flags --resume` in its own folder in OUT/runs, named by its
identity. The same command continues a sweep: finished runs are skipped, broken ones resume from their last checkpoint,
failed ones wait for --retry. Without --grid and --runs it applies to all runs ever requested in OUT.

--grid        flags separated by semicolons, values by commas; 0:5 is 0, 1, 2, 3, 4; a value that contains commas or is
              itself a range is written in brackets or quotes: rewards=[2.0,1.0],[3.0,1.0];seeds=[0:5]
--runs        a Python file with RUNS = [{"experiment": "hypospace", "preset": "smoke", "seeds": "0", ...}, ...], or
              a function runs() that returns such a list; --experiment and --preset are the defaults of its entries.
--launcher    local(workers=0)      processes on this machine, by default one per two cores
              vmap                  runs that differ only in the fields in the experiment's VMAPPED are one program
              ray(address=auto, cpus=1, gpus=0, lost_nodes=3)     tasks on a Ray cluster
              slurm(partition='', minutes=1440, gpus=0, cpus=4, memory_gb=0, at_once=256, further=(), cluster=slurm)
              tpu_pod(project=P, zone='us-east5-a', accelerator_type='v5p-64', bucket=B, slices=(ipsrl,), options=())
"""

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.sweep")

from ipsrl.command import extensions
from ipsrl.command.definitions import Module
from ipsrl.command.ending import Ending
from ipsrl.printable import printable
from ipsrl.records.trackers import read_trackers
from ipsrl.study import catalog
from ipsrl.sweeps import launcher_catalog
from ipsrl.sweeps.sweep import report, sweep, to_do
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import (
    SweepRun,
    make_runs,
    read_file,
    read_grid,
    read_settings,
    require_unchanged,
    tracked,
)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--out", required=True, help="folder of the sweep")
    made.add_argument("--experiment", help="the name of a study: python -m experiments lists them")
    made.add_argument("--preset", help="of the experiment, demo by default")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--grid", help="see above")
    which.add_argument("--runs", type=Path, metavar="FILE.py", help="see above")
    made.add_argument("--launcher", default="local", help="see above; local by default")
    made.add_argument(
        "--tracker", help="further receivers of the metrics of training runs: tensorboard, wandb, or both"
    )
    made.add_argument("--retry", action="store_true", help="try failed runs again")
    made.add_argument("--restarts", type=int, default=3, help="maximum number of restarts of a killed run; 3")
    made.add_argument("--extensions", default="", help=extensions.FLAG_HELP)
    do = made.add_mutually_exclusive_group()
    do.add_argument("--list", action="store_true", help="print the runs, and start nothing")
    do.add_argument("--status", action="store_true", help="print the states of the runs, and start nothing")
    do.add_argument(
        "--dry_run", action="store_true", help="print the commands of the remaining runs, and start nothing"
    )
    return made


CHECKED_EARLY = 1000
"""Runs of a grid whose flags are checked before the imports, in a third of a second; the others are after them."""


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if a flag is wrong, as far as that is known before the imports."""
    check_words(arguments)
    if arguments.grid is not None and not (arguments.extensions or extensions.loaded()):
        presets = Module(catalog.module_name(arguments.experiment)).PRESETS
        for flags in read_grid(arguments.grid)[:CHECKED_EARLY]:
            read_settings(arguments.experiment, presets, arguments.preset or "demo", flags)


def check_words(arguments: argparse.Namespace) -> None:
    """Raises ValueError if something is wrong that needs no settings of an experiment to be known."""
    if arguments.restarts < 0:
        raise ValueError(f"--restarts is {arguments.restarts}, it must not be negative")
    if arguments.experiment is not None and not arguments.extensions:
        catalog.require(arguments.experiment)
    launcher_catalog.make(arguments.launcher)
    read_trackers(arguments.tracker or "")
    if arguments.grid is not None:
        if arguments.experiment is None:
            raise ValueError("--grid is about one experiment: give it by --experiment")
        read_grid(arguments.grid)


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    # SIGTERM is treated like Ctrl-C: runs end with their sweep.
    with Ending("the same command continues the sweep", (signal.SIGINT, signal.SIGTERM)):
        check_words(arguments)
        extensions.load(arguments.extensions)
        status = run(arguments)
    sys.exit(status)


def run(arguments: argparse.Namespace) -> int:
    """Executes the command line; returns the exit status."""
    launcher = launcher_catalog.make(arguments.launcher)
    folder = SweepFolder.at(arguments.out)
    runs = requested_runs(arguments, folder)
    if arguments.tracker:
        runs = tracked(runs, arguments.tracker)
    if arguments.list:
        for each in runs:
            print(printable(f"{each.identity} {shlex.join(each.arguments[1:])}", kept=""))
    elif arguments.status:
        print(report(folder, runs))
    elif arguments.dry_run:
        launcher.check(runs)
        for command in launcher.plan(folder, to_do(folder, runs, arguments.retry)):
            print(printable(command))
    else:
        sweep(folder, runs, launcher, arguments.retry, arguments.restarts)
        print(report(folder, runs))
        if any(folder.state(each) != "finished" for each in runs):
            print(
                "the same command continues with the remaining runs, with --retry also with the failed ones",
                file=sys.stderr,
            )
            return 1
    return 0


def requested_runs(arguments: argparse.Namespace, folder: SweepFolder) -> list[SweepRun]:
    """The runs requested on the command line."""
    by_default = {"experiment": arguments.experiment, "preset": arguments.preset}
    by_default = {name: value for name, value in by_default.items() if value is not None}
    if arguments.runs is not None:
        return make_runs([by_default | request for request in read_file(arguments.runs)])
    if arguments.grid is not None:
        return make_runs([by_default | flags for flags in read_grid(arguments.grid)])
    if by_default:
        raise ValueError("--experiment and --preset need runs: give --grid or --runs as well")
    if not (runs := folder.runs()):
        raise ValueError(f"{folder.path} has no runs yet: request some by --grid or --runs")
    if not (arguments.list or arguments.status):
        require_unchanged(runs)
    return runs


if __name__ == "__main__":
    main()
