"""Tunix's learner and verl's trainer, each in an environment of its own: they ask for other packages than ours."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ipsrl import extras
from ipsrl.distributed.start_up import cache_folder
from scripts.benchmarks import peer_environments
from tests.scripts.test_lock import packaging_arguments

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = cache_folder()
"""The user's cache, where the environments may be; tests have a cache of their own, which is empty."""
QUIET = ("-q", "--tb=short", "--show-capture=no", "-W", "ignore", "-p", "no:cacheprovider", "--noconftest")
TESTS = ("-m", "pytest", *QUIET, "-c", os.devnull)
# Programs are small: making them fast takes longer than running them.
FAST_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
VERSIONS = """
import json
from importlib import metadata
print(json.dumps({each.name.lower().replace("_", "-"): each.version for each in metadata.distributions()}))
"""


@pytest.fixture
def inside(monkeypatch):
    """Runs the Python of an environment."""
    monkeypatch.setenv("IPSRL_CACHE", str(CACHE))

    def run(peer, *arguments, folder=ROOT, **variables):
        if not peer_environments.is_made(peer):
            pytest.skip(f"no environment: `python scripts/benchmark.py peers --peers={peer}` makes it")
        environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | variables
        command = [peer_environments.python(peer), *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_everything_inside_tunix(inside):
    """The tests of inside_tunix.py, which say what fails."""
    flags = f"{FAST_COMPILATION} --xla_force_host_platform_device_count=4"
    where = (f"--rootdir={ROOT}", "--import-mode=importlib", "tests/integrations/inside_tunix.py")
    finished = inside("tunix", *TESTS, *where, XLA_FLAGS=flags)
    assert finished.returncode == 0, finished.stdout[-20000:] + finished.stderr[-2000:]


@pytest.mark.slow
def test_everything_inside_verl(inside):
    # verl's package brings a package `tests` along, so ours is found by its folder.
    path = os.pathsep.join(map(str, (ROOT, HERE)))
    finished = inside("verl", *TESTS, f"--rootdir={HERE}", "inside_verl.py", folder=HERE, PYTHONPATH=path)
    assert finished.returncode == 0, finished.stdout[-20000:]


@pytest.mark.slow
def test_the_environment_has_what_the_extra_asks_for(inside):
    found, asked = json.loads(inside("tunix", "-c", VERSIONS).stdout), packaging_arguments()
    for line in (*asked["install_requires"], *asked["extras_require"]["tunix"]):
        requirement = Requirement(line)
        assert requirement.specifier.contains(found[requirement.name]), line
    package = extras.PACKAGES["tunix"]
    assert found[package.distribution] == package.version
