"""Launcher `slurm`: one job for each run, through submitit."""

import dataclasses
import threading
from collections.abc import Generator, Sequence

from ipsrl import extras
from ipsrl.sweeps.attempt import attempt, child_command
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.sweep_folder import State, SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun

# Maximum number of times that a job may time out or be preempted and be queued again.
TIMEOUTS = 100


@dataclasses.dataclass(frozen=True)
class Slurm(Launcher):
    """An array of jobs, one run each on one node; all nodes must see the folder and this repository.

    A job that is preempted or times out is queued again and continues from the run's last checkpoint. The sweep waits
    for all jobs, so start it where it can run as long as they do, for example in tmux on the login node. submitit keeps
    its files in the folder `slurm` of the sweep.

    Attributes:
      partition: the SLURM partition; empty for the cluster's default.
      minutes: time limit of one job.
      gpus, cpus: for one run.
      memory_gb: for one run; 0 for the cluster's default.
      at_once: jobs that may run at the same time.
      further: other options of sbatch, as in `further=('account=mine', 'constraint=a100')`.
      cluster: `slurm`, or `local` to try it on a machine without SLURM.
    """

    partition: str = ""
    minutes: int = 24 * 60
    gpus: int = 0
    cpus: int = 4
    memory_gb: float = 0
    at_once: int = 256
    further: tuple[str, ...] = ()
    cluster: str = "slurm"

    def __post_init__(self):
        if self.cluster not in ("slurm", "local"):
            raise ValueError(f"unknown cluster {self.cluster!r}; known: slurm, local")
        if min(self.minutes, self.cpus, self.at_once) < 1 or min(self.gpus, self.memory_gb) < 0:
            raise ValueError("minutes, cpus and at_once must be positive, gpus and memory_gb must not be negative")
        for option in self.further:
            if "=" not in option:
                raise ValueError(f"cannot read {option!r}: further options are written further=('name=value', ...)")

    def check(self, runs: Sequence[SweepRun]) -> None:
        extras.require("submitit")

    def launch(self, folder: SweepFolder, runs: Sequence[SweepRun], restarts: int) -> Generator[tuple[SweepRun, State]]:
        extras.require("submitit")
        import submitit
        from submitit.core.utils import FailedJobError

        try:
            executor = submitit.AutoExecutor(
                folder.path / "slurm", cluster=self.cluster, slurm_max_num_timeout=TIMEOUTS
            )
        except RuntimeError as error:
            raise ValueError(f"there is no SLURM on this machine ({error}): use local or ray") from error
        executor.update_parameters(
            name="ipsrl",
            timeout_min=self.minutes,
            cpus_per_task=self.cpus,
            gpus_per_node=self.gpus or None,
            mem_gb=self.memory_gb or None,
            slurm_partition=self.partition or None,
            slurm_array_parallelism=self.at_once,
            slurm_additional_parameters=dict(option.split("=", 1) for option in self.further),
        )
        try:
            jobs = executor.map_array(Job(folder, restarts), runs)
        except FailedJobError as error:
            raise ValueError(f"SLURM refuses the jobs: {str(error).strip().splitlines()[-1]}") from error
        run_of = dict(zip((job.job_id for job in jobs), runs, strict=True))
        try:
            for job in submitit.helpers.as_completed(jobs, poll_frequency=1 if self.cluster == "local" else 10):
                run = run_of.pop(job.job_id)
                error = job.exception()
                if isinstance(error, FailedJobError):
                    # The job itself failed, before it started the run.
                    folder.record_failure(run, child_command(folder, run), "none", str(error))
                yield run, job.result() if error is None else folder.state(run)
        finally:
            for job in jobs:
                if job.job_id in run_of:
                    job.cancel()


@dataclasses.dataclass(frozen=True)
class Job:
    """The function of a job on its node."""

    folder: SweepFolder
    restarts: int

    def __call__(self, run: SweepRun) -> State:
        return attempt(self.folder, run, child_command(self.folder, run), self.restarts, threading.Event())

    def checkpoint(self, run: SweepRun):
        """The function that submitit queues after a preemption: the same one, because runs resume by themselves."""
        extras.require("submitit")
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, run)
