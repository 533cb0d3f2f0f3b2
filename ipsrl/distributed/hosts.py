"""Many hosts that run one program: work done by one for all, and checks that all agree.

One process runs on each host, and all run the same lines in the same order. Computation over the mesh needs nothing
from this module; it is for files, verification and reading arrays. With a single process it costs nothing.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Sharding

PyTree = Any
Result = TypeVar("Result")


# Prefixes of errors that would occur again: too little memory, or an impossible computation.
LASTING = ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "UNIMPLEMENTED")
# JAX raises some of its errors as ValueError.
STATUS = re.compile(r"[A-Z]+(_[A-Z]+)*: ")
# What native libraries write before they abort a process because another one is lost.
LAST_WORDS = re.compile(r"JAX distributed service detected fatal errors|gloo::\w+")


class OtherHostError(ValueError):
    """The first host refused to continue; the message is its own."""


def is_first() -> bool:
    """Whether this process writes the files."""
    # process_index() would initialise the accelerator; plotting must not.
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def place(tree: PyTree, sharding: Sharding) -> PyTree:
    """Places arrays by `sharding`. Values that only this process holds must be the same on every host.

    `jax.device_put` would compare such values over the network, array by array.
    """
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def place_one(leaf):
        if not _is_available_here(leaf):
            return jax.device_put(leaf, sharding)
        value = np.asarray(leaf)
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    return jax.tree.map(place_one, tree)


def to_host(tree: PyTree) -> PyTree:
    """Every array as a whole in NumPy, on every host; arrays sharded over hosts are gathered.

    Every process must call this. Waits until all devices of this process have the arrays: a CPU device that is 32
    programs behind blocks a thread which the others may need, see `start_up`.
    """
    jax.block_until_ready(tree)

    def fetch(leaf):
        if _is_available_here(leaf) or leaf.is_fully_replicated:
            return jax.device_get(leaf)
        return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.tree.map(fetch, tree)


def first_does(action: Callable[[], Result]) -> Result | None:
    """Lets the first host do something while the others wait; they return None.

    Raises:
      OtherHostError: on the others, with the message of the exception raised on the first host.
    """
    if jax.process_count() == 1:
        return action()
    result, error = None, None
    if is_first():
        try:
            result = action()
        except Exception as caught:
            error = caught
    message = broadcast(None if error is None else str(error))
    if error is not None:
        raise error
    if message is not None:
        raise OtherHostError(message)
    return result


def broadcast(value: Any) -> Any:
    """The first host's value on every host; it must be JSON. The values of the others are ignored."""
    if jax.process_count() == 1:
        return value
    encoded = json.dumps(value).encode() if is_first() else b""
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(encoded))))
    # Few different lengths, so that few programs are compiled.
    letters = np.zeros(max(1024, 1 << (length - 1).bit_length()), np.uint8)
    letters[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    return json.loads(multihost_utils.broadcast_one_to_all(letters)[:length].tobytes())


def all_hosts(flag: bool) -> bool:
    """Whether `flag` holds on every host."""
    return flag if jax.process_count() == 1 else bool(multihost_utils.process_allgather(np.bool_(flag)).all())


def require_same(value: Any, what: str) -> None:
    """Raises ValueError on every host if a JSON value, called `what`, differs between hosts."""
    if not all_hosts(broadcast(value) == value):
        raise ValueError(f"the {what} is not the same on all hosts: start the same command everywhere")


def may_be_a_loss(error: BaseException | None) -> bool:
    """Whether an exception looks like the loss of one of several hosts."""
    return _failure(error) is not None and jax.process_count() > 1


def _failure(error: BaseException | None) -> str | None:
    """The first line of JAX's error that has led to an exception, unless it would occur again; None without one."""
    # Raised again while it is handled, an error is one of its own causes.
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        raised_by_jax = isinstance(error, jax.errors.JaxRuntimeError) or (
            isinstance(error, ValueError) and STATUS.match(str(error)) and "os_error_code" not in str(error)
        )
        if raised_by_jax:
            return None if str(error).startswith(LASTING) else str(error).partition("\n")[0]
        error = error.__cause__ or error.__context__
    return None


def lost(reason: str) -> str:
    """The error text of a process that has lost its connection to another."""
    return (
        "error: the computation over all processes has failed, most likely because one of them has ended or never "
        f"started; start the run again on all hosts and let it resume ({reason})"
    )


@contextlib.contextmanager
def on_all_hosts() -> Generator[None]:
    """Runs its body on all hosts from start to end; wrapped around a whole program.

    If a computation over several hosts fails, most likely because one of them is lost, this process says so in one
    sentence and exits at once, because an orderly exit would wait for the lost host. The exit status is 75: trying
    again may help. All other exceptions pass, also those of computations that would fail again (`LASTING`).
    """
    try:
        yield
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices("wait for all")
    except Exception as error:
        if not may_be_a_loss(error):
            raise
        print(lost(_failure(error) or ""), file=sys.stderr, flush=True)
        os._exit(os.EX_TEMPFAIL)


def _is_available_here(leaf: Any) -> bool:
    """Whether this process can read the whole array without the others."""
    return not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
