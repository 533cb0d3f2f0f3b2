"""Launcher `tpu_pod`: one run at a time on each of several Cloud TPU slices."""

import contextlib
import dataclasses
import shlex
import shutil
import subprocess
import threading
from collections.abc import Generator, Iterator, Sequence

from ipsrl.records.progress_line import report_line
from ipsrl.study import catalog
from ipsrl.sweeps.attempt import ROOT, attempt
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.places import work_at
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun


@dataclasses.dataclass(frozen=True)
class TpuPod(Launcher):
    """Runs multi-host experiments by scripts/launch_tpu_pod.sh, which requests a slice for each run.

    A run writes to the bucket, in a folder with the sweep's name; its files except checkpoints are copied to the folder
    of the sweep when it has ended. Slices are deleted after runs that finish. A sweep that is interrupted, or has
    unfinished runs, prints how to delete the slices that may be left and still cost money; the same sweep command also
    takes them up again.

    Attributes:
      project, zone, accelerator_type, bucket: see the script.
      slices: names of the slices; as many are in use at a time.
      options: further options of the script, as in `options=('--capacity=reserved',)`.
    """

    project: str
    zone: str
    accelerator_type: str
    bucket: str
    slices: tuple[str, ...] = ("ipsrl",)
    options: tuple[str, ...] = ()

    def __post_init__(self):
        if not self.slices or len(set(self.slices)) < len(self.slices):
            raise ValueError(f"slices={self.slices} must be different names, at least one")

    def check(self, runs: Sequence[SweepRun]) -> None:
        for experiment in {run.experiment for run in runs}:
            if not catalog.find(experiment).many_hosts:
                raise ValueError(f"{experiment} has no flag --multihost, so it cannot run on a slice: use ray")
        # The script itself checks its options best.
        tried = subprocess.run(
            self._script(runs[0], "check", self.slices[0], "--dry_run"), capture_output=True, text=True
        )
        if tried.returncode != 0:
            raise ValueError(tried.stderr.strip().removeprefix("error: "))

    def plan(self, folder: SweepFolder, runs: Sequence[SweepRun]) -> Iterator[str]:
        for number, run in enumerate(runs):
            place = self.slices[number % len(self.slices)]
            script = self._script(run, folder.path.name, place, "--dry_run")
            yield subprocess.run(script, capture_output=True, text=True, check=True).stdout.rstrip()
            yield shlex.join(self._copy(folder, run))

    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Generator[tuple[SweepRun, State]]:
        if shutil.which("gcloud") is None:
            raise ValueError("gcloud, which requests slices, is not installed: see https://cloud.google.com/sdk")

        def work(run: SweepRun, place: str, ending: threading.Event) -> State:
            script, copy = self._script(run, folder.path.name, place), self._copy(folder, run)
            folder.run_path(run).mkdir(exist_ok=True)
            both = f"{shlex.join(script)} && {shlex.join(copy)}"
            return attempt(folder, run, ["bash", "-c", both], restarts, ending)

        finished = 0
        try:
            with contextlib.closing(work_at(self.slices, runs, work)) as ended:
                for run, state in ended:
                    finished += state == "finished"
                    yield run, state
        finally:
            if finished < len(runs):
                for place in self.slices:
                    report_line(
                        f"slice {place} may still exist and cost money until: {shlex.join(self._delete(place))}"
                    )

    def _script(self, run: SweepRun, sweep: str, place: str, *options: str) -> list[str]:
        """The command that runs a run on a slice."""
        return [
            "bash",
            str(ROOT / "scripts" / "launch_tpu_pod.sh"),
            f"--project={self.project}",
            f"--zone={self.zone}",
            f"--accelerator_type={self.accelerator_type}",
            f"--bucket={self.bucket}",
            f"--name={place}",
            f"--folder={sweep}/{run.identity}",
            *self.options,
            *options,
            "--",
            *run.arguments,
        ]

    def _delete(self, place: str) -> list[str]:
        """The command that deletes a slice."""
        where = [f"--project={self.project}", f"--zone={self.zone}"]
        return ["gcloud", "compute", "tpus", "queued-resources", "delete", place, *where, "--force", "--quiet"]

    def _copy(self, folder: SweepFolder, run: SweepRun) -> list[str]:
        """The command that copies the results of a run."""
        return [
            "gcloud",
            "storage",
            "rsync",
            "--recursive",
            "--exclude=.*checkpoints/.*",
            f"gs://{self.bucket}/{folder.path.name}/{run.identity}",
            str(folder.run_path(run)),
        ]
