"""A disk that fills up at a random byte of a sweep: with room again, the same command ends at the same files."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trials.cases import small_sweep
from trials.comparison import differences
from trials.processes import HANGS, Command, wait_until

DISK = 32 << 20
"""Bytes of the disk, more than the sweep needs."""


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of `DISK` bytes in memory, as long as the context lasts.

    Raises:
      ValueError: this user may mount none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        raise ValueError(
            f"no small disk can be mounted ({mounted.stderr.strip()}): start this command as root, or after "
            "unshare --map-root-user --mount"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def undisturbed(disk: Path, work: Path) -> tuple[Path, int]:
    """The sweep on the empty disk: a copy of its folder elsewhere, and the most bytes that it used at any time.

    Raises:
      ValueError: it failed.
    """
    shutil.rmtree(work / "undisturbed", ignore_errors=True)
    empty, least = _free(disk), [_free(disk)]
    command = Command(small_sweep(disk / "sweep", work), work / "undisturbed.log")

    def over() -> bool:
        least.append(min(least.pop(), _free(disk)))
        return command.ended

    wait_until(over, 900, every=0.005)
    if status := command.status():
        raise ValueError(f"the undisturbed sweep ended with status {status}: see {work / 'undisturbed.log'}")
    shutil.move(disk / "sweep", work / "undisturbed")
    return work / "undisturbed", empty - least[0]


def trial(number: int, seed: int, like: Path, used: int, disk: Path, work: Path) -> dict[str, Any]:
    """Leaves room for a random number of bytes, starts the sweep, makes room when it has ended, and continues it.

    Args:
      used: the most bytes that the undisturbed sweep `like` used.

    Returns:
      the bytes of room, the exit status on the full disk, whether the output spoke of it in words and how many
      tracebacks it had, and `problems`: a sentence for each thing that should not be.
    """
    room = random.Random(f"{seed} full disk {number}").randrange(used)
    out, log, ballast = disk / "sweep", work / f"{number}.log", disk / "ballast"
    shutil.rmtree(out, ignore_errors=True)
    log.unlink(missing_ok=True)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _free(disk) - room)
    full = Command(small_sweep(out, work), log)
    status = full.status()
    # What its runs have said lies on the disk, as far as there was room for it.
    said = full.said() + "".join(path.read_text(errors="replace") for path in sorted(out.glob("logs/*")))
    (work / f"{number}.said").write_text(said)
    ballast.unlink()
    problems = [f"the sweep was killed after {HANGS} seconds"] if status == -signal.SIGKILL else []
    continued = Command(small_sweep(out, work), log)
    if again := continued.status():
        last = (continued.said().splitlines() or [""])[-1]
        problems.append(f"with room again the sweep ended with status {again}: {last}")
    problems += differences(out, like)
    return {
        "room": room,
        "status": status,
        "in_words": "No space left on device" in said,
        "tracebacks": said.count("Traceback (most recent call last)"),
        "problems": problems,
    }


def _free(disk: Path) -> int:
    now = os.statvfs(disk)
    return now.f_bavail * now.f_frsize
