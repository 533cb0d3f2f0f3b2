#!/usr/bin/env bash
# The tests: installs into .venv where needed, then runs pytest, on one process for each core.
#
#   scripts/test.sh                    what a change to the core can break, in minutes
#   scripts/test.sh --slow             everything; also compares with other people's trainers (PyTorch, verl, Tunix: 5 GB on disk)
#   scripts/test.sh --rest             what --slow runs and the default does not
#   scripts/test.sh --hostile          half an hour of bad input: commands, calls, and files and texts made at random
#   scripts/test.sh --objective=NAME   the generated tests of one row of the catalog, in one process
#   scripts/test.sh --pythons          on Python 3.11, 3.12 and 3.13, in .venv-3.11 and so on; --pythons=3.12 on that alone
#   scripts/test.sh -k hypergrid ...   further arguments go to pytest
#
# IPSRL_LATEST=1 installs the newest versions that setup.py allows instead of those of constraints.txt.
set -euo pipefail
source "$(dirname "$0")/environment.sh"
extras="dev"
arguments=()
objective=""
pythons=""
for argument in "$@"; do
    case "$argument" in
        --slow) extras="dev,peers"; arguments+=(-m "") ;;
        --rest) extras="dev,peers"; arguments+=(-m slow) ;;
        --pythons) pythons="3.11,3.12,3.13" ;;
        --pythons=*) pythons="${argument#*=}" ;;
        --hostile) arguments+=(-m "" --hostile tests/hostile) ;;
        --objective=*) objective="${argument#*=}" ;;
        *) arguments+=("$argument") ;;
    esac
done
if [ -n "$pythons" ]; then
    status=0
    rest=()
    for argument in "$@"; do
        [[ "$argument" == --pythons* ]] || rest+=("$argument")
    done
    for version in ${pythons//,/ }; do
        if ! python="$(interpreter "$version")"; then
            echo "error: there is no Python $version here: install it, for example by pyenv install $version" >&2
            status=1
            continue
        fi
        echo "Python $version: $python, in $VENV-$version" >&2
        IPSRL_PYTHON="$python" IPSRL_VENV="$VENV-$version" scripts/test.sh ${rest[@]+"${rest[@]}"} || status=$?
    done
    exit "$status"
fi
prepare "$extras"
if [ "$extras" = dev,peers ] && ! "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt reasoning-gym; then
    echo "reasoning-gym, which needs a C compiler, is not installed: its tests are skipped" >&2
fi
if [ "$extras" = dev,peers ]; then
    # Trainers whose requirements contradict ours have environments of their own.
    for trainer in verl tunix; do
        "$VENV/bin/python" -c "from scripts.benchmarks.peer_environments import python; python('$trainer')" 2>&1 | tail -n 1 >&2 ||
            echo "$trainer is not installed: its tests are skipped" >&2
    done
fi
# The tests start many processes: where this is set, each of them would compile the libraries' sources anew, for 4 seconds.
unset PYTHONDONTWRITEBYTECODE
# Before bash 4.4 an empty array counts as an unset variable.
run() { "$VENV/bin/python" -m pytest "$@" ${arguments[@]+"${arguments[@]}"}; }
if [ -n "$objective" ]; then
    run --devices=1 --objective="$objective" \
        tests/objectives/test_{catalog_properties,catalog_arguments,enumeration,token_values}.py \
        tests/checking/test_{specifications,refusals}.py
    exit
fi
# Each file stays in one process, whose programs its tests share; each process may take 6 GB of memory. In their order:
# by default the files with the fewest tests come last, and one of these alone takes minutes.
workers=(--numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder)
status=0
# The number of devices is fixed when JAX starts.
# Exit status 5: no test was selected for this number of devices, for example by -k.
for devices in 1 8; do
    run "${workers[@]}" --devices="$devices" || { failed=$?; [ "$failed" = 5 ] || status="$failed"; }
done
exit "$status"
