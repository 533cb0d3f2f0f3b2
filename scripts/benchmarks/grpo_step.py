"""A whole step of GRPO: sampling, rewards and one update, by the training loop of the experiments.

As a program (`python -m benchmarks.grpo_step --workload=S`, in the folder of the scripts) it is a contender.
"""

import argparse
import dataclasses
import functools
import importlib.metadata
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import contender, measuring, roofline, workloads
from benchmarks.workloads import WORKLOADS, Batch, Workload
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.distributed.start_up import cores, start_up
from ipsrl.environments.token_stream import TokenStream
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.source import Groups
from ipsrl.structures import Outcomes, Prompts, Trajectories
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching, TrainState, compiled_update
from ipsrl.training.trainer import Trainer

COMPILATION = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True)
class EvenTokens(TokenStream):
    """Answers of a fixed length to random prompts; the reward is the share of even tokens, as `workloads.reward`."""

    batch: Batch

    verifies_on_host: ClassVar[bool] = False
    # No token ends an answer.
    stop_tokens: ClassVar[tuple[int, ...]] = (-1,)

    @property
    def vocabulary_size(self) -> int:
        return self.batch.vocabulary_size

    @property
    def max_tokens(self) -> int:
        return self.batch.completion_length

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        tokens = self.batch.prompt_tokens()
        return Prompts(np.arange(len(tokens)), tokens, np.ones(tokens.shape, bool))

    def verify(self, trajectories: Trajectories) -> Outcomes:
        even = trajectories.tokens % 2 == 0
        return Outcomes(rewards=even.mean(axis=-1), outcome_id=even.sum(axis=-1, dtype=jnp.int32))


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "grpo_step", run_command, "time whole steps of GRPO", runs=9, devices=cores()
    )
    command.add_argument("--workloads", default="S,M,L", help="of workloads.py, by default %(default)s")
    add_settings(command)


