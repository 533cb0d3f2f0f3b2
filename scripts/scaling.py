"""Writes docs/scaling.md: communication, memory and least time of a step on a mesh.

    python scripts/scaling.py --document=docs/scaling.md

Nothing is computed and no accelerator is needed: programs are compiled ahead of time, from shapes, for TPU v5p by the
compiler in the wheel `libtpu`. Install it with `pip install -e ".[tpu]"` in a separate environment. Twenty minutes on
two busy CPU cores.
"""

import argparse
import dataclasses
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.scaling")

import jax
from jax.sharding import Mesh

from benchmarks.step_programs import Text, Workload, compiled, lower, make_mesh
from ipsrl import extras
from ipsrl.checking.paths import require_possible
from ipsrl.command.ending import Ending
from ipsrl.distributed.mesh import DATA
from ipsrl.distributed.placement import check_units
from ipsrl.policies.rotary import Rotary
from ipsrl.policies.transformer import Transformer

QWEN_7B = Transformer(
    152064,
    hidden_size=3584,
    num_layers=28,
    num_heads=28,
    num_key_value_heads=4,
    intermediate_size=18944,
    rotary=Rotary(theta=1e6),
    biases=("q_proj", "k_proj", "v_proj"),
    tie_embeddings=False,
    dtype="bfloat16",
    remat="layer",
)
"""The shape of Qwen2.5-7B."""

SMALL = Transformer(4096, hidden_size=512, num_heads=8, num_key_value_heads=8, intermediate_size=2048, dtype="bfloat16")


@dataclasses.dataclass(frozen=True)
class Machine:
    """Published peaks of one device, and the speed of gathering a matrix that is sharded over all devices on each.

    Attributes:
      name: of the machine.
      devices: number of devices.
      operations: bf16, a second.
      memory: bytes a second of its own memory.
      gathering: bytes a second that arrive at the device with the slowest links.
      sources: sources of the numbers, and the derivation of the last one.
    """

    name: str
    devices: int
    operations: float
    memory: float
    gathering: float
    sources: str


V5P_64 = Machine(
    name="v5p-64",
    devices=32,
    operations=459e12,
    memory=2765e9,
    gathering=300e9,
    sources="[Cloud TPU v5p](https://cloud.google.com/tpu/docs/v5p): 459 TFLOP/s, 95 GiB and 2765 GB/s a chip, 1200 "
    "GB/s in both directions over six links, so 100 GB/s a link and direction. Names count TensorCores, two to a chip: "
    "v5p-64 is 32 chips, 2x4x4. A slice smaller than 4x4x4 has no wrap-around links, and a corner has three: 300 GB/s.",
)
H200_64 = Machine(
    name="64 H200",
    devices=64,
    operations=989e12,
    memory=4800e9,
    gathering=400e9 * 8 / 7,
    sources="[H200](https://www.nvidia.com/en-us/data-center/h200/): 1979 TFLOP/s with sparsity, so 989 without, 141 "
    "GB and 4.8 TB/s, NVLink 450 GB/s in each direction; [DGX H200](https://docs.nvidia.com/dgx/dgxh200-user-guide/): "
    "eight ports of 400 Gb/s InfiniBand to eight GPUs. All GPUs of a node together receive the 7/8 of a matrix that "
    "other nodes hold at 400 GB/s, so a whole one at 457 GB/s; NVLink is as fast.",
)


def eight_devices() -> str:
    """The table of communication and memory of a small model on meshes of eight devices."""
    workload = Workload(SMALL, Text(SMALL.vocabulary_size, 32, 64), prompts=64, group_size=8, micro_batches=2)
    lines = [
        "| mesh | program | collective | over | instructions | runs | KiB sent by a device |",
        "|---|---|---|---|---|---|---|",
    ]
    held = [
        "| mesh | state, KiB a device | share of all | train step, KiB beside | sampling, KiB beside |",
        "|---|---|---|---|---|",
    ]
    in_all = None
    for data, model in ((8, 1), (4, 2), (2, 4), (1, 8)):
        mesh = make_mesh("v5p:2x2x2", data=data, model=model)
        update, sampler = (compiled(lowered, mesh) for lowered in lower(workload, mesh))
        for name, program in (("train step", update), ("sampling", sampler)):
            for (kind, axes), (instructions, runs, sent) in program.sent().items():
                lines.append(
                    f"| {data}x{model} | {name} | {kind} | {axes} | {instructions} | {runs} | {sent / 1024:,.0f} |"
                )
        in_all = _bytes_of_state(workload.policy)
        held.append(
            f"| {data}x{model} | {update.donated / 1024:,.0f} | 1 / {in_all / update.donated:.2f} | "
            f"{update.temporary / 1024:,.0f} | {sampler.temporary / 1024:,.0f} |"
        )
    return "\n".join([*held, "", *lines])


def _bytes_of_state(policy: Transformer) -> int:
    parameters = jax.eval_shape(policy.init, jax.random.key(0))
    return 3 * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(parameters))


