"""verl's trainer, in an environment of its own: its requirements contradict ours."""

import os
import subprocess
from pathlib import Path

import pytest

from ipsrl.distributed.start_up import cache_folder
from scripts.benchmarks import peer_environments

CACHE = cache_folder()
"""Other tests have a folder of their own."""
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.slow
def test_everything_inside_verl(monkeypatch):
    """The tests of inside_verl.py, which say what fails."""
    monkeypatch.setenv("IPSRL_CACHE", str(CACHE))
    if not peer_environments.is_made("verl"):
        pytest.skip(
            "no environment: python -c \"from scripts.benchmarks import peer_environments as p; p.python('verl')\""
        )
    # verl's package brings a package `tests` along, so ours is found by its folder.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, HERE))), "JAX_PLATFORMS": "cpu"}
    options = ["-q", "--tb=short", "-W", "ignore", "-p", "no:cacheprovider", "-c", os.devnull, "--noconftest"]
    command = [peer_environments.python("verl"), "-m", "pytest", *options, f"--rootdir={HERE}", "inside_verl.py"]
    finished = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout[-20000:]
