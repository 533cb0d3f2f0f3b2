"""Memory, before anything is allocated: what cannot fit is refused from arithmetic."""

import contextlib
import math
import os
from pathlib import Path
from typing import Any

import jax

from ipsrl.checking.arguments import checked

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which Linux keeps the memory limit of a container, in two versions: a number, or a word for no limit."""
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def available() -> int:
    """Bytes of memory of all devices together; of devices that share the host's, the host's, or the container's."""
    limits = [(device.memory_stats() or {}).get("bytes_limit", 0) for device in jax.local_devices()]
    if all(limits):
        return sum(limits) * jax.process_count()
    of_host = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            of_host.append(int(Path(path).read_text()))
    return min(of_host) * jax.process_count()


def size_of(tree: Any) -> int:
    """Bytes of the arrays of a pytree, of which only shapes and dtypes are read."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@checked
def require(needed: int, what: str, advice: str) -> None:
    """Raises ValueError if there are fewer bytes of memory than `needed`, a lower bound.

    The message begins with `what`, such as "the answers of a step", and ends with the advice.
    """
    if needed > (present := available()):
        raise ValueError(f"{what} take {in_words(needed)} or more, but there are {in_words(present)}: {advice}")


def in_words(number: int) -> str:
    """`1400000000` -> `1.4 GB`."""
    power = min(len(UNITS) - 1, max(0, math.floor(math.log10(max(number, 1)) / 3)))
    return f"{number / 1000**power:.3g} {UNITS[power]}"
