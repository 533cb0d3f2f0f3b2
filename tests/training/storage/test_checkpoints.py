"""States come back bit for bit, or a sentence says why not."""

import dataclasses
import functools
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.training.storage.checkpoints import Checkpoints

pytestmark = pytest.mark.eight_devices


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    step: jax.Array
    parameters: dict
    optimizer: tuple


class Carried(NamedTuple):
    coefficient: jax.Array
    nothing: tuple


@functools.cache
def make_state(step=7, rows=5):
    parameters = {
        "kernel": jax.random.normal(jax.random.key(step), (rows, 4)),
        "half": jax.random.normal(jax.random.key(step), (33,), jnp.bfloat16),
        "layers": [{"bias": jnp.full(3, 1e-45)}, {}],
        "special": jnp.array([jnp.nan, -0.0, jnp.inf]),
        "no_rows": jnp.zeros((0, 4)),
    }
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3)).init(parameters)
    carried = Carried(coefficient=jnp.float32(0.3), nothing=())
    return State(step=jnp.int32(step), parameters=parameters, optimizer=(optimizer, carried, None, jnp.array([True])))


def assert_same_bits(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def save_all(directory, steps):
    with Checkpoints(directory, every=1, keep=len(steps)) as checkpoints:
        for step in steps:
            checkpoints.save(step, make_state(step))


@pytest.mark.parametrize("like", ["state", "shapes"])
def test_the_round_trip_is_exact(tmp_path, like):
    state = make_state()
    save_all(tmp_path, [7])
    like = state if like == "state" else jax.eval_shape(lambda: state)
    with Checkpoints(tmp_path, every=1) as checkpoints:
        step, restored, _ = checkpoints.restore(like)
    assert step == 7
    assert_same_bits(restored, state)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(restored))


def test_which_steps_are_kept(tmp_path):
    with Checkpoints(tmp_path, every=5, keep=2) as checkpoints:
        due = [step for step in range(1, 18) if checkpoints.due(step)]
        assert due == [5, 10, 15]
        for step in (*due, 17):
            checkpoints.save(step, make_state(step))
        with pytest.raises(FileExistsError, match="Step 17 already exists"):
            checkpoints.save(17, make_state(17))
        assert checkpoints.restore(make_state())[0] == 17
    assert sorted(path.name for path in tmp_path.iterdir()) == ["15", "17"]


def test_a_note_is_kept_beside_the_state_and_decides_whether_it_is_used(tmp_path):
    with Checkpoints(tmp_path, every=1) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, make_state(step), note={"records": [step, "é"]})
        assert checkpoints.restore(make_state())[::2] == (2, {"records": [2, "é"]})
        found = checkpoints.restore(make_state(), lambda note: "a record is lost" if note["records"][0] == 2 else None)
    assert found[::2] == (1, {"records": [1, "é"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "unusable-2"]


def test_buffers_may_be_donated_while_a_save_is_under_way(tmp_path):
    step = jax.jit(lambda values: values + 1, donate_argnums=0)
    with Checkpoints(tmp_path, every=1, keep=5) as checkpoints:
        for number in range(5):
            values = jnp.full((500, 500), float(number))
            values.block_until_ready()
            checkpoints.save(number, {"values": values})
            for _ in range(3):
                values = step(values)
            _, restored, _ = checkpoints.restore({"values": values})
            np.testing.assert_array_equal(restored["values"], number)


def test_shardings_are_restored_on_another_mesh(tmp_path):
    values = np.arange(16, dtype=np.float32)
    eight = make_mesh("data:8")
    with Checkpoints(tmp_path, every=1) as checkpoints:
        checkpoints.save(1, {"sharded": shard_prompts(values, eight), "whole": replicate(values, eight)})
        four = make_mesh("data:4,model:2")
        like = {"sharded": shard_prompts(values, four), "whole": replicate(values, four)}
        _, restored, _ = checkpoints.restore(like)
    for name in like:
        assert restored[name].sharding == like[name].sharding
        np.testing.assert_array_equal(restored[name], values)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_one_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) * 7 // 10] ^= 16
    path.write_bytes(data)


def test_harm_to_any_file_makes_the_checkpoint_before_be_used(tmp_path, warnings_logged):
    """The files in turn are cut, flipped or missing."""
    whole = tmp_path / "whole"
    save_all(whole, [10, 20])
    files = sorted(path.relative_to(whole) for path in (whole / "20").rglob("*") if path.is_file())
    assert len(files) > 8
    for number, file in enumerate(files):
        directory = tmp_path / str(number)
        shutil.copytree(whole, directory)
        (cut, flip_one_bit, Path.unlink)[number % 3](directory / file)
        if not (directory / "20" / "seal.json").exists():
            continue  # The next test is about these.
        with Checkpoints(directory, every=10) as checkpoints:
            step, state, _ = checkpoints.restore(make_state())
            assert step == 10
            assert_same_bits(state, make_state(10))
            (line,) = warnings_logged
            warnings_logged.clear()
            assert line.startswith("The checkpoint of step 20 cannot be used (")
            assert line.endswith("and step 10 is used instead.")
            # The run goes on, and reaches the step of the damaged checkpoint again.
            checkpoints.save(20, make_state(20))
            assert checkpoints.restore(make_state())[0] == 20
        assert (directory / "unusable-20").exists()


def test_a_checkpoint_harmed_after_it_was_saved_is_saved_again(tmp_path, warnings_logged):
    with Checkpoints(tmp_path, every=10) as checkpoints:
        for step in (10, 20):
            checkpoints.save(step, make_state(step))
        checkpoints.wait()
        cut(tmp_path / "20" / "state" / "manifest.ocdbt")
        assert checkpoints.restore(make_state())[0] == 10
        checkpoints.save(20, make_state(20))
        assert checkpoints.restore(make_state())[0] == 20
    assert len(warnings_logged) == 1


def renamed(folder):
    (folder / "20").rename(folder / "30")


def a_file_too_much(folder):
    (folder / "20" / "state" / "more").touch()


def sealed_with(content):
    return lambda folder: (folder / "20" / "seal.json").write_text(content)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (renamed, r"step 30 cannot be used \(its folder was sealed as '20'\)"),
        (a_file_too_much, r"step 20 cannot be used \(state/more is not in seal\.json\)"),
        (sealed_with("{}"), r"seal\.json is damaged, or of another version"),
        (sealed_with('{"files": {}}'), "its folder was sealed as None"),
        (sealed_with('{"folder": "20", "files": {}}'), r"is not in seal\.json"),
        (sealed_with("[]"), r"seal\.json is damaged, or of another version"),
    ],
)
def test_a_checkpoint_is_used_only_as_it_was_sealed(tmp_path, warnings_logged, harm, message):
    save_all(tmp_path, [10, 20])
    harm(tmp_path)
    with Checkpoints(tmp_path, every=10) as checkpoints:
        assert checkpoints.restore(make_state())[0] == 10
    (line,) = warnings_logged
    assert re.search(message, line)


