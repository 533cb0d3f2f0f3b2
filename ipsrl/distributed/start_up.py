"""What has to be decided before JAX looks for devices."""

import dataclasses
import os
from pathlib import Path

import jax


def cache_folder() -> Path:
    """Where results are kept that any run of this user may use again: $IPSRL_CACHE, or ~/.cache/ipsrl."""
    return Path(os.environ.get("IPSRL_CACHE") or "~/.cache/ipsrl").expanduser()


# By default XLA may run independent collectives in another order on each device of a CPU, which then wait for each
# other for ever: seen with rematerialised blocks on a mesh of data:4,model:2, jax 0.10.2.
ONE_ORDER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
# How long a process that ends waits for the others to end as well.
SHUTDOWN_TIMEOUT_SECONDS = 45


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The processes that run one program together, one or more on each host.

    On TPU pods and under SLURM, Open MPI or Kubernetes JAX finds out by itself all that is None here.

    Attributes:
      coordinator: address and port of the first process, "10.0.0.1:8476"; by default $JAX_COORDINATOR_ADDRESS.
      num_processes: how many there are; by default $JAX_NUM_PROCESSES.
      process_id: which one this is, from 0; by default $JAX_PROCESS_ID.
      heartbeat_timeout: seconds of silence after which a process counts as dead, and the others end, where no broken
        connection has told them before.
    """

    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    heartbeat_timeout: int = 45


def cores() -> int:
    """How many cores of the CPU this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def start_up(host_devices: int | None = None, cluster: Cluster | None = None) -> None:
    """Configures JAX; called once, before anything computes or asks for devices.

    Compiled programs are kept in the cache folder, so that the second run of a command starts at once.

    Args:
      host_devices: into how many devices the CPU is divided; None leaves JAX's default of one. Other platforms are not
        affected.
      cluster: joins these processes to one program; returns when all have come. None for a program of one process.

    Raises:
      ValueError: `host_devices` is not positive, or the cluster is not told in full and cannot be found out.
      RuntimeError: JAX has already been used with another number of devices.
    """
    if host_devices is not None:
        if host_devices < 1:
            raise ValueError(f"host_devices must be at least 1, not {host_devices}")
        jax.config.update("jax_num_cpu_devices", host_devices)
        flags = os.environ.get("XLA_FLAGS", "")
        if host_devices > 1 and ONE_ORDER not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {ONE_ORDER}".strip()
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compilation"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # Where XLA keeps its own caches is part of the key of every program, on all platforms: in a folder of another name,
    # or that was moved, no program would be found again.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    if cluster is not None:
        _join(cluster)


def _join(cluster: Cluster) -> None:
    """Makes the devices of all processes visible to each: `jax.devices()` are those of all."""
    # JAX would take SIGTERM for a notice that nobody here reads: a process that is told to end shall end.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            cluster.coordinator,
            _number(cluster.num_processes, "JAX_NUM_PROCESSES"),
            _number(cluster.process_id, "JAX_PROCESS_ID"),
            heartbeat_timeout_seconds=cluster.heartbeat_timeout,
            shutdown_timeout_seconds=SHUTDOWN_TIMEOUT_SECONDS,
        )
    except ValueError as error:
        raise ValueError(
            f"this process cannot join the others ({error}): on a cluster that JAX does not know, give --coordinator, "
            "--num_processes and --process_id, or $JAX_COORDINATOR_ADDRESS, $JAX_NUM_PROCESSES and $JAX_PROCESS_ID"
        ) from error


def _number(given: int | None, variable: str) -> int | None:
    """What was given, or else what the environment says."""
    text = os.environ.get(variable)
    return given if given is not None or text is None else int(text)
