"""The launchers that need more than this machine, with what stands in for it."""

import shlex
import threading

import pytest

from experiments import hypergrid, two_outcomes
from ipsrl.records.json_files import write_json
from ipsrl.records.metric_log import read
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.study import Output, Study
from ipsrl.study.study import run as run_study
from ipsrl.sweeps import launcher_catalog, slurm, vmap
from ipsrl.sweeps.local import shares_of_cores
from ipsrl.sweeps.places import work_at
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import make_run, settings_of
from tests.hangs import HANGS

RUNS = [make_run("two_outcomes", "smoke", seeds=f"{seed}:{seed + 2}") for seed in range(4)]


@pytest.fixture
def folder(tmp_path):
    folder = SweepFolder.at(tmp_path / "sweep")
    with folder.hold(RUNS):
        yield folder


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_cores_are_divided_evenly(workers, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 3, 5, 7, 9, 11, 13})
    shares = shares_of_cores(workers)
    assert len(shares) == workers
    assert set.union(*shares) == {1, 3, 5, 7, 9, 11, 13}
    assert sum(map(len, shares)) == 7
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_each_place_has_one_run_at_a_time():
    busy, seen, lock, both = set(), [], threading.Lock(), threading.Barrier(2)

    def work(run, place, ending):
        with lock:
            assert place not in busy
            busy.add(place)
            is_first = place not in seen
            seen.append(place)
        if is_first:
            both.wait(HANGS)
        with lock:
            busy.remove(place)
        return "finished"

    ended = list(work_at(["a", "b"], RUNS * 5, work))
    assert len(ended) == 20
    assert set(seen) == {"a", "b"}


def test_one_error_ends_the_others():
    ended = []

    def work(run, place, ending):
        if run is RUNS[0]:
            raise OSError("the disk is full")
        ended.append(ending.wait(HANGS))
        return "broken"

    with pytest.raises(OSError, match="the disk is full"):
        list(work_at(["a", "b"], RUNS, work))
    # Those that had begun have been told, the others never begin.
    assert all(ended)
    assert len(ended) < len(RUNS)


@pytest.mark.slow
def test_jobs_of_slurm_work_on_runs(folder):
    """The executor is the one of submitit that needs no SLURM."""
    small = [make_run("two_outcomes", "smoke", learning_rate=rate, steps=20, seeds="0:2") for rate in (1e38, 0.02)]
    launcher = launcher_catalog.make("slurm(cluster=local, cpus=1, further=('account=mine',))")
    ended = {run.identity: state for run, state in launcher.launch(folder, small, restarts=0)}
    assert ended == {small[0].identity: "failed", small[1].identity: "finished"}
    assert [folder.state(run) for run in small] == ["failed", "finished"]
    assert folder.failure(small[0])["last_lines"][-1].startswith("error: the flow cannot be integrated")


def test_slurm_is_asked_for_what_a_run_needs(folder, monkeypatch):
    import submitit

    asked = {}

    class Executor:
        def __init__(self, path, **options):
            asked.update(path=path, **options)

        def update_parameters(self, **options):
            asked.update(options)

        def map_array(self, job, runs):
            return []

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    text = "slurm(partition='gpu-long', minutes=60, gpus=1, memory_gb=32, at_once=8, further=('account=mine',))"
    assert list(launcher_catalog.make(text).launch(folder, [], restarts=0)) == []
    assert asked == {
        "path": folder.path / "slurm",
        "cluster": "slurm",
        "slurm_max_num_timeout": 100,
        "name": "ipsrl",
        "timeout_min": 60,
        "cpus_per_task": 4,
        "gpus_per_node": 1,
        "mem_gb": 32,
        "slurm_partition": "gpu-long",
        "slurm_array_parallelism": 8,
        "slurm_additional_parameters": {"account": "mine"},
    }


def test_a_job_goes_into_the_queue_again_as_it_is(folder):
    job = slurm.Job(folder, restarts=2)
    again = job.checkpoint(RUNS[0])
    assert (again.function, again.args) == (job, (RUNS[0],))


POD = "tpu_pod(project=mine, zone='us-east5-a', accelerator_type='v5p-64', bucket=results, slices=(red, blue)"
HYPOSPACE = [make_run("hypospace", "smoke", objectives=name) for name in ("grpo", "ips_grpo(floor=0.2)", "progrpo")]


