"""The second call reads what the first has made, unless it cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.training.storage.parameter_cache import cached

LIKE = {
    "kernel": jax.ShapeDtypeStruct((3, 4), jnp.float32),
    "empty": (),
    "half": jax.ShapeDtypeStruct((2,), jnp.bfloat16),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))


@pytest.fixture
def make():
    def make():
        make.calls += 1
        return {
            "kernel": jax.random.normal(jax.random.key(make.calls), (3, 4)),
            "empty": (),
            "half": jnp.array([1, 2], jnp.bfloat16),
        }

    make.calls = 0
    return make


def test_made_once(make, tmp_path):
    first = cached({"a": 1, "b": (2, 3)}, make, LIKE)
    second = cached({"b": [2, 3], "a": 1}, make, LIKE)
    assert make.calls == 1
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    cached({"a": 2, "b": (2, 3)}, make, LIKE)
    assert make.calls == 2
    assert len(list((tmp_path / "parameters").iterdir())) == 2


def test_a_damaged_entry_is_made_again(make, tmp_path, warnings_logged):
    cached({}, make, LIKE)
    data = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    again = cached({}, make, LIKE)
    assert make.calls == 2
    (line,) = warnings_logged
    assert "cannot be used and will be made again" in line
    np.testing.assert_array_equal(cached({}, make, LIKE)["kernel"], again["kernel"])
    assert make.calls == 2
    assert len(list((tmp_path / "parameters").iterdir())) == 1


def test_an_entry_of_another_shape_is_made_again(make, warnings_logged):
    cached({}, lambda: {"kernel": jnp.zeros(3)}, {"kernel": jnp.zeros(3)})
    cached({}, make, LIKE)
    assert make.calls == 1
    assert "leaf 'half' is missing" in warnings_logged[0] or "leaf 'kernel' is float32[3]" in warnings_logged[0]


def test_a_tree_that_is_not_as_announced_is_refused(make, tmp_path):
    with pytest.raises(ValueError, match="differs from `like`: leaf 'half' is not expected"):
        cached({}, make, {"kernel": LIKE["kernel"]})
    assert not (tmp_path / "parameters").exists()


def test_a_folder_that_cannot_be_written_only_costs_time(make, tmp_path, warnings_logged):
    (tmp_path / "parameters").write_text("a file in the way")
    assert cached({}, make, LIKE)["kernel"].shape == (3, 4)
    assert "could not be cached" in warnings_logged[0]


def test_an_entry_that_another_process_makes_meanwhile_does_no_harm(make, tmp_path, warnings_logged):
    def make_while_another_does():
        cached({}, make, LIKE)
        return make()

    made = cached({}, make_while_another_does, LIKE)
    np.testing.assert_array_equal(cached({}, make, LIKE)["kernel"], made["kernel"])
    assert make.calls == 2
    assert warnings_logged == []
    assert len(list((tmp_path / "parameters").iterdir())) == 1
