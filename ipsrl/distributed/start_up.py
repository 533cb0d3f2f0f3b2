"""Configuration that must precede JAX's search for devices."""

import dataclasses
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from ipsrl.checking.fields import Checked, at_least
from ipsrl.checking.paths import expanded


def cache_folder() -> Path:
    """Folder of results that all runs of this user may share: $IPSRL_CACHE, or ~/.cache/ipsrl.

    Raises:
      ValueError: it begins with the home folder of a user who has none.
    """
    return expanded(os.environ.get("IPSRL_CACHE") or "~/.cache/ipsrl", "IPSRL_CACHE")


# By default XLA may run independent collectives in another order on each CPU device, which then deadlock: seen with
# rematerialised blocks on a mesh of data:4,model:2, jax 0.10.2.
ONE_ORDER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
# By default XLA runs programs by as many threads as there are devices, or cores. Where a device is 32 programs behind,
# the thread that starts its next one waits; if the others then wait in a collective for a device that has no thread
# left, all wait for ever: seen in two of three runs of two processes with four devices each on two cores, jax 0.10.2.
# With two threads for each device one is always left. On as many cores as devices they make a step slower by a tenth to
# a half, so there a step starts fewer programs before it waits for all devices (`hosts.to_host`).
THREADS_PER_DEVICE = 2
# Time that an ending process waits for the others to end.
SHUTDOWN_TIMEOUT_SECONDS = 45
# Each takes threads and memory; more than any mesh that is tried on a CPU.
MOST_HOST_DEVICES = 1024


@dataclasses.dataclass(frozen=True)
class Cluster(Checked):
    """The processes that run one program together, one or more on each host.

    On TPU pods and under SLURM, Open MPI or Kubernetes, JAX finds all fields that are None here.

    Attributes:
      coordinator: address and port of the first process, "10.0.0.1:8476"; by default $JAX_COORDINATOR_ADDRESS.
      num_processes: number of processes; by default $JAX_NUM_PROCESSES.
      process_id: number of this process, from 0; by default $JAX_PROCESS_ID.
      heartbeat_timeout: seconds of silence after which a process counts as dead, and the others end, unless a broken
        connection has ended them before.
      join_timeout: seconds that this process waits for the others to join.

    Raises:
      ValueError: a field is out of its range, the coordinator is no address:port, or `process_id` is not below
        `num_processes`.
    """

    coordinator: str | None = None
    num_processes: int | None = at_least(1, None)
    process_id: int | None = at_least(0, None)
    heartbeat_timeout: int = at_least(1, 45)
    join_timeout: int = at_least(1, 300)

    def __post_init__(self):
        super().__post_init__()
        if self.coordinator is not None:
            _, _, port = self.coordinator.rpartition(":")
            if not re.fullmatch(r".+:\d{1,5}", self.coordinator) or not 0 < int(port) < 2**16:
                raise ValueError(
                    f"the coordinator is {self.coordinator!r}, it must be address:port, as 10.0.0.1:8476, with a port "
                    "from 1 to 65535"
                )
        process, processes = self.process_id, self.num_processes
        if process is not None and processes is not None and process >= processes:
            raise ValueError(f"process_id is {process}, it must be below num_processes, {processes}: the first is 0")


def cores() -> int:
    """Number of CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def start_up(host_devices: int | None = None, cluster: Cluster | None = None) -> None:
    """Configures JAX; called once, before anything computes or looks for devices.

    Compiled programs are cached on disk, so that the second run of a command starts at once. Products of float32 arrays
    are computed in float32 on all platforms, unless JAX_DEFAULT_MATMUL_PRECISION says otherwise.

    Args:
      host_devices: number of devices into which the CPU is split; None leaves JAX's default of one. Other platforms are
        not affected.
      cluster: joins these processes to one program; returns when all have joined. None for a program of one process.

    Raises:
      ValueError: `host_devices` is out of its range, the cluster is not fully specified and cannot be detected, or JAX
        is asked for 64 bits, which no program here is made for.
      RuntimeError: JAX has already been used with another number of devices.
    """
    if jax.config.values["jax_enable_x64"]:
        raise ValueError(
            "JAX_ENABLE_X64 is set, but experiments compute in float32, whose numbers it changes: unset it"
        )
    if host_devices is not None:
        if not 1 <= host_devices <= MOST_HOST_DEVICES:
            raise ValueError(f"host_devices must lie between 1 and {MOST_HOST_DEVICES}, not {host_devices}")
        jax.config.update("jax_num_cpu_devices", host_devices)
        flags = os.environ.get("XLA_FLAGS", "")
        if host_devices > 1 and ONE_ORDER not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {ONE_ORDER}".strip()
    if jax.config.values["jax_default_matmul_precision"] is None:
        # Accelerators would round float32 operands to ten bits or seven; those of bfloat16 are multiplied as they are.
        jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compilation"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # The folder of XLA's own caches is part of the key of every program, on all platforms: in a renamed or moved
    # folder, no program would be found again.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    devices = host_devices or 1
    threads = THREADS_PER_DEVICE * devices
    if threads > cores() and (cluster is not None or devices > cores()):
        os.environ["PJRT_NPROC"] = str(threads)
    if cluster is not None:
        _join(cluster)


def _join(cluster: Cluster) -> None:
    """Makes the devices of all processes visible to each: `jax.devices()` lists them all."""
    # JAX would intercept SIGTERM as a preemption notice, which nothing here reads: a terminated process must end.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        cluster = dataclasses.replace(
            cluster,
            coordinator=cluster.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS"),
            num_processes=_number(cluster.num_processes, "JAX_NUM_PROCESSES"),
            process_id=_number(cluster.process_id, "JAX_PROCESS_ID"),
        )
        _interruptibly(
            jax.distributed.initialize,
            cluster.coordinator,
            cluster.num_processes,
            cluster.process_id,
            initialization_timeout=cluster.join_timeout,
            heartbeat_timeout_seconds=cluster.heartbeat_timeout,
            shutdown_timeout_seconds=SHUTDOWN_TIMEOUT_SECONDS,
        )
    except ValueError as error:
        raise ValueError(
            f"this process cannot join the others ({error}): on a cluster that JAX does not know, give --coordinator, "
            "--num_processes and --process_id, or $JAX_COORDINATOR_ADDRESS, $JAX_NUM_PROCESSES and $JAX_PROCESS_ID"
        ) from error


def _interruptibly(function: Callable[..., None], *arguments: Any, **named: Any) -> None:
    """Calls, in a thread of its own, a function that waits in native code, where Ctrl-C would not be heard."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function(*arguments, **named)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _number(given: int | None, variable: str) -> int | None:
    """The given number, or that of the environment variable."""
    text = os.environ.get(variable)
    return given if given is not None or text is None else int(text)
