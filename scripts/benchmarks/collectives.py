"""Collective communication of a compiled program, read from its text."""

import dataclasses
import math
import re

import jax
import numpy as np

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)|(?:_computations|calls)=\{([^}]*)\}")
_COLLECTIVE = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(-start)?\(")
_ARRAY = re.compile(r"\b(pred|[a-z]\w*?\d+\w*)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective instruction.

    Attributes:
      kind: one of `KINDS`.
      shapes: of its result, or of its operand for a reduce-scatter: the whole arrays of a group of devices.
      bytes: of these shapes.
      group: numbers of the devices of the first group, whose members communicate with each other.
      times: number of executions; loops count with their number of rounds, or its maximum.
    """

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    group: tuple[int, ...]
    times: int

    @property
    def sent(self) -> float:
        """Bytes that a device sends in one execution, by the ring algorithms (arXiv 2006.16668 counts the same way)."""
        share = (len(self.group) - 1) / len(self.group)
        if self.kind == "collective-permute":
            return self.bytes
        return self.bytes * share * (2 if self.kind == "all-reduce" else 1)


def collectives(program: str) -> list[Collective]:
    """The collectives in a program's text (`compiled.as_text()`), from the compilers of CPU, GPU and TPU.

    The TPU compiler's "all-reduce-scatter" is an all-reduce of which each device computes only its own part, so it
    counts as a reduce-scatter. Groups of one device are left out.
    """
    computations, entry = _computations(program)
    times = _times(computations, entry)
    found = []
    for name, lines in computations.items():
        for line in lines:
            match = _COLLECTIVE.search(line)
            if not match or not times.get(name):
                continue
            result, kind, started = match.groups()
            group = _group(line)
            arrays = _ARRAY.findall(result)
            if started:
                # The result of a start is (operands, results); a permute also has a pair of counters.
                arrays = arrays[1:2] if kind == "collective-permute" else arrays[len(arrays) // 2 :]
            shapes = [tuple(int(size) for size in shape.split(",") if size) for _, shape in arrays]
            size = sum(_item_size(dtype) * math.prod(shape) for (dtype, _), shape in zip(arrays, shapes, strict=True))
            if kind == "reduce-scatter":
                size *= len(group)
            if name.startswith("all-reduce-scatter"):
                kind = "reduce-scatter"
            if len(group) > 1:
                found.append(Collective(kind, tuple(shapes), size, group, times[name]))
    return found


def _computations(program: str) -> tuple[dict[str, list[str]], str]:
    """The lines of each computation by its name, and the name of the entry computation."""
    computations: dict[str, list[str]] = {}
    entry, current = "", None
    for line in program.splitlines():
        opened = _COMPUTATION.match(line)
        if opened:
            current = opened[2]
            computations[current] = []
            entry = current if opened[1] else entry
        elif current is not None:
            computations[current].append(line)
    return computations, entry


def _times(computations: dict[str, list[str]], entry: str) -> dict[str, int]:
    """Number of executions of each computation."""
    calls: dict[str, list[tuple[str, int]]] = {}
    for name, lines in computations.items():
        calls[name] = []
        for line in lines:
            rounds = _rounds(line, computations) if " while(" in line else 1
            calls[name] += [(called, rounds) for called in _called(line) if called in computations]

    times = dict.fromkeys(computations, 0)

    def run(name, number):
        times[name] += number
        for called, rounds in calls[name]:
            run(called, number * rounds)

    run(entry, 1)
    return times


def _called(line: str) -> list[str]:
    """The computations called by an instruction."""
    return [name for one, many in _CALLED.findall(line) for name in (one or many).replace("%", "").split(", ")]


def _rounds(line: str, computations: dict[str, list[str]]) -> int:
    """Rounds of a while loop: known to the compiler, or the number with which its condition compares its counter."""
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"', line)
    if known:
        return int(known[1])
    condition = re.search(r"condition=%?([\w.\-]+)", line)[1]
    body = list(computations[condition])
    for inner in computations[condition]:
        for called in _called(inner):
            body += computations.get(called, [])
    constants = [int(number) for line in body for number in re.findall(r"= [su]32\[\]\S* constant\((\d+)\)", line)]
    if not constants:
        raise ValueError(f"the condition {condition!r} of a loop has no number of rounds")
    return max(constants)


def _group(line: str) -> tuple[int, ...]:
    """Devices of the first group of a collective."""
    pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
    if pairs:
        moves = [tuple(map(int, pair.split(","))) for pair in pairs[1].strip("{").split("},{")]
        return next((pair for pair in moves if pair[0] != pair[1]), moves[0][:1])
    groups = re.search(r"replica_groups=(.*)", line)[1]
    listed = re.match(r"\{\{([\d,]+)\}", groups)
    if listed:
        return tuple(int(number) for number in listed[1].split(","))
    mesh = re.match(r"mesh\[(.*?)\](?:, device_ids=\((.*?)\))? \{(.*?)\}", groups)
    if mesh:
        axes, order, across = mesh.groups()
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", axes)}
        devices = _iota(order) if order else np.arange(math.prod(sizes.values()))
        chosen = re.findall(r"'(\w+)'", across)
        others = [number for number, name in enumerate(sizes) if name not in chosen]
        own = [number for number, name in enumerate(sizes) if name in chosen]
        devices = devices.reshape(tuple(sizes.values())).transpose(others + own)
        return tuple(devices.reshape(-1, math.prod(sizes[name] for name in chosen))[0].tolist())
    return tuple(_iota(groups)[0].tolist())


def _iota(text: str) -> np.ndarray:
    """Devices in the compiler's short form: "[2,4]<=[4,2]T(1,0)" is `arange(8).reshape(4, 2).T.reshape(2, 4)`."""
    shape, dimensions, order = (
        [int(number) for number in part.split(",")] if part else None
        for part in re.match(r"\[([\d,]+)\](?:<=\[([\d,]+)\])?(?:T\(([\d,]+)\))?", text).groups()
    )
    devices = np.arange(math.prod(shape)).reshape(dimensions or shape)
    devices = devices.transpose(order) if order else devices
    return devices.reshape(shape) if dimensions else devices


def _item_size(dtype: str) -> int:
    names = {"pred": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
    if dtype in names:
        return jax.numpy.dtype(names[dtype]).itemsize
    return max(1, int(re.search(r"\d+", dtype)[0]) // 8)
