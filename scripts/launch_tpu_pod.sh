#!/usr/bin/env bash
# Runs an experiment on all hosts of a Cloud TPU slice, and again from its last checkpoint where the slice is taken away:
#
#   scripts/launch_tpu_pod.sh --project=P --zone=us-east5-a --accelerator_type=v5p-64 --bucket=B -- \
#       experiments.hypospace --mesh=data:8,model:4
#
# It asks for the slice as a queued resource, waits for it, installs the current commit on every host, runs the
# experiment with --multihost --resume, and gives the slice back when it has ended. Results go to a folder of
# the bucket. The script has to live as long as the run: start it in tmux, or on a small machine of its own.
#
#   --project, --zone, --accelerator_type, --bucket   no defaults; also from the environment as PROJECT, ZONE,
#                         ACCELERATOR_TYPE, BUCKET. The bucket needs a hierarchical namespace, where folders are renamed
#                         whole, as checkpoints are:  gcloud storage buckets create gs://B --location=REGION \
#                         --uniform-bucket-level-access --enable-hierarchical-namespace
#   --runtime_version     by default what suits the accelerator (v5p, v6e, v5litepod, v4)
#   --name                of the slice, ipsrl by default
#   --folder              of the bucket, that of the slice's name by default
#   --capacity            spot (default), reserved or guaranteed
#   --retries             runs on a slice that was not taken away, and slices that are refused, before the script gives
#                         up; 3 by default
#   --dry_run             prints the commands, in their order, and runs none
set -euo pipefail

PROJECT="${PROJECT:-}" ZONE="${ZONE:-}" ACCELERATOR_TYPE="${ACCELERATOR_TYPE:-}" BUCKET="${BUCKET:-}"
RUNTIME_VERSION="${RUNTIME_VERSION:-}" NAME="${NAME:-ipsrl}" CAPACITY="${CAPACITY:-spot}" RETRIES="${RETRIES:-3}"
POLL_SECONDS="${POLL_SECONDS:-30}"
folder="" dry_run=false

fail() {
    echo "error: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case "$1" in
        --project=*) PROJECT="${1#*=}" ;;
        --zone=*) ZONE="${1#*=}" ;;
        --accelerator_type=*) ACCELERATOR_TYPE="${1#*=}" ;;
        --runtime_version=*) RUNTIME_VERSION="${1#*=}" ;;
        --bucket=*) BUCKET="${1#*=}" ;;
        --name=*) NAME="${1#*=}" ;;
        --folder=*) folder="${1#*=}" ;;
        --capacity=*) CAPACITY="${1#*=}" ;;
        --retries=*) RETRIES="${1#*=}" ;;
        --dry_run) dry_run=true ;;
        --) shift; break ;;
        *) fail "unknown option $1: options of this script are written --name=value, and -- stands before the experiment" ;;
    esac
    shift
done
[ $# -gt 0 ] || fail "no experiment: end the command with -- experiments.NAME --flags"
for option in PROJECT ZONE ACCELERATOR_TYPE BUCKET; do
    [ -n "${!option}" ] || fail "--$(echo "$option" | tr '[:upper:]' '[:lower:]') is missing"
done
case "$CAPACITY" in
    spot | reserved | guaranteed) ;;
    *) fail "--capacity is $CAPACITY, it must be spot, reserved or guaranteed" ;;
esac
[[ "$RETRIES" =~ ^[0-9]{1,9}$ ]] || fail "--retries is $RETRIES, it must be a whole number"
if [ -z "$RUNTIME_VERSION" ]; then
    case "$ACCELERATOR_TYPE" in
        v5p-*) RUNTIME_VERSION=v2-alpha-tpuv5 ;;
        v6e-*) RUNTIME_VERSION=v2-alpha-tpuv6e ;;
        v5litepod-*) RUNTIME_VERSION=v2-alpha-tpuv5-lite ;;
        v4-*) RUNTIME_VERSION=tpu-ubuntu2204-base ;;
        *) fail "no runtime version is known for $ACCELERATOR_TYPE: give --runtime_version" ;;
    esac
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
part="[A-Za-z_][A-Za-z0-9_]*"
# A module, or a package with a module __main__.
file="${1//.//}"
if ! [[ "$1" =~ ^$part(\.$part)*$ ]] || ! grep -qsE "^ *(study\.)?main\(__(name|package)__\)" "$file.py" "$file/__main__.py"; then
    fail "there is no experiment $1 in this checkout: name one such as experiments.hypospace"
fi
# Flags are checked before minutes are spent on a slice, where there is an environment that can.
check='import sys
from ipsrl.command import early
from ipsrl.command.definitions import Module
name, *flags = sys.argv[1:]
early.refuse(lambda: Module("ipsrl.study.command_line").refuse(name, Module(name), ["-m", *flags, "--multihost"]))'
python="${IPSRL_VENV:-.venv}/bin/python"
if [ -x "$python" ] && ! said="$("$python" -c "$check" "$@" 2>&1)" && [[ "$said" == error:* ]]; then
    fail "${said#error: }"
