"""The scripts that start runs on TPU pods and under SLURM, with stand-ins for gcloud, srun and scontrol."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hangs import HANGS

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))
EXPERIMENT = ["experiments.hypospace", "--mesh=data:8,model:4", "--objectives=grpo,ips_grpo(floor=0.2)"]
TPU = ["--project=mine", "--zone=us-east5-a", "--accelerator_type=v5p-64", "--bucket=results"]
ABSENT = "fail NOT_FOUND: no such resource"

# Writes down how it was called, and does what the test has said for the first word that fits.
STAND_IN = """#!/usr/bin/env bash
printf '%q ' "$(basename "$0")" "$@" | tr '\\n' ' ' >> "$LOG"; echo >> "$LOG"
for word in "$(basename "$0")" "$@"; do
    next="$ANSWERS/$word"
    if [ -s "$next" ]; then
        answer="$(head -n 1 "$next")"; sed -i 1d "$next"
        if [ "${answer%% *}" = fail ]; then echo "${answer#fail }" >&2; exit "${STATUS:-1}"; fi
        echo "$answer"; exit
    fi
done
"""


def script(name, *arguments, **environment):
    return subprocess.run(
        ["bash", ROOT / "scripts" / name, *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/home/me", **environment},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )


@pytest.fixture
def stand_ins(tmp_path):
    """Call with answers, word -> lines, for the environment in which they are given; calls go to `calls`."""
    (tmp_path / "bin").mkdir()
    for name in ("gcloud", "srun", "scontrol"):
        (tmp_path / "bin" / name).write_text(STAND_IN)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "answers").mkdir()

    def prepare(**answers):
        for word, lines in answers.items():
            (tmp_path / "answers" / word).write_text("".join(line + "\n" for line in lines))
        return {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "ANSWERS": str(tmp_path / "answers"),
            "LOG": str(tmp_path / "log"),
            "POLL_SECONDS": "0",
        }

    prepare.calls = lambda: [shlex.split(line) for line in (tmp_path / "log").read_text().splitlines()]
    return prepare


@pytest.fixture
def pod(stand_ins):
    """Call with options, and answers of gcloud, for how the launch has ended and what it did but for looking."""

    def pod(*options, **answers):
        environment = stand_ins(**answers)
        done = script("launch_tpu_pod.sh", *TPU, *options, "--", *EXPERIMENT, **environment)
        return done, [call[4] for call in stand_ins.calls() if call[4] != "describe"]

    return pod


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_shell_understands_every_script(path):
    subprocess.run(["bash", "-n", path], check=True)
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shellcheck:
        checked = subprocess.run([shellcheck, "--exclude=SC1091", path], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout


def test_a_dry_run_prints_the_commands_of_a_pod():
    done = script("launch_tpu_pod.sh", *TPU, "--name=pod", "--dry_run", "--", *EXPERIMENT)
    assert done.returncode == 0, done.stderr
    where = ["--project=mine", "--zone=us-east5-a"]
    queued, machines = (["gcloud", "compute", "tpus", part] for part in ("queued-resources", "tpu-vm"))
    create, describe, archive, copy, install, run, delete = [
        shlex.split(line, comments=True) for line in done.stdout.splitlines() if not line.startswith("#")
    ]
    made = "--accelerator-type=v5p-64 --runtime-version=v2-alpha-tpuv5"
    made += " --scopes=https://www.googleapis.com/auth/cloud-platform --spot"
    assert create == [*queued, "create", "pod", "--node-id=pod", *where, *made.split()]
    assert describe == [*queued, "describe", "pod", *where, "--format=value(state.state)"]
    assert archive[:3] == ["git", "archive", "--format=tar.gz"]
    assert copy == [*machines, "scp", archive[3].removeprefix("--output="), "pod:ipsrl.tar.gz", *where, "--worker=all"]
    assert install[:7] == run[:7] == [*machines, "ssh", "pod", where[0]]
    assert delete == [*queued, "delete", "pod", *where, "--force", "--quiet"]
    # What the hosts are to run, as their shell reads it.
    remote = run[-1].removeprefix("--command=").partition(" && ")[2]
    wanted = ["~/venv/bin/python", "-m", *EXPERIMENT, "--multihost", "--resume", "--out=$HOME/bucket/pod"]
    assert shlex.split(remote) == wanted


def test_a_slice_that_is_taken_away_is_asked_for_again(pod):
    asked = [ABSENT, "WAITING_FOR_RESOURCES", "fail the network is down", "ACTIVE"]
    taken = ["SUSPENDING", "SUSPENDED", ABSENT, "ACTIVE"]
    done, did = pod(describe=asked + taken, ssh=["installed", "fail connection lost", "installed", "done"])
    assert done.returncode == 0, done.stderr
    once = ["create", "scp", "ssh", "ssh"]
    assert did == [*once, "delete", *once, "delete"]


def test_a_slice_that_is_refused_is_asked_for_again(pod):
    done, did = pod(
        describe=[ABSENT, ABSENT, "FAILED", "SUSPENDED", ABSENT, "ACTIVE"],
        create=["fail the network is down", "asked", "asked"],
        delete=["fail the network is down"],
    )
    assert done.returncode == 0, done.stderr
    assert did == ["create", "create", "delete", "delete", "create", "scp", "ssh", "ssh", "delete"]


def test_nothing_runs_where_the_code_did_not_arrive(pod):
    done, did = pod(describe=["ACTIVE"] * 9, scp=["fail connection lost"])
    assert done.returncode == 0, done.stderr
    assert did == ["scp", "scp", "ssh", "ssh", "delete"]


def test_a_slice_that_is_always_refused_is_not_asked_for_for_ever(pod, stand_ins):
    done, _ = pod("--retries=2", describe=["fail NOT_FOUND"] * 9, create=["fail PERMISSION_DENIED: you may not"] * 9)
    assert done.returncode == 1
    assert "error: no slice could be asked for (3 failures)" in done.stderr
    assert [call[4] for call in stand_ins.calls()] == ["describe", "create"] * 3


def test_a_first_look_that_fails_is_told_at_once(pod, stand_ins):
    done, _ = pod(describe=["fail ERROR: the project property must be set to a valid project"])
    assert done.returncode == 1
    assert done.stderr.startswith("error: gcloud cannot say whether there is a slice ipsrl: ")
    assert "the project property must be set to a valid project" in done.stderr
    assert [call[4] for call in stand_ins.calls()] == ["describe"]


def test_a_run_that_fails_by_itself_is_not_repeated_for_ever(pod):
    done, did = pod("--retries=2", describe=["ACTIVE"] * 9, ssh=["installed", *["fail error: unknown objective"] * 9])
    assert done.returncode == 1
    assert "the run has failed on a slice that was not taken away (3 failures)" in done.stderr
    assert "queued-resources delete ipsrl" in done.stderr.splitlines()[-1]
    assert did == ["scp", "ssh", "ssh", "ssh", "ssh"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TPU[1:], "--", *EXPERIMENT], "--project is missing"),
        (TPU, "no experiment"),
        ([*TPU, "--capacity=some", "--", *EXPERIMENT], "--capacity is some, it must be spot, reserved or guaranteed"),
        ([*TPU, "--accelerator_type=v9-8", "--", *EXPERIMENT], "no runtime version is known for v9-8"),
        ([*TPU, "--speed=high", "--", *EXPERIMENT], "unknown option --speed=high"),
        ([*TPU, "--retries=abc", "--dry_run", "--", *EXPERIMENT], "--retries is abc, it must be a whole number"),
        ([*TPU, "--dry_run", "--", "experiments.nope"], "there is no experiment experiments.nope in this checkout"),
        ([*TPU, "--dry_run", "--", "../x"], "there is no experiment ../x in this checkout"),
        ([*TPU, "--dry_run", "--", *EXPERIMENT, "--zzz"], "Unknown command line flag 'zzz'"),
        ([*TPU, "--dry_run", "--", *EXPERIMENT, "--steps=x"], "--steps is 'x', it must be a whole number"),
    ],
)
def test_bad_options_of_the_pod_are_refused_in_one_sentence(arguments, message):
    done = script("launch_tpu_pod.sh", *arguments, IPSRL_VENV=sys.prefix)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


SLURM = {"SLURM_JOB_ID": "17", "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_GPUS_ON_NODE": "4"}
JOB = [*EXPERIMENT, "--out=/shared"]
RUN = ["srun", "--kill-on-bad-exit=1", ".venv/bin/python", "-m", *JOB, "--multihost", "--resume"]


@pytest.mark.parametrize(("tasks", "devices"), [("1", "0,1,2,3"), ("4", "")])
def test_a_dry_run_prints_the_command_of_a_job(tasks, devices):
    done = script("slurm_example.sh", *JOB, **SLURM, SLURM_NTASKS_PER_NODE=tasks, DRY_RUN="1")
    assert done.returncode == 0, done.stderr
    assert shlex.split(done.stdout) == [f"JAX_LOCAL_DEVICE_IDS={devices}", *RUN]


@pytest.mark.parametrize(
    ("status", "restarts", "again", "ends"),
    [("75", "0", True, 0), ("134", "3", True, 0), ("75", "100", False, 1), ("1", "0", False, 1)],
)
def test_a_job_that_lost_a_process_goes_into_the_queue_again(stand_ins, status, restarts, again, ends):
    environment = stand_ins(srun=["fail something happened"]) | {"STATUS": status, "SLURM_RESTART_COUNT": restarts}
    done = script("slurm_example.sh", *JOB, **SLURM, **environment)
    assert done.returncode == ends
    assert stand_ins.calls() == [RUN, *[["scontrol", "requeue", "17"]] * again]


def test_a_job_without_a_shared_folder_is_refused():
    done = script("slurm_example.sh", *EXPERIMENT, **SLURM)
    assert done.returncode == 2
    assert done.stderr.startswith("error: name the experiment and a folder that every node sees")
