#!/usr/bin/env bash
# Runs an experiment on several nodes under SLURM, and again from its last checkpoint after preemption, the loss of a
# node, or the end of the time:
#
#   sbatch --partition=P scripts/slurm_example.sh experiments.hypospace --mesh=data:4,model:4 --out=/shared/folder/run
#
# One process runs on each node, with all its GPUs. With --ntasks-per-node=8 there is one for each of 8 GPUs: more
# processes verify answers, and each compiles for itself. --out must lie where every node sees it, and so must this
# repository with its .venv (or $IPSRL_VENV). DRY_RUN=1 prints the command and runs nothing.
#
#SBATCH --job-name=ipsrl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=ipsrl-%j.log
# A signal to this script, not to the run, two minutes before the time is up.
#SBATCH --signal=B:USR1@120
set -euo pipefail

if [ $# -eq 0 ] || [[ " $* " != *" --out="* ]]; then
    echo "error: name the experiment and a folder that every node sees: $0 experiments.NAME --out=FOLDER --flags" >&2
    exit 2
fi
cd "${SLURM_SUBMIT_DIR:-.}"

# JAX gives a process under SLURM one GPU, that of its number on the node, unless it is told which.
if [ "${SLURM_NTASKS_PER_NODE:-1}" = 1 ] && [ -n "${SLURM_GPUS_ON_NODE:-}" ]; then
    JAX_LOCAL_DEVICE_IDS="$(seq -s, 0 $((SLURM_GPUS_ON_NODE - 1)))"
    export JAX_LOCAL_DEVICE_IDS
fi

# Where one process ends, all do; the addresses of the others come from SLURM.
command=(
    srun --kill-on-bad-exit=1 "${IPSRL_VENV:-.venv}/bin/python" -m "$@" --multihost --resume
)
if [ -n "${DRY_RUN:-}" ]; then
    echo "JAX_LOCAL_DEVICE_IDS=${JAX_LOCAL_DEVICE_IDS:-}$(printf ' %q' "${command[@]}")"
    exit
fi

requeue() {
    if [ "${SLURM_RESTART_COUNT:-0}" -ge 100 ]; then
        echo "error: this job has started 100 times; it is not put into the queue again" >&2
        exit 1
    fi
    echo "$1: into the queue again" >&2
    scontrol requeue "$SLURM_JOB_ID"
    exit
}
trap 'requeue "the time is nearly up"' USR1

"${command[@]}" &
status=0
wait $! || status=$?
case "$status" in
    # 1, 2: the experiment says what is wrong with its input, and would say so again.
    0 | 1 | 2) exit "$status" ;;
    *) requeue "the run ended with status $status, as it does where a process is lost" ;;
esac