def test_a_checkpoint_that_was_never_sealed_is_used_if_it_can_be_read(tmp_path, warnings_logged):
    save_all(tmp_path, [10, 20])
    (tmp_path / "20" / "seal.json").unlink()
    with Checkpoints(tmp_path, every=10) as checkpoints:
        assert checkpoints.restore(make_state())[0] == 20
    shutil.rmtree(tmp_path / "20" / "state")
    with Checkpoints(tmp_path, every=10) as checkpoints:
        assert checkpoints.restore(make_state())[0] == 10
    (line,) = warnings_logged
    assert "cannot be used (InvalidLayoutError: " in line


def test_where_all_are_damaged_nothing_is_touched(tmp_path, warnings_logged):
    save_all(tmp_path, [10, 20])
    for step in ("10", "20"):
        cut(tmp_path / step / "state" / "manifest.ocdbt")
    with (
        Checkpoints(tmp_path, every=10) as checkpoints,
        pytest.raises(ValueError, match=r"no checkpoint in .* can be used \(step 20: .*; step 10: "),
    ):
        checkpoints.restore(make_state())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10", "20"]
    assert warnings_logged == []


def test_a_file_in_the_way_of_a_damaged_checkpoint_goes(tmp_path):
    save_all(tmp_path, [10, 20])
    cut(tmp_path / "20" / "state" / "manifest.ocdbt")
    (tmp_path / "unusable-20").write_text("")
    with Checkpoints(tmp_path, every=10) as checkpoints:
        step, *_ = checkpoints.restore(make_state())
    assert step == 10
    assert (tmp_path / "unusable-20").is_dir()


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (make_state(rows=6), r"leaf 'parameters/kernel' is float32\[5, 4\], expected float32\[6, 4\]"),
        ({"step": jnp.int32(0), "more": jnp.int32(0)}, "leaf 'more' is missing"),
        ({"step": jnp.int32(0)}, "leaf 'optimizer/.*' is not expected"),
        (dataclasses.replace(make_state(), step=jnp.float32(0)), r"leaf 'step' is int32\[\], expected float32\[\]"),
    ],
)
def test_a_state_of_another_kind_is_refused(tmp_path, like, message):
    save_all(tmp_path, [10])
    with Checkpoints(tmp_path, every=10) as checkpoints, pytest.raises(ValueError, match=message):
        checkpoints.restore(like)


SAVE_FOR_EVER = """
import sys, jax.numpy as jnp
from ipsrl.training.storage.checkpoints import Checkpoints
checkpoints = Checkpoints(sys.argv[1], every=1)
like = {"values": jnp.zeros((300, 300)), "step": jnp.int32(0)}
found = checkpoints.restore(like)
step = found[0] if found else 0
while True:
    step += 1
    checkpoints.save(step, {"values": jnp.full((300, 300), float(step)), "step": jnp.int32(step)})
    print(step, flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path, warnings_logged):
    like = {"values": jnp.zeros((300, 300)), "step": jnp.int32(0)}
    delays = np.random.default_rng(0).uniform(0, 0.3, size=4)
    reached = 0
    for delay in delays:
        child = subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, tmp_path], stdout=subprocess.PIPE, text=True)
        # Two lines: when the second save begins, the first is complete.
        lines = [child.stdout.readline(), child.stdout.readline()]
        time.sleep(delay)
        child.kill()
        lines += child.communicate()[0].split()
        with Checkpoints(tmp_path, every=1) as checkpoints:
            step, state, _ = checkpoints.restore(like)
        assert step >= int(lines[-1]) - 1 > reached - 1
        assert step == state["step"]
        np.testing.assert_array_equal(state["values"], step)
        reached = step
    assert warnings_logged == []


def test_a_clock_that_jumps_does_not_end_a_save(tmp_path, monkeypatch):
    """The clock jumps as after the suspension of a laptop; the save is large enough to be under way then."""
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    state = {"large": jnp.ones((4000, 1000)), "small": jnp.float32(1)}
    with Checkpoints(tmp_path / "checkpoints", every=1) as checkpoints:
        checkpoints.save(1, state)
        ahead[0] = 24 * 3600.0
        checkpoints.wait()
        assert_same_bits(checkpoints.restore(state)[1], state)
