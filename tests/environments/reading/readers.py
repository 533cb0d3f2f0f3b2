"""Readers for the processes of the verifier pool: kept apart from the tests, so that processes import little."""

import dataclasses
import os
import signal
import sys
import time

from tests.hangs import HANGS


def upper(text):
    return text.upper()


def hang(text):
    """Stays in one C call, where no signal handler runs."""
    if "hang" in text:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(HANGS)
    return text


def die(text):
    if "die" in text:
        os._exit(3)
    return text


def recurse(text):
    return recurse(text + "!") if "recurse" in text else text


def exhaust(text):
    if "exhaust" in text:
        raise MemoryError
    return text


def mistaken(text):
    raise TypeError(f"cannot read {text}")


def count_calls(text):
    """Process and time: equal for texts that are read once."""
    return os.getpid(), time.perf_counter_ns()


def surroundings(text):
    return "jax" in sys.modules, os.environ.get("JAX_PLATFORMS"), os.getpid()


def platform_of_jax(text):
    import jax

    return jax.devices()[0].platform


@dataclasses.dataclass(frozen=True)
class FailingTool:
    """A tool that raises at once, or hangs for longer than anyone waits, as its name says."""

    name: str

    def __call__(self, argument):
        if self.name == "raise":
            raise ConnectionError(argument)
        time.sleep(HANGS)


@dataclasses.dataclass(frozen=True)
class SayingTool:
    """A tool that says the same always."""

    name: str
    words: str

    def __call__(self, argument):
        return self.words
