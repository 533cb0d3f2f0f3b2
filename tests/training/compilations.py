"""Counts what is compiled."""

import contextlib
from collections.abc import Iterator

from jax import monitoring


@contextlib.contextmanager
def compilations_of(function: str) -> Iterator[list[float]]:
    """A list that grows by an entry, seconds, for every program that is compiled of a jitted function of that name.

    What this process has compiled before is not compiled again, and not counted: of an update with an optimiser made
    for the test there is nothing.
    """
    found = []

    def listen(event: str, seconds: float, **details: str) -> None:
        if event == "/jax/core/compile/backend_compile_duration" and details.get("fun_name") == f"jit({function})":
            found.append(seconds)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        monitoring.unregister_event_duration_listener(listen)
