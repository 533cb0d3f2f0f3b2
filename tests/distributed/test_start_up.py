"""Start-up in a fresh process, where JAX has not been used yet."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from ipsrl.distributed.start_up import Cluster, cache_folder, start_up

# Long enough to compile that it is worth keeping on any machine.
PROGRAM = """
import jax
from ipsrl.distributed.start_up import start_up
start_up(host_devices=3)
print(len(jax.devices()))
@jax.jit
def program(x):
    for _ in range(12):
        x = jax.numpy.linalg.inv(jax.numpy.sin(x @ x))
    return x
program(jax.numpy.eye(5)).block_until_ready()
"""


def test_devices_and_compiled_programs(tmp_path):
    """Programs are kept, and found again in a folder that was moved."""
    kept = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        environment = {**os.environ, "IPSRL_CACHE": str(folder)}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "3\n"
        assert done.stderr == ""
        kept.append({file.name for file in (folder / "compilation").iterdir()})
        if folder.name == "first":
            folder.rename(tmp_path / "second")
    # How long it took to compile decides whether a small program is kept; this one is looked for by its name.
    assert any(name.startswith("jit_program") for name in kept[0])
    assert {name for name in kept[0] ^ kept[1] if name.startswith("jit_program")} == set()


@pytest.mark.parametrize(("variable", "precision"), [(None, "highest"), ("tensorfloat32", "tensorfloat32")])
def test_float32_is_not_rounded_unless_asked_for(variable, precision):
    others = {name: value for name, value in os.environ.items() if name != "JAX_DEFAULT_MATMUL_PRECISION"}
    program = "import jax; from ipsrl.distributed.start_up import start_up; start_up()"
    program += "; print(jax.config.jax_default_matmul_precision)"
    environment = others | ({} if variable is None else {"JAX_DEFAULT_MATMUL_PRECISION": variable})
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{precision}\n"


def test_programs_for_32_bits_are_not_run_with_64():
    jax.config.update("jax_enable_x64", True)
    try:
        with pytest.raises(ValueError, match=r"JAX_ENABLE_X64 is set, .*: unset it"):
            start_up()
    finally:
        jax.config.update("jax_enable_x64", False)


JOINS_NOBODY = """
import os
from ipsrl.distributed import start_up
start_up._join = lambda cluster: None
start_up.start_up(start_up.cores(), start_up.Cluster())
print(int(os.environ["PJRT_NPROC"]) / start_up.cores())
"""


def test_each_device_of_a_cluster_has_a_thread_more_than_it_computes_with():
    """Else a thread that starts programs ahead can take the one that a collective waits for."""
    done = subprocess.run([sys.executable, "-c", JOINS_NOBODY], capture_output=True, text=True, check=True)
    assert done.stdout == "2.0\n"


WAITS = """
import jax
from ipsrl.distributed.start_up import Cluster, start_up
jax.distributed.initialize = lambda *place, **seconds: print(seconds)
start_up(cluster=Cluster("a:9", 2, 0, heartbeat_timeout=7, join_timeout=8))
"""


def test_jax_waits_for_others_as_long_as_the_cluster_says():
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, check=True)
    assert "'initialization_timeout': 8, 'heartbeat_timeout_seconds': 7" in done.stdout


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
        ({"coordinator": "a:0"}, "with a port from 1 to 65535"),
        ({"num_processes": -2}, "num_processes is -2, it must be at least 1"),
        ({"process_id": -1}, "process_id is -1, it must be at least 0"),
        ({"num_processes": 2, "process_id": 2}, "process_id is 2, it must be below num_processes, 2"),
        ({"join_timeout": 0}, "join_timeout is 0, it must be at least 1"),
    ],
)
def test_an_impossible_cluster_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Cluster(**fields)


def test_variables_of_the_environment_are_checked_like_fields():
    program = "from ipsrl.distributed.start_up import *; start_up(cluster=Cluster('a:9', process_id=0))"
    environment = os.environ | {"JAX_NUM_PROCESSES": "-2"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "num_processes is -2, it must be at least 1" in done.stderr