def run_command(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    names = measuring.chosen("workloads", arguments.workloads, WORKLOADS)
    settings = settings_of(arguments)
    rate = getattr(roofline.measure(arguments.runs), arguments.dtype)
    measured = {}
    print("workload  seconds a step         sampling  update  GFLOP a step  GFLOP/s of update  share of roofline")
    for name in names:
        with start(name, **settings) as ours:
            steps = [ours.step() for _ in range(arguments.runs)]
        spread = measuring.Spread.of([step["seconds"] for step in steps])
        sampling, update = (statistics.median(step[part] for step in steps) for part in ("sampling", "update"))
        # The backward pass has twice the operations of the forward pass.
        in_update = 3 * WORKLOADS[name].forward_operations(shared_prompt=True) / update
        measured[name] = {"seconds": spread, "sampling": sampling, "update": update, "description": ours.description}
        measured[name] |= {"operations": WORKLOADS[name].step_operations(), "share_of_roofline": in_update / rate}
        print(
            f"{name:8}  {spread!s:21}  {sampling:8.3f}  {update:6.3f}  "
            f"{WORKLOADS[name].step_operations() / 1e9:12.1f}  {in_update / 1e9:17.1f}  {in_update / rate:17.2f}",
            flush=True,
        )
    return {"grpo_step": measured, "roofline": rate}


def policy_of(workload: Workload, dtype: str) -> Transformer:
    """Qwen2 in the shape of a workload."""
    return Transformer(
        workload.vocabulary_size,
        hidden_size=workload.hidden_size,
        num_layers=workload.num_layers,
        num_heads=workload.num_heads,
        num_key_value_heads=workload.num_key_value_heads,
        intermediate_size=workload.intermediate_size,
        biases=("q_proj", "k_proj", "v_proj"),
        dtype=dtype,
    )


def compete(workload: Workload, dtype: str, micro_batches: int | None, host_devices: int | None, memory: bool) -> None:
    """Serves steps of a workload; with `memory`, the first reports the memory of its programs besides arguments.

    By default a CPU has one device per core, and each device one micro-batch per prompt: its cache holds one.
    """
    programs = Compilations()
    start_up(host_devices or math.gcd(cores(), workload.prompts))
    settings = train_settings(workload, micro_batches)
    trainer = Trainer(EvenTokens(workload), policy_of(workload, dtype), objectives.make("grpo"), settings)
    with jax.set_mesh(make_mesh()):
        serve(trainer, trainer.init(0), workload, dtype, programs, memory)


def train_settings(batch: Batch, micro_batches: int | None) -> TrainSettings:
    """Settings for a batch; by default, a device of a CPU has one micro-batch per prompt, other devices have one."""
    if micro_batches is None:
        micro_batches = batch.prompts // jax.device_count() if jax.default_backend() == "cpu" else 1
    return TrainSettings(
        steps=1,  # the loop's own number, not used here
        prompts_per_step=batch.prompts,
        group_size=batch.group_size,
        temperature=workloads.TEMPERATURE,
        learning_rate=batch.learning_rate,
        batching=Batching(micro_batches=micro_batches),
    )


class Compilations:
    """Number of programs compiled since it was made."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, _: float, **__: Any) -> None:
        self.count += event == COMPILATION


def serve(
    trainer: Trainer, state: TrainState, batch: Batch, dtype: str, programs: Compilations, memory: bool = False
) -> None:
    """Serves steps of a trainer on the mesh that is set, as `compete`."""
    done = 0

    def step() -> dict[str, Any]:
        nonlocal state, done
        (state, groups, _), sampling = contender.timed(lambda: jax.block_until_ready(trainer.ask(state)))
        (state, metrics), update = contender.timed(lambda: jax.block_until_ready(trainer.learn(state, groups)))
        done += 1
        report = {"temporary": temporary_memory(trainer, state, groups)} if memory and done == 1 else {}
        return report | {
            "reward": float(metrics["reward"]),
            "tokens": batch.tokens,
            "sampling": sampling["seconds"],
            "sampling_cpu": sampling["cpu_seconds"],
            "update": update["seconds"],
            "programs": programs.count,
        }

    parameters = jax.tree.leaves((state.parameters, trainer.frozen))
    micro_batches = trainer.settings.batching.micro_batches
    description = {
        "name": "ipsrl",
        "versions": {package: importlib.metadata.version(package) for package in ("ipsrl", "jax", "jaxlib")},
        "package": str(Path(objectives.__file__).parents[1]),
        "parameters": sum(leaf.size for leaf in parameters),
        "tokens_per_step": batch.tokens,
        "settings": {"dtype": dtype, "micro_batches": micro_batches, "devices": jax.device_count()},
    }
    contender.serve(description, step)


def temporary_memory(trainer: Trainer, state: TrainState, groups: Groups) -> dict[str, int]:
    """Bytes that the programs of a step hold besides their arguments and results, on one device."""
    settings = trainer.settings
    sampling = sample_groups.lower(
        trainer.environment,
        trainer.policy,
        state.parameters,
        groups[0].prompts,
        jax.random.key(0),
        settings.group_size,
        Decoding(settings.temperature),
    )
    update = compiled_update.lower(
        state,
        *groups,
        jax.random.key(0),
        None,
        policy=trainer.policy,
        objective=trainer.objective,
        optimizer=trainer.optimizer(),
        batching=settings.batching,
        temperature=settings.temperature,
    )
    return {
        name: lowered.compile().memory_analysis().temp_size_in_bytes
        for name, lowered in (("sampling", sampling), ("update", update))
    }


def start(
    workload: str,
    changes: dict[str, int] | None = None,
    environment: dict[str, str] | None = None,
    memory: bool = False,
    **settings: Any,
) -> contender.Contender:
    """A contender, not started yet.

    Args:
      workload: one of `WORKLOADS`.
      changes: fields of the workload that differ.
      environment: variables.
      memory: whether it reports the memory of its programs.
      settings: flags of the program.
    """
    flags = [f"--{name}={value}" for name, value in settings.items() if value is not None]
    command = [sys.executable, "-m", "benchmarks.grpo_step", f"--workload={workload}", *flags]
    if memory:
        command.append("--memory")
    if changes:
        command.append(f"--changes={json.dumps(changes)}")
    folder = {"PYTHONPATH": str(Path(__file__).parents[1])}
    return contender.Contender(f"ipsrl on {workload}", command, folder | (environment or {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--changes", type=json.loads, default={}, help="fields of the workload that differ, as JSON")
    parser.add_argument("--memory", action="store_true", help="report the memory of programs")
    add_settings(parser)
    arguments = parser.parse_args()
    workload = dataclasses.replace(WORKLOADS[arguments.workload], **arguments.changes)
    try:
        compete(workload, memory=arguments.memory, **settings_of(arguments))
    except ValueError as error:
        sys.exit(f"error: {error}")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The flags that set how a step is computed."""
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16", help="by default %(default)s")
    parser.add_argument("--micro_batches", type=int, help="by default one for each prompt of a CPU device, else one")
    parser.add_argument("--host_devices", type=int, help="by default one for each core, if they divide the prompts")


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The values of these flags."""
    return {name: getattr(arguments, name) for name in ("dtype", "micro_batches", "host_devices")}


if __name__ == "__main__":
    main()
