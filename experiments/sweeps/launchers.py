"""The launchers by name. What a launcher needs beyond the library is imported where it launches."""

from experiments.sweeps.launcher import Launcher
from experiments.sweeps.local import Local
from experiments.sweeps.ray_cluster import Ray
from experiments.sweeps.slurm import Slurm
from experiments.sweeps.tpu_pod import TpuPod
from experiments.sweeps.vmap import Vmap
from ipsrl import specifications

LAUNCHERS = {"local": Local, "ray": Ray, "slurm": Slurm, "tpu_pod": TpuPod, "vmap": Vmap}


def make(text: str) -> Launcher:
    """`"local(workers=4)"` -> the launcher.

    Raises:
      ValueError: the launcher, or an argument, is unknown or cannot be.
    """
    return specifications.build(text, LAUNCHERS, "launcher")
