"""How fast ipsrl is: `python scripts/benchmark.py objectives --only=grpo,ips_grpo --json=objectives.json`.

objectives        Weights of a batch, loss, and gradient by the policy's scores, of every objective of the catalog in
                  one compiled program, beside GRPO. A row's runs alternate with GRPO's, so that other work on the
                  machine hits both alike; the ratio is the median of the ratios of neighbours. Half a minute on two
                  CPU cores.
expected_update   The exact mean of an objective's update over all groups of a bandit: of 16 answers over five outcomes
                  (4845 groups), and of 64 over three (2145). Half a minute.
shared_prompt     Scores and gradient of a transformer where a group of answers shares its prompt, as it always does
                  here, beside the same answers each with a prompt of its own. A minute.
"""

import argparse
import dataclasses
import functools
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from ipsrl import specifications
from ipsrl.distributed.start_up import start_up
from ipsrl.dynamics.expected_update import expected_update
from ipsrl.objectives import Objective, make, names
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.synthetic import synthetic_rollouts, synthetic_sizes
from ipsrl.structures import PolicyScores, Prompts, Rollouts
from ipsrl.training.json_files import write_json
from ipsrl.training.warm_start import as_trajectories

YARDSTICK = "grpo"
LARGEST_RATIO = 3.0
FEWEST_RUNS = 5
BANDITS = ((5, 16), (3, 64))
"""Outcomes and group sizes of `expected_update`."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """One objective beside GRPO; seconds of one run.

    Attributes:
      objective: its specification.
      median, shortest, longest: of its runs.
      ratio: to GRPO, median over neighbouring runs.
      temporary: memory that its program takes besides inputs and outputs, in arrays [P, G, T] of float32.
      compilation: seconds, or less where the program was in the cache.
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
      ValueError: an objective is unknown, or its groups need more answers; or there are fewer than five runs.
    """
    if runs < FEWEST_RUNS:
        raise ValueError(f"{runs} runs are too few for a median: take {FEWEST_RUNS} at least")
    built = {text: make(text) for text in chosen}
    for objective in built.values():
        objective.check(objective.needs, shape[1], synthetic_sizes(shape[0]))
    kept = max(1, *(objective.top_tokens for objective in built.values()))
    batch = synthetic_rollouts(0, *shape, vocabulary=max(7, 2 * kept), top_tokens=kept)
    yardstick, _, _ = compiled(make(YARDSTICK), *batch)
    found = []
    for text, objective in built.items():
        program, temporary, compilation = compiled(objective, *batch)
        pairs = [pair(yardstick, program, swap=bool(number % 2)) for number in range(runs + 1)][1:]  # one to warm up
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
    # Rows that ask for no likeliest tokens have none: they would copy zeros of that size as their gradient.
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
    """All that one optimiser step asks of an objective: new state, and gradients of each of its stages."""
    weights, state, metrics = objective.weigh(rollouts, state)

    def loss(scores, parameters, stage):
        output = objective.loss(scores, rollouts, objective.at_stage(weights, rollouts, stage), parameters)
        return output.loss_sum, output

    differentiated = jax.grad(loss, argnums=(0, 1), has_aux=True)
    return state, metrics, [differentiated(scores, parameters, stage) for stage in range(objective.num_stages)]


def pair(first, second, swap: bool) -> tuple[float, float]:
    """Seconds of each; `swap` runs the second one first, since what a program leaves in the caches helps the next."""
    if swap:
        return pair(second, first, swap=False)[::-1]
    return seconds(first), seconds(second)


def seconds(program) -> float:
    """Of one run."""
    started = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - started


def machine() -> dict:
    """What a time means nothing without."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load": os.getloadavg(),
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
        "devices": [device.device_kind for device in jax.devices()],
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("ipsrl", "jax", "jaxlib", "numpy")},
    }


