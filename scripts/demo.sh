#!/usr/bin/env bash
# The main job: installs into .venv where needed, then trains GRPO, IPS-GRPO and ProGRPO on HypoSpace and shows what is
# left of the outcomes. Further arguments go to the experiment: scripts/demo.sh --preset=smoke --out=/tmp/smoke
set -euo pipefail
source "$(dirname "$0")/environment.sh"
prepare ""
echo "Learning a prior, then 3 objectives x 5 seeds: about 7 minutes on two cores." >&2
exec "$VENV/bin/python" -m experiments.hypospace --preset=demo --resume "$@"
