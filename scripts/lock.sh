#!/usr/bin/env bash
# Writes requirements.lock and constraints.txt anew, from setup.py and the newest versions that it allows, for Python 3.11
# and newer on any system. It needs uv. Further arguments go to uv: scripts/lock.sh --upgrade-package=jax
#
#   requirements.lock   what scripts/demo.sh installs, with uv and what builds ipsrl, with hashes
#   constraints.txt     the versions for all extras but cuda, tpu, tunix and verl, and for building packages; without
#                       hashes, because PyTorch's own index has other files
#
# Versions already there are kept where setup.py allows them; --upgrade takes the newest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v uv > /dev/null || { echo "error: uv is missing: pip install uv" >&2; exit 1; }
export UV_CUSTOM_COMPILE_COMMAND="scripts/lock.sh"
compile() { uv pip compile --quiet --no-config --universal --python-version=3.11 --output-file "$@"; }
tools() { printf '%s\n' 'uv' 'setuptools>=77'; }
tools | compile requirements.lock --generate-hashes "$@" setup.py -
tools |
    compile constraints.txt --no-annotate --extra=dev --extra=peers --extra=reasoning_gym --extra=docs --constraint=requirements.lock "$@" setup.py -
