"""The whole suite runs with eight CPU devices and keeps its compiled programs between runs.

What is not sharded on purpose still runs on the first device.
"""

import os
import signal
import tempfile
from pathlib import Path

import jax
import pytest

from ipsrl.distributed.start_up import cache_folder, start_up

start_up(host_devices=8)


@pytest.fixture(scope="session", autouse=True)
def _fresh_cache_folder():
    """No test sees parameters that an earlier version of the code has cached; compiled programs are shared."""
    compilation = cache_folder() / "compilation"
    compilation.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        os.symlink(compilation, Path(folder) / "compilation")
        # Commands that tests start inherit it.
        patch.setenv("IPSRL_CACHE", folder)
        yield


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """JAX keeps every program it has compiled: thousands of them take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture
def _ctrl_c_is_heard():
    """A shell that runs the tests in the background makes them, and all that they start, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
