"""Set-up that all tests share: devices, compiled programs, and the choice of files and rows that a run is for.

The number of devices is fixed when JAX starts. `pytest` gives all tests eight CPU devices; `--devices=1` runs the files
that do not ask for more, which is faster, and `--devices=8` runs the others, which say
`pytestmark = pytest.mark.eight_devices`. `--objective=NAME` runs the generated tests of one row of the catalog.
`--hostile` lets fuzzers try many examples.
"""

import os
import re
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import jax
import pytest
from absl import logging
from jax import monitoring

from ipsrl.distributed.start_up import cache_folder, start_up
from tests import fast_compilation
from tests.tiers import HOSTILE, in_slow_folder

COMPILATION = cache_folder() / "compilation"
MOST_MEMORY = 3 * 2**30
"""Bytes that a process may hold before it forgets its programs."""
MOST_PROGRAMS = 600
"""The number of programs that the tests of a file in the default run may compile, or read from the cache."""


def pytest_addoption(parser):
    parser.addoption("--devices", type=int, choices=(1, 8), help="only the files that need 1 or 8 CPU devices")
    parser.addoption("--objective", metavar="NAME", help="only the generated tests of this row of the catalog")

    parser.addoption("--hostile", action="store_true", help="fuzzers try many examples, each time others")


def pytest_configure(config):
    if config.getoption("--hostile"):
        os.environ[HOSTILE] = "1"
    config.addinivalue_line("markers", "eight_devices: of a file whose tests need eight CPU devices")
    # Commands that tests start inherit it.
    os.environ["XLA_FLAGS"] = fast_compilation.flags()
    start_up(host_devices=config.getoption("--devices") or 8)
    # In tests, what is compiled at all is compiled again and again.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if (name := config.getoption("--objective")) is not None:
        _check_declared(name)


def _check_declared(name):
    """Says in a sentence what keeps the tests of a row from running."""
    from ipsrl.checking.specifications import did_you_mean
    from ipsrl.objectives import names

    if name not in names():
        raise pytest.UsageError(f"unknown objective {name!r}; {did_you_mean(name, names())}")
    sys.path.insert(0, str(Path(__file__).parent / "objectives"))
    from tests.objectives.declared import ROWS

    try:
        row = ROWS[name]
    except LookupError as error:
        raise pytest.UsageError(str(error)) from None
    if row.tokens is None:
        raise pytest.UsageError(f"the Row of {name!r} declares no tokens: its loss off-policy, see token_values.py")


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    text, devices = collection_path.read_text(), config.getoption("--devices")
    other_devices = devices is not None and ("eight_devices" in text) != (devices == 8)
    # Imports take seconds, as PyTorch's, which only slow tests need.
    slow = re.search(r"^pytestmark = \[?\s*pytest\.mark\.slow", text, re.MULTILINE) or (
        _is_slow_by_its_folder(collection_path, config) and "pytest.mark.core" not in text
    )
    return True if other_devices or (slow and config.option.markexpr == "not slow") else None


def _is_slow_by_its_folder(path, config):
    """A file or folder that is named on the command line is run, whichever it is."""
    named = (Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args)
    return in_slow_folder(path) and not any(in_slow_folder(each) and path.is_relative_to(each) for each in named)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if _is_slow_by_its_folder(item.path, config) and item.get_closest_marker("core") is None:
            item.add_marker(pytest.mark.slow)
    name = config.getoption("--objective")
    if name is None:
        return

    def is_of_row(item):
        parameters = getattr(item, "callspec", None)
        found = parameters and (parameters.params.get("text") or parameters.params.get("name"))
        return isinstance(found, str) and found.partition("(")[0] == name

    config.hook.pytest_deselected(items=[item for item in items if not is_of_row(item)])
    items[:] = filter(is_of_row, items)


@pytest.fixture(scope="session", autouse=True)
def _fresh_cache_folder():
    """No test sees parameters that an earlier version of the code has cached; compiled programs are shared."""
    COMPILATION.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        os.symlink(COMPILATION, Path(folder) / "compilation")
        # Commands that tests start inherit it.
        patch.setenv("IPSRL_CACHE", folder)
        yield


@pytest.fixture(scope="module", autouse=True)
def _few_programs_are_compiled(request):
    """Keeps the default run short on any machine: further tests of a file share its programs, or are slow."""
    compiled = []

    def listen(event, seconds, **details):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(details.get("fun_name"))

    monitoring.register_event_duration_secs_listener(listen)
    yield
    monitoring.unregister_event_duration_listener(listen)
    if request.config.option.markexpr == "not slow":
        most = ", ".join(f"{name} ({times})" for name, times in Counter(compiled).most_common(5))
        assert len(compiled) <= MOST_PROGRAMS, f"{len(compiled)} programs are compiled, {MOST_PROGRAMS} at most: {most}"


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """JAX keeps every program it has compiled: thousands of them take gigabytes."""
    yield
    if _resident_memory() > MOST_MEMORY:
        jax.clear_caches()


def _resident_memory():
    """Bytes; where the system does not say so, as if it were too many."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return sys.maxsize
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module", autouse=True)
def _no_variable_is_left():
    """Fails if a test leaves a variable in the environment: commands of later tests in the process would read it."""
    before = {name: value for name, value in os.environ.items() if name.startswith("IPSRL")}
    yield
    assert {name: value for name, value in os.environ.items() if name.startswith("IPSRL")} == before


@pytest.fixture
def warnings_logged(monkeypatch):
    """Warnings by absl, which the test sees instead of the terminal."""
    lines = []
    monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append(text % values))
    return lines


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The folder of a small language model."""
    from scripts.make_checkpoint import make_checkpoint

    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    return str(make_checkpoint(folder, "qwen2", hidden_size=32, num_layers=1))


@pytest.fixture
def _ctrl_c_works():
    """A shell that runs the tests in the background makes them, and all that they start, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
