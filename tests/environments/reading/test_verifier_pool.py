import os
import subprocess
import sys
import textwrap

import pytest

from ipsrl.environments.reading.verifier_pool import UnreadableAnswers, VerifierPool
from tests.environments.reading import readers
from tests.hangs import HANGS

POOL = VerifierPool(workers=2, seconds=HANGS)
# Long enough that a busy machine does not make fine answers late.
HASTY = VerifierPool(workers=2, seconds=5.0)
HERE = VerifierPool(workers=0)


@pytest.mark.parametrize("pool", [POOL, HERE], ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
def test_every_text_is_read_in_order(pool, count):
    texts = [f"answer {i % 301}" for i in range(count)]
    assert pool.read(readers.upper, texts) == [text.upper() for text in texts]


@pytest.mark.parametrize("pool", [POOL, HERE], ids=str)
def test_equal_texts_are_read_once(pool):
    calls = pool.read(readers.count_calls, ["a", "b", "a", "a"])
    assert calls[0] == calls[2] == calls[3] != calls[1]
    assert (calls[0][0] == os.getpid()) == (pool.workers == 0)


def test_processes_are_shared_light_and_keep_off_the_accelerator():
    loaded = POOL.read(readers.surroundings, [str(i) for i in range(200)])
    again = HASTY.read(readers.surroundings, ["once more"])
    assert len({pid for _, _, pid in loaded + again}) <= 2
    assert {platform for _, platform, _ in loaded} == {"cpu"}
    assert POOL.read(readers.platform_of_jax, ["here"]) == ["cpu"]


@pytest.mark.slow
def test_a_hanging_answer_costs_itself_alone():
    texts = [f"fine {i}" for i in range(20)] + ["hang"] + [f"fine {i}" for i in range(20, 40)] + ["hang"]
    with pytest.warns(UnreadableAnswers, match=r"2 of 42 texts .* count as no answer; the first: it took"):
        read = HASTY.read(readers.hang, texts)
    assert read == [None if text == "hang" else text for text in texts]
    # Those processes have been replaced.
    assert HASTY.read(readers.upper, ["a", "b"]) == ["A", "B"]


def test_an_answer_that_ends_its_process_costs_itself_alone():
    texts = ["die", *(f"fine {i}" for i in range(30))]
    with pytest.warns(UnreadableAnswers, match=r"1 of 31 texts .*: its process ended with exit code 3"):
        assert POOL.read(readers.die, texts) == [None, *texts[1:]]
    assert POOL.read(readers.upper, ["a"]) == ["A"]


@pytest.mark.parametrize("pool", [POOL, HERE], ids=str)
@pytest.mark.parametrize(("reader", "why"), [(readers.recurse, "RecursionError"), (readers.exhaust, "MemoryError")])
def test_answers_beyond_depth_and_memory(pool, reader, why):
    bad = reader.__name__
    with pytest.warns(UnreadableAnswers, match=f"2 of 4 texts .*: {why}"):
        assert pool.read(reader, ["a", bad, "b", bad]) == ["a", None, "b", None]


@pytest.mark.parametrize("pool", [POOL, HERE], ids=str)
def test_mistakes_of_readers_are_raised(pool):
    with pytest.raises(TypeError, match="cannot read a"):
        pool.read(readers.mistaken, ["a"])


def run(script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=HANGS, env=environment)


def test_processes_end_with_the_program(tmp_path):
    done = run(
        """
        import sys
        from ipsrl.environments.reading.numeric_answers import read_number
        from ipsrl.environments.reading.verifier_pool import VerifierPool
        from tests.environments.reading import readers

        if __name__ == "__main__":
            pool = VerifierPool(workers=1, seconds=600)
            assert pool.read(read_number, ["#### 42", "6 / 4"]) == [42, 1.5]
            # Neither here nor there has anything imported JAX.
            assert "jax" not in sys.modules
            ((jax_loaded, platform, pid),) = pool.read(readers.surroundings, [""])
            assert not jax_loaded and platform == "cpu"
            print(pid)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_a_script_without_a_guard_is_told(tmp_path):
    done = run(
        """
        from ipsrl.environments.reading.verifier_pool import VerifierPool

        VerifierPool(workers=1).read(str.upper, ["a"])
        """,
        tmp_path,
    )
    assert done.returncode == 1
    assert 'start the work of a script under if __name__ == "__main__":' in done.stderr.splitlines()[-1]
