"""Start-up in a fresh process, where JAX has not been used yet."""

from pathlib import Path

import jax
import pytest

from ipsrl.distributed.start_up import Cluster, cache_folder, start_up
from tests.forks import forks

# Long enough to compile that it is worth keeping on any machine.
PROGRAM = """
warnings.simplefilter("error")
os.environ["IPSRL_CACHE"] = {folder!r}
start_up(host_devices=3)
print(len(jax.devices()))
@jax.jit
def program(x):
    for _ in range(12):
        x = jax.numpy.linalg.inv(jax.numpy.sin(x @ x))
    return x
program(jax.numpy.eye(5)).block_until_ready()
"""


@pytest.fixture(scope="module")
def ends():
    with forks("import os, warnings, jax\nfrom ipsrl.distributed.start_up import *") as ends:
        yield ends


def test_devices_and_compiled_programs(ends, tmp_path):
    """Programs are kept, and found again in a folder that was moved."""
    kept = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        assert ends(PROGRAM.format(folder=str(folder))) == (0, "3\n", "")
        kept.append({file.name for file in (folder / "compilation").iterdir()})
        if folder.name == "first":
            folder.rename(tmp_path / "second")
    # How long it took to compile decides whether a small program is kept; this one is looked for by its name.
    assert any(name.startswith("jit_program") for name in kept[0])
    assert {name for name in kept[0] ^ kept[1] if name.startswith("jit_program")} == set()


def test_float32_is_not_rounded_unless_asked_for(ends):
    program = "start_up(); print(jax.config.jax_default_matmul_precision)"
    assert ends(program) == (0, "highest\n", "")
    # $JAX_DEFAULT_MATMUL_PRECISION is read when JAX is imported.
    asked_for = "jax.config.update('jax_default_matmul_precision', 'tensorfloat32')"
    assert ends(f"{asked_for}; {program}") == (0, "tensorfloat32\n", "")


def test_programs_for_32_bits_are_not_run_with_64():
    jax.config.update("jax_enable_x64", True)
    try:
        with pytest.raises(ValueError, match=r"JAX_ENABLE_X64 is set, .*: unset it"):
            start_up()
    finally:
        jax.config.update("jax_enable_x64", False)


JOINS_NOBODY = """
from ipsrl.distributed import start_up as module
module._join = lambda cluster: None
start_up(module.cores(), Cluster())
print(int(os.environ["PJRT_NPROC"]) / module.cores())
"""


def test_each_device_of_a_cluster_has_a_thread_more_than_it_computes_with(ends):
    """Else a thread that starts programs ahead can take the one that a collective waits for."""
    assert ends(JOINS_NOBODY) == (0, "2.0\n", "")


WAITS = """
jax.distributed.initialize = lambda *place, **seconds: print(seconds)
start_up(cluster=Cluster("a:9", 2, 0, heartbeat_timeout=7, join_timeout=8))
"""


def test_jax_waits_for_others_as_long_as_the_cluster_says(ends):
    _, said, _ = ends(WAITS)
    assert "'initialization_timeout': 8, 'heartbeat_timeout_seconds': 7" in said


def test_the_cache_folder(monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.setenv("IPSRL_CACHE", "")
    assert cache_folder() == Path.home() / ".cache" / "ipsrl"


def test_errors():
    with pytest.raises(ValueError, match="host_devices must lie between 1 and 1024, not 0"):
        start_up(host_devices=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"coordinator": "a:99999"}, "with a port from 1 to 65535"),
        ({"num_processes": 2, "process_id": 2}, "process_id is 2, it must be below num_processes, 2"),
    ],
)
def test_an_impossible_cluster_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Cluster(**fields)


def test_variables_of_the_environment_are_checked_like_fields(ends):
    _, _, said = ends("os.environ['JAX_NUM_PROCESSES'] = '-2'; start_up(cluster=Cluster('a:9', process_id=0))")
    assert "num_processes is -2, it must be at least 1" in said