fi
where=("--project=$PROJECT" "--zone=$ZONE")
resources=(gcloud compute tpus queued-resources)
hosts=(gcloud compute tpus tpu-vm)
archive="$(mktemp -d)/ipsrl.tar.gz"
trap 'rm -r "$(dirname "$archive")"' EXIT

# On every host. gcsfuse must not remember what other hosts change: each has to see the checkpoints of all.
install=$(cat <<'END'
set -e
mkdir -p ~/ipsrl ~/bucket
tar -xzf ~/ipsrl.tar.gz -C ~/ipsrl
if ! command -v gcsfuse; then
    echo "deb [signed-by=/usr/share/keyrings/cloud.google.asc] https://packages.cloud.google.com/apt gcsfuse-$(lsb_release -cs) main" |
        sudo tee /etc/apt/sources.list.d/gcsfuse.list
    curl -fsS https://packages.cloud.google.com/apt/doc/apt-key.gpg | sudo tee /usr/share/keyrings/cloud.google.asc > /dev/null
    sudo apt-get update -q
    sudo apt-get install -y -q gcsfuse
fi
mountpoint -q ~/bucket || gcsfuse --implicit-dirs --metadata-cache-ttl-secs=0 --metadata-cache-negative-ttl-secs=0 BUCKET ~/bucket
curl -fsSL https://astral.sh/uv/install.sh | sh
~/.local/bin/uv venv --clear --python 3.12 ~/venv
~/.local/bin/uv pip install --python ~/venv/bin/python --editable ~/ipsrl[tpu]
END
)
install="${install/BUCKET/$(printf '%q' "$BUCKET")}"
run="cd ~/ipsrl && ~/venv/bin/python -m$(printf ' %q' "$@") --multihost --resume --out=\$HOME/bucket/$(printf '%q' "${folder:-$NAME}")"

call() {
    if $dry_run; then
        printf '%q ' "$@"
        echo
    else
        "$@"
    fi
}

state() {
    local said
    if said="$("${resources[@]}" describe "$NAME" "${where[@]}" "--format=value(state.state)" 2>&1)"; then
        echo "$said"
    elif [[ "$said" == *NOT_FOUND* ]]; then
        echo ABSENT
    else
        # The network, perhaps. Nothing is decided before it is known.
        echo "UNKNOWN: ${said//$'\n'/ }"
    fi
}

create() {
    call "${resources[@]}" create "$NAME" "--node-id=$NAME" "${where[@]}" "--accelerator-type=$ACCELERATOR_TYPE" \
        "--runtime-version=$RUNTIME_VERSION" "--scopes=https://www.googleapis.com/auth/cloud-platform" "--$CAPACITY"
}

delete() {
    call "${resources[@]}" delete "$NAME" "${where[@]}" --force --quiet
}

on_all_hosts() {
    call "${hosts[@]}" ssh "$NAME" "${where[@]}" --worker=all "--command=$1"
}

prepare() {
    # set -e does not reach into a condition.
    call git archive --format=tar.gz "--output=$archive" HEAD &&
        call "${hosts[@]}" scp "$archive" "$NAME:ipsrl.tar.gz" "${where[@]}" --worker=all &&
        on_all_hosts "$install"
}

if $dry_run; then
    create
    call "${resources[@]}" describe "$NAME" "${where[@]}" "--format=value(state.state)"
    echo "# until it says ACTIVE"
    prepare
    on_all_hosts "$run"
    echo "# where the slice is taken away meanwhile: the next command, and all again from the first"
    delete
    exit
fi

prepared=false failures=0 seen=""

count_failure() {
    failures=$((failures + 1))
    [ "$failures" -le "$RETRIES" ] || fail "$1 ($failures failures); what there is of the slice is kept, and its price" \
        "runs on until: $(dry_run=true && delete)"
}

while true; do
    now="$(state)"
    # Of the first look it is rather the project, the zone or the login: nothing has been asked for yet.
    [[ -n "$seen" || "$now" != UNKNOWN:* ]] || fail "gcloud cannot say whether there is a slice $NAME: ${now#UNKNOWN: }"
    [ "$now" = "$seen" ] || echo "$(date '+%F %T') slice $NAME: $now" >&2
    seen="$now"
    case "$now" in
        ABSENT)
            prepared=false
            create || count_failure "no slice could be asked for"
            ;;
        FAILED)
            count_failure "a slice was asked for, and refused"
            delete || true
            ;;
        SUSPENDED)
            delete || true
            ;;
        ACTIVE)
            if { $prepared || prepare; } && prepared=true && on_all_hosts "$run"; then
                delete
                exit
            fi
            # It takes a while until a slice that is taken away is called so.
            sleep "$POLL_SECONDS"
            if [ "$(state)" = ACTIVE ]; then
                count_failure "the run has failed on a slice that was not taken away"
            fi
            ;;
    esac
    sleep "$POLL_SECONDS"
done
