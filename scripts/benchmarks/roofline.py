"""Speed of matrix products and memory copies on this machine in JAX."""

import argparse
import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import measuring
from ipsrl.distributed.start_up import cores
from ipsrl.policies.matmul import matrix_product

# Sizes of the products of workload M: 16 prompts with 8 answers of 32 tokens, and its gated linear unit.
ROWS, INPUTS, OUTPUTS = 4096, 320, 1024
REPETITIONS = 20
COPIED = 2**26
"""Number of float32 values: far more than caches hold."""


@dataclasses.dataclass(frozen=True)
class Roofline:
    """Operations and bytes per second of all devices together.

    Attributes:
      devices: number of devices.
      float32, bfloat16: matrix products, two operations for each pair of factors; sums are float32 in both.
      copy: bytes read and written.
    """

    devices: int
    float32: float
    bfloat16: float
    copy: float


def add_command(commands: argparse._SubParsersAction) -> None:
    measuring.add_command(commands, "roofline", run, "measure matrix products and copies", runs=9, devices=cores())


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    found = measure(arguments.runs)
    print(
        f"{found.devices} devices: float32 {found.float32 / 1e9:.0f} and bfloat16 {found.bfloat16 / 1e9:.0f} GFLOP/s, "
        f"copies {found.copy / 1e9:.1f} GB/s"
    )
    return {"roofline": found}


def measure(runs: int) -> Roofline:
    """The best of several runs of all devices at once, each with its own work."""
    rates = {}
    for dtype in ("float32", "bfloat16"):
        product = jax.jit(lambda inputs, kernel, dtype=dtype: _products(inputs, kernel, dtype))
        seconds = _fastest(product, (jnp.ones((ROWS, INPUTS), dtype), jnp.ones((INPUTS, OUTPUTS), dtype)), runs)
        rates[dtype] = REPETITIONS * 2 * ROWS * INPUTS * OUTPUTS * jax.device_count() / seconds
    # The sum gives a result of the same size, in reused memory.
    copy = jax.jit(lambda numbers: numbers + 1, donate_argnums=0)
    seconds = _fastest(copy, (jnp.ones(COPIED),), runs)
    return Roofline(jax.device_count(), **rates, copy=2 * 4 * COPIED * jax.device_count() / seconds)


def _products(inputs: jax.Array, kernel: jax.Array, dtype: str) -> jax.Array:
    """Several products in sequence, none of which can be optimised away."""

    def once(_, kernel):
        product = matrix_product(inputs, kernel, dtype, "float32")
        return kernel + product[:INPUTS].astype(dtype) * 1e-9

    return jax.lax.fori_loop(0, REPETITIONS, once, kernel)


def _fastest(program, arguments: tuple[jax.Array, ...], runs: int) -> float:
    everywhere = [jax.device_put(arguments, device) for device in jax.local_devices()]
    times = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        results = jax.block_until_ready([program(*own) for own in everywhere])
        times.append(time.perf_counter() - started)
        if len(arguments) == 1:
            everywhere = [(result,) for result in results]
    return min(times[1:])