def table(timings: Sequence[Timing]) -> str:
    """As text, one row for each objective."""
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
      ValueError: these are not three positive whole numbers.
    """
    try:
        shape = json.loads(text)
    except json.JSONDecodeError:
        shape = None
    if not (isinstance(shape, list) and len(shape) == 3 and all(type(size) is int and size > 0 for size in shape)):
        raise ValueError(f"--shape is {text!r}: write three positive whole numbers, as in [64, 16, 512]")
    return tuple(shape)


def check_file(file: Path) -> None:
    """Raises ValueError where no file can be written there."""
    if not file.parent.is_dir():
        raise ValueError(f"--json is {str(file)!r}, but there is no folder {str(file.parent)!r}")
    if file.is_dir():
        raise ValueError(f"--json is {str(file)!r}, which is a folder: name a file")
    if not os.access(file.parent, os.W_OK):
        raise ValueError(f"--json is {str(file)!r}, but nothing can be written in {str(file.parent)!r}")


def objectives(arguments: argparse.Namespace) -> None:
    """The command `objectives`."""
    shape = read_shape(arguments.shape)
    if arguments.json is not None:
        check_file(arguments.json)
    chosen = specifications.split(arguments.only) if arguments.only is not None else names()
    before = machine()
    timings = time_objectives(chosen, shape, arguments.runs)
    after = os.getloadavg()
    print(
        f"weights, loss and gradient on {list(shape)}, {arguments.runs} runs, {before['devices'][0]}, "
        f"{before['cpus']} CPUs, load {before['load'][0]:.1f} before and {after[0]:.1f} after, jax {before['jax']}\n"
        f"{table(timings)}"
    )
    if arguments.json is not None:
        record = {"shape": shape, "runs": arguments.runs, "machine": before, "load_after": after}
        write_json(arguments.json, record | {"objectives": timings})


def time_expected_updates(chosen: Sequence[str], runs: int) -> list[dict]:
    """Seconds of the exact mean update of each objective, for each of `BANDITS`.

    Raises:
      ValueError: an objective is unknown, or needs text.
    """
    found = []
    for text in chosen:
        for outcomes, group_size in BANDITS:
            point = jnp.linspace(-0.5, 0.5, outcomes)
            mean = functools.partial(expected_update, make(text), point, 1 + point, group_size)
            started = time.perf_counter()
            jax.block_until_ready(mean())
            first = time.perf_counter() - started
            times = [seconds(mean) for _ in range(runs)]
            found.append(
                {
                    "objective": text,
                    "outcomes": outcomes,
                    "group_size": group_size,
                    "median": statistics.median(times),
                    "shortest": min(times),
                    "longest": max(times),
                    "first": first,
                }
            )
    return found


def expected_updates(arguments: argparse.Namespace) -> None:
    """The command `expected_update`."""
    if arguments.json is not None:
        check_file(arguments.json)
    before = machine()
    timings = time_expected_updates(specifications.split(arguments.only), arguments.runs)
    width = max(len(timing["objective"]) for timing in timings)
    print(f"{'objective':{width}}  outcomes  group size  median s  (shortest to longest)  first s")
    for t in timings:
        print(
            f"{t['objective']:{width}}  {t['outcomes']:8}  {t['group_size']:10}  {t['median']:8.3f}  "
            f"{'({shortest:.3f} to {longest:.3f})'.format(**t):21}  {t['first']:7.1f}"
        )
    if arguments.json is not None:
        record = {"runs": arguments.runs, "machine": before, "load_after": os.getloadavg()}
        write_json(arguments.json, record | {"expected_updates": timings})


@dataclasses.dataclass(frozen=True)
class PromptTiming:
    """Gradients of all scores of a batch with short or long prompts; seconds of one run.

    Attributes:
      prompt, answer: tokens of each.
      shared, repeated: medians.
      ratio: repeated to shared, median over neighbouring runs.
      operations: the same ratio of what the compiler counts.
    """

    prompt: int
    answer: int
    shared: float
    repeated: float
    ratio: float
    operations: float


def time_shared_prompts(lengths: Sequence[tuple[int, int]], prompts: int, group: int, runs: int) -> list[PromptTiming]:
    """Times each `(prompt, answer)` length of `prompts` groups of `group` answers."""
    policy = Transformer(512, hidden_size=320, num_heads=8, num_key_value_heads=8)
    parameters, found = policy.init(jax.random.key(0)), []

    @jax.jit
    def gradient(parameters, trajectories):
        return jax.grad(lambda parameters: policy.score(parameters, trajectories, 1.0).log_probs.sum())(parameters)

    for prompt, answer in lengths:
        tokens = jax.random.randint(jax.random.key(1), (prompts, prompt), 0, policy.vocabulary_size)
        answers = jax.random.randint(jax.random.key(2), (prompts, group, answer), 0, policy.vocabulary_size)
        programs, operations = [], []
        for copies in (1, group):
            shape = (prompts * copies, group // copies)
            repeated = Prompts(
                jnp.arange(shape[0]), jnp.repeat(tokens, copies, axis=0), jnp.ones((shape[0], prompt), bool)
            )
            batch = as_trajectories(repeated, answers.reshape(*shape, answer), jnp.full(shape, answer))
            program = gradient.lower(parameters, batch).compile()
            operations.append(program.cost_analysis()["flops"])
            programs.append(functools.partial(program, parameters, batch))
        pairs = [pair(*programs, swap=bool(number % 2)) for number in range(runs + 1)][1:]
        shared, repeated = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        found.append(PromptTiming(prompt, answer, shared, repeated, ratio, operations[1] / operations[0]))
    return found


def shared_prompts(arguments: argparse.Namespace) -> None:
    """The command `shared_prompt`."""
    if arguments.json is not None:
        check_file(arguments.json)
    before = machine()
    timings = time_shared_prompts(((32, 128), (128, 128), (256, 64)), prompts=2, group=8, runs=arguments.runs)
    print("prompt  answer  shared s  repeated s  ratio  ratio of operations")
    for t in timings:
        print(f"{t.prompt:6}  {t.answer:6}  {t.shared:8.3f}  {t.repeated:10.3f}  {t.ratio:5.2f}  {t.operations:19.2f}")
    if arguments.json is not None:
        record = {"runs": arguments.runs, "machine": before, "load_after": os.getloadavg()}
        write_json(arguments.json, record | {"shared_prompts": timings})


def main(command_line: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("objectives", help="time every objective of the catalog")
    command.set_defaults(run=objectives)
    command.add_argument("--only", help="objectives between commas, as in grpo,ips_grpo(alpha=0.5); all by default")
    command.add_argument("--shape", default="[64, 16, 512]", help="[P, G, T], by default %(default)s")
    command.add_argument("--runs", type=int, default=21, help="runs of each, by default %(default)s")
    command.add_argument("--json", type=Path, help="file for the results")
    command = commands.add_parser("expected_update", help="time exact means over all groups of a bandit")
    command.set_defaults(run=expected_updates)
    command.add_argument("--only", default="grpo,ips_grpo,trajectory_balance", help="by default %(default)s")
    command.add_argument("--runs", type=int, default=7, help="runs of each, by default %(default)s")
    command.add_argument("--json", type=Path, help="file for the results")
    command = commands.add_parser("shared_prompt", help="time groups that share their prompt beside those that do not")
    command.set_defaults(run=shared_prompts)
    command.add_argument("--runs", type=int, default=7, help="runs of each, by default %(default)s")
    command.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args(command_line)
    start_up()
    try:
        arguments.run(arguments)
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
