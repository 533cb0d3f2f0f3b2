#!/usr/bin/env bash
# The documentation site: installs into .venv where needed, then builds build/site. A warning is an error.
# Further arguments go to mkdocs: scripts/docs.sh --site-dir=/tmp/site
set -euo pipefail
source "$(dirname "$0")/environment.sh"
prepare docs
# Advertisements of successors of MkDocs, which the exact versions in setup.py need not.
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
exec "$VENV/bin/python" -m mkdocs build --strict --clean "$@"