def test_a_dry_run_on_pods_prints_the_commands(folder):
    launcher = launcher_catalog.make(POD + ", options=('--capacity=reserved',))")
    launcher.check(HYPOSPACE)
    lines = "\n".join(launcher.plan(folder, HYPOSPACE)).splitlines()
    calls = [shlex.split(line, comments=True) for line in lines if not line.startswith("#")]
    assert len(calls) == 3 * 8
    creates = [call for call in calls if call[4] == "create"]
    assert [call[5] for call in creates] == ["red", "blue", "red"]
    assert all(call[-1] == "--reserved" for call in creates)
    copies = [call for call in calls if call[1] == "storage"]
    for run, remote, copy in zip(HYPOSPACE, [call for call in calls if "--multihost" in call[-1]], copies, strict=True):
        where = f"{folder.path.name}/{run.identity}"
        command = shlex.split(remote[-1].removeprefix("--command=").partition(" && ")[2])
        assert command[2:] == [*run.arguments, "--multihost", "--resume", f"--out=$HOME/bucket/{where}"]
        rsync = "gcloud storage rsync --recursive --exclude=.*checkpoints/.*"
        assert copy == [*rsync.split(), f"gs://results/{where}", str(folder.run_path(run))]


@pytest.mark.slow
def test_results_of_pods_are_fetched(folder, tmp_path, monkeypatch, capsys):
    """A stand-in for gcloud always has its slices; the second run has no luck."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gcloud").write_text(
        "#!/usr/bin/env bash\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'case "$*" in\n'
        "    *describe*) echo ACTIVE ;;\n"
        "    *ips_grpo*--multihost*) echo 'error: no luck'; exit 1 ;;\n"
        '    storage*) echo \'{"complete": true}\' > "${@: -1}/summary.json" ;;\n'
        "esac\n"
    )
    (tmp_path / "bin" / "gcloud").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("POLL_SECONDS", "0")
    launcher = launcher_catalog.make(POD + ", options=('--retries=1',))")
    ended = {run.identity: state for run, state in launcher.launch(folder, HYPOSPACE, restarts=0)}
    assert list(map(ended.get, (run.identity for run in HYPOSPACE))) == ["finished", "failed", "finished"]
    failure = folder.failure(HYPOSPACE[1])
    assert "error: no luck" in failure["last_lines"]
    assert failure["last_lines"][-1].startswith("error: the run has failed on a slice that was not taken away")
    used = {call.split()[4] for call in (tmp_path / "calls").read_text().splitlines() if " describe " in call}
    assert used == {"red", "blue"}
    kept = capsys.readouterr().err.splitlines()
    assert [line.partition(" may still exist and cost money until: ")[0] for line in kept] == [
        "slice red",
        "slice blue",
    ]
    deletes = [call for call in (tmp_path / "calls").read_text().splitlines() if " delete " in call]
    assert len(deletes) == 2
    assert all(shlex.join(["gcloud", *call.split()]) in "".join(kept) for call in deletes)

    launching = launcher.launch(folder, HYPOSPACE[:1], restarts=0)
    assert next(launching) == (HYPOSPACE[0], "finished")
    assert list(launching) == []
    assert capsys.readouterr().err == ""
    interrupted = launcher.launch(folder, HYPOSPACE, restarts=0)
    next(interrupted)
    interrupted.close()
    assert "slice blue may still exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POD.replace("blue", "red") + ")", "must be different names, at least one"),
        ("slurm(cluster=cloud)", "unknown cluster 'cloud'; known: slurm, local"),
        ("slurm(cpus=0)", "minutes, cpus and at_once must be positive"),
        ("slurm(further=(account,))", "cannot read 'account': further options are written"),
        ("ray(gpus=-1)", "all must be non-negative"),
    ],
)
def test_impossible_launchers_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        launcher_catalog.make(text)


@pytest.mark.parametrize(
    ("text", "runs", "message"),
    [
        (
            POD.replace("v5p-64", "v9-8") + ")",
            HYPOSPACE,
            "no runtime version is known for v9-8: give --runtime_version$",
        ),
        (POD + ")", RUNS, "two_outcomes has no flag --multihost, so it cannot run on a slice: "),
        ("vmap", HYPOSPACE, "hypospace has no VMAPPED, so its runs cannot be one program: use local"),
    ],
)
def test_runs_that_a_launcher_cannot_start_are_refused_at_once(text, runs, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        launcher_catalog.make(text).check(runs)


def test_there_is_no_slurm_here(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="there is no SLURM on this machine"):
        list(launcher_catalog.make("slurm").launch(folder, RUNS, restarts=0))


@pytest.fixture
def together(monkeypatch):
    """Replaces `run_vmapped` of two_outcomes by the returned function, whose attribute `does` does the work."""
    calls = []

    def run_vmapped(study, settings, presets, outputs):
        calls.append([each.seeds for each in settings])
        return run_vmapped.does(settings, outputs)

    def finish(settings, outputs):
        for output in outputs:
            output.path.mkdir(parents=True)
            write_json(output.path / "summary.json", {"complete": True})
        return [None] * len(settings)

    run_vmapped.does, run_vmapped.finish, run_vmapped.calls = finish, finish, calls
    monkeypatch.setattr(two_outcomes, "VMAPPED", ("seeds",))
    monkeypatch.setattr(vmap, "run_vmapped", run_vmapped)
    # The devices of the tests are there already.
    monkeypatch.setattr(vmap, "start_up", lambda devices: None)
    return run_vmapped


def test_runs_that_differ_in_numbers_are_one_program(folder, together):
    others = [make_run("two_outcomes", "smoke", seeds=f"{seed}:{seed + 2}", steps=40) for seed in range(2)]
    mixed = [RUNS[0], others[0], RUNS[1], others[1]]
    ended = list(launcher_catalog.make("vmap").launch(folder, mixed, restarts=0))
    assert together.calls == [[(0, 1), (1, 2)], [(0, 1), (1, 2)]]
    assert ended == [(run, "finished") for run in (*RUNS[:2], *others)]
    assert all(folder.log_path(run).read_text().startswith("one of 2 runs in one program") for run in mixed)
    plan = list(launcher_catalog.make("vmap").plan(folder, mixed))
    assert len(plan) == 2


def test_one_run_of_a_program_can_fail_alone(folder, together):
    def diverge(settings, outputs):
        together.finish(settings[1:], outputs[1:])
        return [NonFiniteLossError("the loss is not finite at step 3"), *[None] * len(settings[1:])]

    together.does = diverge
    ended = [state for _, state in launcher_catalog.make("vmap").launch(folder, RUNS, restarts=0)]
    assert ended == ["failed", "finished", "finished", "finished"]
    assert folder.failure(RUNS[0])["last_lines"][-1].endswith("the loss is not finite at step 3")


def test_what_no_run_can_be_fails_them_all(folder, together):
    def refuse(settings, outputs):
        raise ValueError("unknown objective 'grpp'")

    together.does = refuse
    ended = [state for _, state in launcher_catalog.make("vmap").launch(folder, RUNS, restarts=0)]
    assert ended == ["failed"] * 4
    assert folder.failure(RUNS[3])["last_lines"] == ["ValueError: unknown objective 'grpp'"]


def test_an_interrupted_program_leaves_broken_runs(folder, together):
    def interrupt(settings, outputs):
        raise KeyboardInterrupt

    together.does = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(launcher_catalog.make("vmap").launch(folder, RUNS, restarts=0))
    assert {folder.state(run) for run in RUNS} == {"broken"}


@pytest.mark.slow
def test_a_run_can_go_from_launcher_to_launcher(folder, monkeypatch):
    """Each writes all steps once, whatever the others have left."""
    run = make_run("hypergrid", "smoke", objectives="grpo", seeds="0", steps=60, evaluate_every=5, checkpoint_every=10)
    monkeypatch.setattr(vmap, "start_up", lambda devices: None)
    evaluate = hypergrid.evaluate_hypergrid

    def stop_at(last):
        def evaluate_until(environment, policy, step, parameters):
            if step == last:
                raise KeyboardInterrupt
            return evaluate(environment, policy, step, parameters)

        monkeypatch.setattr(hypergrid, "evaluate_hypergrid", evaluate_until)

    # What a process of `local` does that is stopped after some checkpoints.
    stop_at(45)
    with pytest.raises(KeyboardInterrupt):
        run_study(Study.of(hypergrid), settings_of(run), "smoke", Output(folder.run_path(run), resume=True))
    assert list(folder.run_path(run).rglob("checkpoints/40"))
    stop_at(15)
    with pytest.raises(KeyboardInterrupt):
        list(launcher_catalog.make("vmap").launch(folder, [run], restarts=0))
    ((_, state),) = launcher_catalog.make("local").launch(folder, [run], restarts=0)
    assert state == "finished", folder.failure(run)
    (log,) = folder.run_path(run).rglob("metrics.jsonl")
    assert [record["step"] for record in read(log)] == list(range(61))
