"""How fast ipsrl is: `python scripts/benchmark.py objectives --only=grpo,ips_grpo --json=objectives.json`.

objectives        Weights of a batch, loss, and gradient by the policy's scores, of every objective of the catalog in
                  one compiled program, beside GRPO. A row's runs alternate with GRPO's, so that other work on the
                  machine hits both alike; the ratio is the median of the ratios of neighbours. Half a minute on two
                  CPU cores.
expected_update   The exact mean of an objective's update over all groups of a bandit: of 16 answers over five outcomes
                  (4845 groups), and of 64 over three (2145). Half a minute.
shared_prompt     Scores and gradient of a transformer where a group of answers shares its prompt, as it always does
                  here, beside the same answers each with a prompt of its own. A minute.
roofline          How fast this machine multiplies matrices and copies memory, as JAX reaches it. Ten seconds.
grpo_step         Whole steps of GRPO, sampling, rewards and an update, by the loop that experiments use, and what share
                  of the roofline the update reaches. A minute.
compile           Seconds until the first step is done, without and with programs that an earlier run has compiled, and
                  how many programs a run of 50 steps compiles. A minute.
memory            The most memory that a process with whole steps of GRPO takes, and what its programs hold. A minute.
growth            How the time of a step grows with prompts, group size, prompt length, completion length, vocabulary
                  and parameters, and the exponent of each. Ten minutes.
peers             Whole steps of GRPO, sampling, rewards and an update, beside those of TRL's and Tunix's trainers, each
                  in a virtual environment of its own that is made once. They take turns: it wants a machine with
                  nothing else to do. Three minutes for --workloads=S, more for M and L.
hypergrid         Trajectories per second on hypergrids, and seconds until the distribution of final cells is near its
target,
                  beside gfnx and torchgfn, which take turns with us as above. Half an hour, and a minute for
                  --grids=2x8.
bandit            Updates of groups per second of 4096 runs on a bandit in one program, beside one process of NumPy that
                  was written for the bandit alone. Half a minute.
sweeps            256 seeds of two_outcomes by scripts/sweep.py --launcher=vmap, beside a process for each seed, of
                  which a sample is timed, or all with --all. Four minutes; --all takes a quarter of an hour.

Every command takes --runs=N and --json=FILE; the file names the machine, its load and the versions as well.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks import (
    bandit,
    compilation,
    expected_update,
    growth,
    grpo_peers,
    grpo_step,
    hypergrid,
    measuring,
    memory,
    objectives,
    roofline,
    shared_prompt,
    sweeps,
)
from ipsrl.distributed.start_up import start_up
from ipsrl.records.json_files import write_json

COMMANDS = (
    objectives,
    expected_update,
    shared_prompt,
    roofline,
    grpo_step,
    compilation,
    memory,
    growth,
    grpo_peers,
    hypergrid,
    bandit,
    sweeps,
)


def main(command_line: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for module in COMMANDS:
        module.add_command(commands)
    arguments = parser.parse_args(command_line)
    start_up(arguments.devices)
    try:
        if arguments.json is not None:
            measuring.check_file(arguments.json)
        before = measuring.machine()
        record = arguments.run(arguments)
        print(
            f"{before['devices'][0]}, {before['cpus']} CPUs, load {before['load'][0]:.1f} before and "
            f"{os.getloadavg()[0]:.1f} after, jax {before['jax']}"
        )
        if arguments.json is not None:
            record |= {"runs": arguments.runs, "machine": before, "load_after": os.getloadavg()}
            write_json(arguments.json, record)
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
