"""What has to be decided before JAX looks for devices."""

import os
from pathlib import Path

import jax


def cache_folder() -> Path:
    """Where results are kept that any run of this user may use again: $IPSRL_CACHE, or ~/.cache/ipsrl."""
    return Path(os.environ.get("IPSRL_CACHE") or "~/.cache/ipsrl").expanduser()


def start_up(host_devices: int | None = None) -> None:
    """Configures JAX; called once, before anything computes or asks for devices.

    Compiled programs are kept in the cache folder, so that the second run of a command starts at once.

    Args:
      host_devices: into how many devices the CPU is divided; None leaves JAX's default of one. Other platforms are not
        affected.

    Raises:
      ValueError: `host_devices` is not positive.
      RuntimeError: JAX has already been used with another number of devices.
    """
    if host_devices is not None:
        if host_devices < 1:
            raise ValueError(f"host_devices must be at least 1, not {host_devices}")
        jax.config.update("jax_num_cpu_devices", host_devices)
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compilation"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
