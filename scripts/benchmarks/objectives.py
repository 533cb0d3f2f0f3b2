"""Weights, loss and gradient of every objective of the catalog, beside GRPO."""

import argparse
import dataclasses
import functools
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks import measuring
from ipsrl.checking import specifications
from ipsrl.objectives import Objective, make, names
from ipsrl.structures import PolicyScores, Rollouts
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes

YARDSTICK = "grpo"
LARGEST_RATIO = 3.0


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(commands, "objectives", run, "time every objective of the catalog", runs=21)
    command.add_argument("--only", help="objectives between commas, as in grpo,ips_grpo(alpha=0.5); all by default")
    command.add_argument("--shape", default="[64, 16, 512]", help="[P, G, T], by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    shape = read_shape(arguments.shape)
    chosen = specifications.split(arguments.only) if arguments.only is not None else names()
    timings = time_objectives(chosen, shape, arguments.runs)
    print(f"weights, loss and gradient on {list(shape)}, {arguments.runs} runs\n{table(timings)}")
    return {"shape": shape, "objectives": timings}


@dataclasses.dataclass(frozen=True)
class Timing:
    """One objective beside GRPO; seconds of one run.

    Attributes:
      objective: its specification.
      median, shortest, longest: of its runs.
      ratio: to GRPO, median over neighbouring runs.
      temporary: memory of its program besides inputs and outputs, in arrays [P, G, T] of float32.
      compilation: seconds; less if the program was in the cache.
    """

    objective: str
    median: float
    shortest: float
    longest: float
    ratio: float
    temporary: float
    compilation: float


def time_objectives(chosen: Sequence[str], shape: tuple[int, int, int], runs: int) -> list[Timing]:
    """Times objectives on random rollouts `[P, G, T]`, slowest first.

    Raises:
      ValueError: an objective is unknown, or needs larger groups; or there are fewer than five runs.
    """
    measuring.check_runs(runs)
    built = {text: make(text) for text in chosen}
    for objective in built.values():
        objective.check(objective.needs, shape[1], synthetic_sizes(shape[0]))
    kept = max(1, *(objective.top_tokens for objective in built.values()))
    batch = synthetic_rollouts(0, *shape, vocabulary=max(7, 2 * kept), top_tokens=kept)
    yardstick, _, _ = compiled(make(YARDSTICK), *batch)
    found = []
    for text, objective in built.items():
        program, temporary, compilation = compiled(objective, *batch)
        pairs = measuring.pairs(yardstick, program, runs)
        times = [own for _, own in pairs]
        found.append(
            Timing(
                objective=text,
                median=statistics.median(times),
                shortest=min(times),
                longest=max(times),
                ratio=statistics.median(own / reference for reference, own in pairs),
                temporary=temporary,
                compilation=compilation,
            )
        )
    return sorted(found, key=lambda timing: -timing.ratio)


def compiled(objective: Objective, rollouts: Rollouts, scores: PolicyScores):
    """A program without arguments, its temporary memory in arrays [P, G, T] of float32, and seconds to compile it."""
    # Rows without top tokens get no such arrays: they would copy zeros of that size as their gradient.
    kept = objective.top_tokens
    rollouts, scores = (
        dataclasses.replace(
            structure,
            **{
                field.name: getattr(structure, field.name)[..., :kept] if kept else None
                for field in dataclasses.fields(structure)
                if field.name.startswith("top_")
            },
        )
        for structure in (rollouts, scores)
    )
    sizes = synthetic_sizes(len(rollouts.rewards), vocabulary=int(rollouts.tokens.max()) + 1)
    arguments = (scores, objective.init_parameters(sizes), rollouts, objective.init(sizes))
    started = time.perf_counter()
    program = jax.jit(functools.partial(weigh_and_differentiate, objective)).lower(*arguments).compile()
    compilation = time.perf_counter() - started
    array_bytes = 4 * rollouts.tokens.size
    temporary = program.memory_analysis().temp_size_in_bytes / array_bytes
    return functools.partial(program, *arguments), temporary, compilation


def weigh_and_differentiate(objective: Objective, scores, parameters, rollouts, state):
    """The computation of one optimiser step for an objective: new state, and gradients of each of its steps."""
    weights, state, metrics = objective.weigh(rollouts, state)

    def loss(scores, parameters, weights):
        output = objective.loss(scores, rollouts, weights, parameters)
        return output.loss_sum, output

    differentiated = jax.grad(loss, argnums=(0, 1), has_aux=True)
    steps = objective.weights_of_steps(weights, rollouts)
    return state, metrics, [differentiated(scores, parameters, weights) for weights in steps]


def table(timings: Sequence[Timing]) -> str:
    """A text with one row for each objective."""
    width = max(len(timing.objective) for timing in timings)
    lines = [f"{'objective':{width}}  x GRPO  median ms  (shortest to longest)  temporary [P,G,T]  compiled in s"]
    for timing in timings:
        median, shortest, longest = (
            f"{1000 * number:.2f}" for number in (timing.median, timing.shortest, timing.longest)
        )
        lines.append(
            f"{timing.objective:{width}}  {timing.ratio:6.2f}  {median:>9}  {f'({shortest} to {longest})':21}  "
            f"{timing.temporary:17.2f}  {timing.compilation:13.1f}"
            + (f"  above {LARGEST_RATIO:g} x GRPO" if timing.ratio > LARGEST_RATIO else "")
        )
    return "\n".join(lines)


def read_shape(text: str) -> tuple[int, int, int]:
    """P, G and T of `[64, 16, 512]`.

    Raises:
      ValueError: the text is not three positive whole numbers.
    """
    try:
        shape = json.loads(text)
    except json.JSONDecodeError:
        shape = None
    if not (isinstance(shape, list) and len(shape) == 3 and all(type(size) is int and size > 0 for size in shape)):
        raise ValueError(f"--shape is {text!r}: write three positive whole numbers, as in [64, 16, 512]")
    return tuple(shape)
