"""Speed of ipsrl: `python scripts/benchmark.py objectives --only=grpo,ips_grpo --json=objectives.json`.

objectives        Weights of a batch, loss, and gradient by the policy's scores, of every objective of the catalog in
                  one compiled program, beside GRPO. A row's runs alternate with GRPO's, so that other work on the
                  machine affects both alike; the ratio is the median of the ratios of neighbouring runs. Half a minute
                  on two CPU cores.
expected_update   The exact mean of an objective's update over all groups of a bandit: of 16 answers over five outcomes
                  (4845 groups), and of 64 over three (2145). Half a minute.
shared_prompt     Scores and gradient of a transformer whose groups share their prompt, as always in ipsrl, beside the
                  same answers with one prompt each. A minute.
sequence_models   Scores, gradients and samples of a state-space model (Mamba) beside those of a transformer of
                  equal size, 64 answers of 64 tokens. Two minutes.
roofline          Speed of matrix products and memory copies on this machine in JAX. Ten seconds.
grpo_step         Whole steps of GRPO (sampling, rewards and an update) by the training loop, and the update's share of
                  the roofline. A minute.
compile           Seconds until the first step is done, without and with cached programs, and the number of programs
                  that a run of 50 steps compiles. A minute.
memory            Peak memory of a process with whole steps of GRPO, and the memory of its programs. A minute.
growth            Growth of a step's time with prompts, group size, prompt length, completion length, vocabulary and
                  parameters, and the exponent of each. Ten minutes.
peers             Whole steps of GRPO (sampling, rewards and an update) beside those of TRL's and Tunix's trainers, each
                  in its own virtual environment, which is made once. They alternate and need an otherwise idle
                  machine. Three minutes for --workloads=S, more for M and L.
bridge            Steps of TRL's trainer (sampling, rewards, loss, gradient) with its own GRPO beside those with an
                  objective of ipsrl, --objective, which alternate in one process; and the programs that ragged answers
                  compile. Needs the extra [trl]. A minute.
language_model    Whole steps of GRPO with LoRA on SmolLM2, of 4 x 16 answers of 5 tokens and of 8 x 16 of 64, beside
                  those of TRL's trainer and, with --against=DIR, of an older clone of this repository: seconds, tokens,
                  memory, and the time to the first step. They alternate and need an otherwise idle machine. Half an
                  hour; five minutes for --sizes=trial --dtypes=bfloat16.
hypergrid         Trajectories per second on hypergrids, and seconds until the distribution of final cells is near its
                  target, beside gfnx and torchgfn, which alternate with ipsrl. Half an hour, a minute for --grids=2x8.
bandit            Updates per second of 4096 bandit runs in one program, beside one process of specialised NumPy code.
                  Half a minute.
agents            Turns per second of environments that answer the policy, in batches of 64 prompts and groups of 16:
                  `interview`, dialogues of 40 turns, and `search_agent`, up to five look-ups and an answer; each with a
                  table and a small transformer. A minute.
sweeps            256 seeds of two_outcomes by scripts/sweep.py --launcher=vmap, beside one process for each seed, of
                  which a sample is timed, or all with --all. Four minutes; --all takes a quarter of an hour.

Every command accepts --runs=N, --extensions=my_module and --json=FILE; the file also describes the machine, its load
and the versions.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.benchmark")
    # Where it runs as a module, Python does not put its folder on the path.
    sys.path.append(str(Path(__file__).parent))

from benchmarks import (
    agents,
    bandit,
    bridge,
    compilation,
    expected_update,
    growth,
    grpo_peers,
    grpo_step,
    hypergrid,
    language_model,
    measuring,
    memory,
    objectives,
    roofline,
    sequence_models,
    shared_prompt,
    sweeps,
)
from ipsrl.command import extensions
from ipsrl.command.ending import Ending
from ipsrl.distributed.start_up import start_up
from ipsrl.records.json_files import require_file, write_json

COMMANDS = (
    objectives,
    expected_update,
    shared_prompt,
    sequence_models,
    roofline,
    grpo_step,
    compilation,
    memory,
    growth,
    grpo_peers,
    bridge,
    language_model,
    hypergrid,
    bandit,
    agents,
    sweeps,
)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = made.add_subparsers(required=True)
    for module in COMMANDS:
        module.add_command(commands)
    for command in commands.choices.values():
        command.add_argument("--extensions", default="", help=extensions.FLAG_HELP)
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if --json cannot be a file."""
    if arguments.json is not None:
        require_file(arguments.json, "--json")


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    with Ending():
        check(arguments)
        # Contenders are processes of their own, and share an accelerator with this one.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        start_up(arguments.devices)
        extensions.load(arguments.extensions)
        before = measuring.machine()
        record = arguments.run(arguments)
        print(
            f"{before['devices'][0]}, {before['cpus']} CPUs, load {before['load'][0]:.1f} before and "
            f"{os.getloadavg()[0]:.1f} after, jax {before['jax']}"
        )
        if arguments.json is not None:
            record |= {"runs": arguments.runs, "machine": before, "load_after": os.getloadavg()}
            write_json(arguments.json, record)


if __name__ == "__main__":
    main()
