"""The versions that the scripts install are those that setup.py allows, on every Python and system we support."""

import functools
import runpy
import subprocess
from pathlib import Path

import pytest
import setuptools
from packaging.requirements import Requirement

from tests.plain_installation import normal

ROOT = Path(__file__).parents[2]
SYSTEMS = [("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64")]
ENVIRONMENTS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": system[0],
        "platform_system": system[1],
        "platform_machine": system[2],
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    for python in ("3.11", "3.12", "3.13")
    for system in SYSTEMS
]
# Accelerators take their own versions; Tunix and verl ask for other ones than ours.
NOT_CONSTRAINED = {"cuda", "tpu", "tunix", "verl"}


@functools.cache
def packaging_arguments():
    """The arguments that setup.py passes to setuptools."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", found.update)
        runpy.run_path("setup.py")
    return found


def pins(name):
    """The requirements in a file, each with whether it has a hash."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(Requirement(line.partition(" --hash=")[0]), " --hash=sha256:" in line) for line in lines]


def chosen(name, environment):
    """Package -> the one version that a file pins in this environment."""
    found = {}
    for requirement, _ in pins(name):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", requirement
            assert found.setdefault(normal(requirement.name), specifier.version) == specifier.version, requirement
    return found


def assert_satisfied(requirements, found, environment):
    for line in requirements:
        requirement = Requirement(line)
        if requirement.name != "ipsrl" and (requirement.marker is None or requirement.marker.evaluate(environment)):
            version = found.get(normal(requirement.name), "nothing")
            assert requirement.specifier.contains(version), f"{line}: {version} is pinned; run scripts/lock.sh"


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: f"{e['python_version']} {e['platform_machine']}")
def test_the_pinned_versions_satisfy_setup(environment):
    required = packaging_arguments()
    locked, constrained = (chosen(name, environment) for name in ("requirements.lock", "constraints.txt"))
    assert_satisfied(required["install_requires"], locked, environment)
    assert_satisfied(required["install_requires"], constrained, environment)
    for extra, requirements in required["extras_require"].items():
        if extra not in NOT_CONSTRAINED:
            assert_satisfied(requirements, constrained, environment)
    # The demo and the tests may share an environment.
    assert locked == {package: constrained.get(package) for package in locked}


def test_every_locked_file_is_known_by_its_hash():
    assert all(has_hash for _, has_hash in pins("requirements.lock"))


@pytest.mark.parametrize("package", ["uv", "setuptools"])
def test_what_installs_and_what_builds_are_known_by_their_hashes(package):
    printed = subprocess.run(
        ["bash", "-c", f"source scripts/environment.sh; locked {package}"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    first, *hashes = [line.removesuffix(" \\") for line in printed.splitlines()]
    assert first == f"{package}=={chosen('constraints.txt', ENVIRONMENTS[0])[package]}"
    assert hashes
    assert all(line.startswith("    --hash=sha256:") for line in hashes)
