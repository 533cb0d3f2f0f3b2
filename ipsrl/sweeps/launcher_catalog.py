"""The launchers by name. What a launcher needs beyond the library is imported where it launches."""

from ipsrl import specifications
from ipsrl.sweeps.launcher import Launcher
from ipsrl.sweeps.local import Local
from ipsrl.sweeps.ray_cluster import Ray
from ipsrl.sweeps.slurm import Slurm
from ipsrl.sweeps.tpu_pod import TpuPod
from ipsrl.sweeps.vmap import Vmap

LAUNCHERS = {"local": Local, "ray": Ray, "slurm": Slurm, "tpu_pod": TpuPod, "vmap": Vmap}


def make(text: str) -> Launcher:
    """`"local(workers=4)"` -> the launcher.

    Raises:
      ValueError: the launcher, or an argument, is unknown or cannot be.
    """
    return specifications.build(text, LAUNCHERS, "launcher")
