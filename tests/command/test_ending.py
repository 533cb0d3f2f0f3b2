"""Commands that are interrupted, unread, without room or aborted end with one sentence and a documented status."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.forks import SEES_US, forks
from tests.hangs import HANGS

BEGIN = """
import os, signal, sys, time
import ipsrl.command.ending
from ipsrl.command.ending import Ending
HOUR = 3600
# On a slow machine seconds may lie between two interrupts, and between the last words of a process and its end.
ipsrl.command.ending.ONE_INTERRUPT_SECONDS = ipsrl.command.ending.HELD_BACK_SECONDS = HOUR

def nap_for_an_hour():
    # A signal that comes just before a system call is heard after it.
    late = time.monotonic() + HOUR
    while time.monotonic() < late:
        time.sleep(0.01)
"""


def start(program, **streams):
    line = [sys.executable, "-c", BEGIN + textwrap.dedent(program)]
    return subprocess.Popen(line, env=SEES_US, text=True, **({"stdout": -1, "stderr": -1} | streams))


@pytest.fixture(scope="module")
def ends():
    with forks(BEGIN) as ends:
        yield ends


def begun(process):
    assert process.stdout.readline() == "begun\n", process.communicate()


def test_a_command_goes_on_when_its_reader_has_gone(tmp_path):
    file = tmp_path / "result"
    with start(
        f"""
        with Ending():
            print("begun", flush=True)
            sys.stdin.readline()
            for _ in range(3):
                print("more", flush=True)
            open({str(file)!r}, "w").close()
            print("last")
    """,
        stdin=subprocess.PIPE,
    ) as process:
        begun(process)
        process.stdout.close()
        process.stdin.write("\n")
        process.stdin.flush()
        assert (process.wait(), process.stderr.read()) == (0, "")
        assert file.exists()


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_do_not_reach_files(closed, tmp_path):
    program = BEGIN + textwrap.dedent("""
        with Ending(), open(sys.argv[1], "w") as file:
            print("to stdout", flush=True)
            print("to stderr", file=sys.stderr)
            for descriptor in (1, 2):
                os.write(descriptor, b"of a library")
            file.write("mine")
    """)
    command = ["bash", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, program, str(tmp_path / "file")]
    done = subprocess.run(command, env=SEES_US, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_results_without_room_are_an_error_and_messages_without_room_are_not(ends):
    def ends_without_room(stream, program):
        return ends(f"os.dup2(os.open('/dev/full', os.O_WRONLY), {stream})\n{program}")

    sentence = "error: [Errno 28] No space left on device; once that is fixed, try again\n"
    assert ends_without_room(1, 'with Ending("try again"):\n    print("results")') == (1, "", sentence)
    program = 'with Ending():\n    print("message", file=sys.stderr)\n    print("results")'
    assert ends_without_room(2, program) == (0, "results\n", "")


@pytest.mark.parametrize(("times", "begin"), [(1, ""), (5, ""), (2, "ending.supervise()")])
def test_many_interrupts_are_one(times, begin):
    with start(f"""
        import atexit
        atexit.register(time.sleep, 0.5)
        with Ending("try again") as ending:
            {begin}
            try:
                print("begun", flush=True)
                nap_for_an_hour()
            finally:
                time.sleep(0.5)
    """) as process:
        begun(process)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.15)
        assert process.communicate(timeout=HANGS) == ("", "interrupted: try again\n")
        assert process.returncode == 130


ENDS = {
    "[].pop()": (1, "IndexError: pop from empty list"),
    "assert not HOUR": (1, "AssertionError"),
    "raise ValueError('bad input')": (1, "error: bad input"),
    "raise MemoryError": (1, "error: out of memory: choose a smaller model or batch"),
    "sys.exit(3)": (3, ""),
}
for said in ("RESOURCE_EXHAUSTED: much", "INTERNAL: Out of memory allocating 9 bytes."):
    ENDS[f"import jax; raise jax.errors.JaxRuntimeError({said!r})"] = (1, f"error: out of memory: {said}")


@pytest.mark.parametrize("program", ENDS)
def test_faults_of_the_program_keep_their_traceback_and_others_are_sentences(program, ends):
    status, out, err = ends(f"with Ending():\n    {program}")
    lines = err.splitlines() or [""]
    assert (status, out, lines[-1]) == (ENDS[program][0], "", ENDS[program][1])
    assert lines[0].startswith("Traceback") or len(lines) == 1


SAVES = """
    import resource
    import numpy as np, jax.numpy as jnp
    from pathlib import Path
    # Python caches what it imports, and would keep files that are cut off at the limit.
    from orbax.checkpoint import v1
    from ipsrl.training.storage.checkpoints import Checkpoints
    folder, limit = Path({folder!r}), {limit}
    state = {{"large": jnp.asarray(np.random.default_rng(0).random((300, 100), np.float32))}}
    with Ending("try again"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with Checkpoints(folder, every=1) as checkpoints:
            found = checkpoints.restore(state)
            print("found", found and found[0])
            if found:
                assert (found[1]["large"] == state["large"]).all()
            else:
                checkpoints.save(1, state)
"""


def test_a_disk_that_refuses_a_checkpoint_ends_with_one_sentence(ends, tmp_path):
    """Also a checkpoint whose metadata a kill has kept from being written is read without a word."""
    status, _, err = ends(SAVES.format(folder=str(tmp_path), limit=20_000))
    assert (status, err) == (1, f"error: [Errno 27] File too large: '{tmp_path}'; once that is fixed, try again\n")
    assert ends(SAVES.format(folder=str(tmp_path), limit=10_000_000)) == (0, "found None\n", "")
    (tmp_path / "1" / "seal.json").unlink()
    (tmp_path / "1" / "_CHECKPOINT_METADATA").unlink()
    assert ends(SAVES.format(folder=str(tmp_path), limit=10_000_000)) == (0, "found 1\n", "")


def test_a_refused_write_does_not_wait_for_threads_that_never_end(ends):
    """Nor does one hear of errors in native threads, which end in this hook."""
    status, _, err = ends("""
        import threading, types
        ipsrl.command.ending.LEFT_THREADS_SECONDS = 5.0
        with Ending("try again"):
            closed = types.SimpleNamespace(object=None, exc_value=RuntimeError("Event loop is closed"))
            hook = threading.Thread(target=sys.unraisablehook, args=(closed,))
            hook.start()
            hook.join()
            threading.Thread(target=threading.Event().wait).start()
            raise ipsrl.command.ending.RefusedWriteError(28, "No space left on device", "folder")
    """)
    assert (status, err) == (1, "error: [Errno 28] No space left on device: 'folder'; once that is fixed, try again\n")


LAST_WORDS = 'os.write(2, b"F1 client.h: the JAX distributed service detected fatal errors\\n@ 0x1 frames\\n")'
LOST = (
    "error: the computation over all processes has failed, most likely because one of them has ended or never started; "
    "start the run again on all hosts and let it resume (JAX distributed service detected fatal errors)\n"
)


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (f"{LAST_WORDS}; os.abort()", 75, LOST),
        ('os.write(2, b"CHECK failed\\n"); os.abort()', -signal.SIGABRT, "CHECK failed\n"),
        (f"{LAST_WORDS}; print('ours', file=sys.stderr); os._exit(75)", 75, "ours\n"),
        ("os.write(2, b'a warning\\n')", 0, "a warning\n"),
        ("raise ValueError('bad input')", 1, "error: bad input\n"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, ""),
        # Another host ends while this one, which is done, waits for it.
        (f"import atexit; atexit.register(os.abort); {LAST_WORDS}", 0, ""),
        (f"import atexit; atexit.register(os.abort); {LAST_WORDS}; raise ValueError('mine')", 1, "error: mine\n"),
        # As by a system that is out of memory.
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
)
def test_a_supervised_command_ends_as_its_worker_or_with_a_sentence_for_a_lost_host(ends, program, status, said):
    body = f"with Ending() as ending:\n    ending.supervise()\n    {program}"
    found, _, err = ends(body)
    assert (found, re.sub("Fatal Python error.*", "", err, flags=re.DOTALL)) == (status, said)


def test_the_words_of_libraries_are_passed_on_while_the_worker_lives():
    with start("""
        ipsrl.command.ending.HELD_BACK_SECONDS = 0.5
        with Ending() as ending:
            ending.supervise()
            os.write(2, b"is stuck\\n")
            time.sleep(HOUR)
    """) as process:
        assert process.stderr.readline() == "is stuck\n"
        assert process.poll() is None
        process.terminate()
        assert process.wait() == -signal.SIGTERM


def test_a_worker_ends_with_its_supervisor():
    with start("""
        with Ending() as ending:
            ending.supervise()
            print("begun", flush=True)
            nap_for_an_hour()
    """) as process:
        begun(process)
        process.kill()
        # The worker holds the other end of this pipe.
        assert process.communicate(timeout=HANGS)[0] == ""


def test_an_interruption_where_nothing_can_be_raised_is_not_lost(ends):
    status, _, err = ends("""
        class Deleted:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)
        with Ending("try again"):
            Deleted()
            time.sleep(HOUR)
    """)
    assert (status, err) == (130, "interrupted: try again\n")


@pytest.mark.parametrize(
    ("platform", "said"), [("foo", "Unable to initialize backend 'foo'"), ("cuda", "JAX has found")]
)
def test_a_platform_that_is_not_there_is_named(platform, said, ends):
    status, _, err = ends(f"""
        import jax
        jax.config.update("jax_platforms", "{platform}")
        with Ending():
            jax.devices()
    """)
    assert status == 1
    assert re.fullmatch(f"error: {said}.*JAX_PLATFORMS.*\n", err)


WRITES = {
    "safetensors": """
        import numpy as np
        from safetensors.numpy import save_file
        large = {{"large": np.zeros(100_000, np.float32)}}
        with Ending("try again"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            save_file(large, {folder!r} + "/model")
    """,
    "array_record": """
        from array_record.python.array_record_module import ArrayRecordWriter
        with Ending("try again"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            writer = ArrayRecordWriter({folder!r} + "/rows", "group_size:1")
            for _ in range(1000):
                writer.write(os.urandom(1000))
            writer.close()
    """,
}


@pytest.mark.parametrize("library", WRITES)
def test_a_disk_that_refuses_a_library_in_another_language_ends_with_one_sentence(library, ends, tmp_path):
    program = "import resource\n" + textwrap.dedent(WRITES[library].format(folder=str(tmp_path)))
    status, _, err = ends(program)
    assert status == 1
    assert re.fullmatch("error: .*File too large.*; once that is fixed, try again\n", err), err


JOINS = """
    import socket
    from ipsrl.distributed.start_up import Cluster, start_up
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Ending() as ending:
        ending.supervise()
        print("begun", flush=True)
        start_up(1, Cluster(f"127.0.0.1:{{port}}", 2, {process}, join_timeout={seconds}))
"""


@pytest.mark.parametrize("process", [0, 1])
def test_a_host_that_waits_in_vain_for_the_others_says_so(ends, process):
    status, _, err = ends(JOINS.format(process=process, seconds=1))
    assert (status, err) == (75, LOST)


@pytest.mark.parametrize("process", [0, 1])
def test_a_host_that_waits_for_the_others_is_interrupted(process):
    with start(JOINS.format(process=process, seconds=3600)) as waiting:
        begun(waiting)
        # Until it waits in native code.
        time.sleep(1)
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=HANGS) == ("", "interrupted\n")
        assert waiting.returncode == 130
