"""Tunix's learner, in an environment of its own, because Tunix asks for other packages than ours."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks import peer_environments
from ipsrl import extras
from ipsrl.distributed.start_up import cache_folder
from tests.scripts.test_lock import packaging_arguments

ROOT = Path(__file__).parents[2]
CACHE = cache_folder()
"""That of the user, where the environment may be; tests have one of their own, which is empty."""
VERSIONS = """
import json
from importlib import metadata
print(json.dumps({each.name.lower().replace("_", "-"): each.version for each in metadata.distributions()}))
"""


@pytest.fixture
def inside(monkeypatch):
    """Runs the environment's Python, in the root of the project."""
    monkeypatch.setenv("IPSRL_CACHE", str(CACHE))
    if not peer_environments.is_made("tunix"):
        pytest.skip("no environment: `python scripts/benchmark.py peers --peers=tunix` makes it")
    # Programs are small: making them fast takes longer than running them.
    flags = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    flags += " --xla_force_host_platform_device_count=4"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}

    def run(*arguments):
        command = [peer_environments.python("tunix"), *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_everything_inside_tunix(inside):
    """The tests of inside_tunix.py, which say what fails."""
    options = ["-q", "--tb=short", "--show-capture=no", "-W", "ignore", "-p", "no:cacheprovider", "-c", os.devnull]
    finished = inside(
        "-m", "pytest", *options, f"--rootdir={ROOT}", "--import-mode=importlib", "--noconftest",
        "tests/integrations/inside_tunix.py",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout[-20000:] + finished.stderr[-2000:]


@pytest.mark.slow
def test_the_environment_has_what_the_extra_asks_for(inside):
    found, asked = json.loads(inside("-c", VERSIONS).stdout), packaging_arguments()
    for line in (*asked["install_requires"], *asked["extras_require"]["tunix"]):
        requirement = Requirement(line)
        assert requirement.specifier.contains(found[requirement.name]), line
    package = extras.PACKAGES["tunix"]
    assert found[package.distribution] == package.version
