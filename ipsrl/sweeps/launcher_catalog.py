"""The launchers by name. Optional packages are imported only when a launcher launches."""

from ipsrl.checking import specifications
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
      ValueError: the launcher or an argument is unknown or invalid.
    """
    return specifications.build(text, LAUNCHERS, "launcher")
