#!/usr/bin/env bash
# The tests: installs into .venv where needed, then runs pytest. --slow runs the slow ones too, and those that compare
# with other people's trainers (PyTorch: 1.5 GB on disk); further arguments go to pytest: scripts/test.sh -k hypergrid
# One process for each core, as most of the time is compilation; each may take 6 GB of memory.
set -euo pipefail
source "$(dirname "$0")/environment.sh"
extras="dev"
arguments=()
for argument in "$@"; do
    if [ "$argument" = --slow ]; then
        extras="dev,peers"
        arguments+=(-m "")
    else
        arguments+=("$argument")
    fi
done
prepare "$extras"
# The tests start many processes: where this is set, each of them would compile the libraries' sources anew, for 4 seconds.
unset PYTHONDONTWRITEBYTECODE
# Before bash 4.4 an empty array counts as an unset variable.
exec "$VENV/bin/python" -m pytest --numprocesses=auto --maxprocesses=4 ${arguments[@]+"${arguments[@]}"}