def seven_billion() -> str:
    """The table of the least time of a train step of a model with seven billion parameters."""
    environment = Text(QWEN_7B.vocabulary_size, 256, 1024)
    whole = Workload(QWEN_7B, environment, prompts=256, group_size=8, micro_batches=8)
    mesh = make_mesh("v5p:2x4x4", data=32, model=1)
    check_units(QWEN_7B.placement_rules, mesh)
    one, two = (
        compiled(
            lower(dataclasses.replace(whole, policy=dataclasses.replace(QWEN_7B, num_layers=layers)), mesh)[0], mesh
        )
        for layers in (1, 2)
    )

    def of_all_layers(measure):
        first, second = measure(one), measure(two)
        return first + (QWEN_7B.num_layers - 1) * (second - first)

    part = dataclasses.replace(
        whole,
        policy=dataclasses.replace(QWEN_7B, query_block=environment.max_tokens, logits_at_once=2**50),
        prompts=whole.prompts // whole.micro_batches,
        micro_batches=1,
    )
    single = Mesh(jax.devices("cpu")[:1], (DATA,))
    operations = lower(part, single)[0].cost_analysis()["flops"] * whole.micro_batches
    # Data through a device in an endless ring: a sum passes twice.
    passed = of_all_layers(
        lambda program: sum(one.bytes * one.times * (2 if one.kind == "all-reduce" else 1) for one in program.sends)
    )
    moved = of_all_layers(lambda program: program.bytes_accessed) * whole.micro_batches
    parameters = _bytes_of_state(QWEN_7B) / 12
    lines = [
        f"{parameters / 1e9:.2f} billion parameters, {whole.prompts} prompts of {environment.prompt_length} tokens, "
        f"{whole.group_size} answers of {environment.max_tokens} tokens each, one prompt on a device at a time; "
        f"{operations / 1e15:.1f} PFLOP, {operations / (6 * parameters * whole.tokens):.2f} times 6 N for each token "
        "of an answer (the prompts, the attention, and what rematerialisation computes again).",
        "",
        "| | v5p-64 | 64 H200 |",
        "|---|---|---|",
    ]
    columns = []
    for machine in (V5P_64, H200_64):
        rounds = V5P_64.devices / machine.devices
        compute = operations / machine.devices / machine.operations
        memory = moved * rounds / machine.memory
        communication = passed * rounds * (1 - 1 / machine.devices) / machine.gathering
        longest = max((compute, "the matrix units"), (memory, "the memory"), (communication, "communication"))
        columns.append(
            {
                "micro-batches": f"{whole.micro_batches * rounds:.0f}",
                "parameters and Adam, a device": f"{_bytes_of_state(QWEN_7B) / machine.devices / 1e9:.2f} GB",
                "matrix units at their peak": f"{compute:.2f} s",
                "memory at its peak": f"{memory:.2f} s",
                "matrices and gradients through each device": f"{passed * rounds / 1e9:,.0f} GB",
                "communication at its peak": f"{communication:.2f} s",
                "train step, all overlapped": f"{longest[0]:.2f} s ({longest[1]})",
                "train step, nothing overlapped": f"{compute + communication:.2f} s",
                "share of communication then": f"{communication / (compute + communication):.0%}",
            }
        )
    lines += [f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0]]
    return "\n".join(lines)


PAGE = """# Scaling

Written by `python scripts/scaling.py`; nothing here is measured on a machine. Programs are compiled ahead of time for
TPU v5p by its own compiler (libtpu, jax {version}), and their text and cost analysis are read. Rounds of loops are
counted.

Parameters, gradients and optimiser state are sharded over both axes of the mesh; a train step gathers a matrix over
`data` where it is used and scatters its gradient, both in bfloat16 (the unembedding once for all its blocks of logits,
and its gradient in float32); along `model` hidden states are summed, twice a block
and pass. A sampler gathers every matrix once for a rollout, before its loop over tokens, and inside the loop only
hidden states, heads and logits are summed over `model`.

## What eight devices send and hold

Two layers, 512 wide, 8 heads, vocabulary 4096, bfloat16; Adam; 64 prompts of 32 tokens, 8 answers of 64 tokens, two
micro-batches. State: parameters, Adam's moments, counters. Runs: rounds of loops included. Sent: by ring algorithms.

{eight}

The CPU compiler, used in the tests, sums whole gradients and slices them afterwards (all-reduce instead of
reduce-scatter), and moves gathers of matrices out of the loop over micro-batches; the sharding is the same, because one
partitioner decides it for all platforms.

## A model of seven billion parameters

The shape of Qwen2.5-7B (28 heads and 4 key-value heads, so `model` may be 1, 2 or 4), `data` alone, `remat="layer"`,
{seven}

One and two layers are compiled and the others extrapolated, because layers are alike. Operations are those of the
lowered program without loops, because a compiler counts the body of a loop once. Bytes moved by the memory are the
compiler's count times the micro-batches: loops inside a micro-batch, over blocks and over windows of gathered matrices,
count once, so the memory's time is a lower bound. The memory of a step besides its state is not extrapolated, because
it does not grow evenly with layers. A device of 64 runs the program of a device of 32 with half as many micro-batches,
and the TPU compiler's choices are assumed for the GPU.

The matrix units limit both machines. Every micro-batch gathers every matrix and sums every gradient, whatever its size:
half as many micro-batches, if their activations fit, halve the communication.

{sources}
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--document", type=Path, default=Path("docs/scaling.md"), help="path of the page")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if the page cannot be written there, or the extra [tpu] is missing."""
    require_possible(arguments.document.parent, "--document")
    extras.require("libtpu")


def main() -> None:
    arguments = parser().parse_args()
    with Ending():
        check(arguments)
        sources = "\n".join(f"- {machine.name}: {machine.sources}" for machine in (V5P_64, H200_64))
        page = PAGE.format(version=jax.__version__, eight=eight_devices(), seven=seven_billion(), sources=sources)
        arguments.document.write_text(page)


if __name__ == "__main__":
    main()
