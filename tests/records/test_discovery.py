import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.records import discovery

names = st.text(max_size=3)
configs = st.recursive(st.none() | st.integers(), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=8)


def write(path, *names):
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text("{}")


@pytest.mark.parametrize("begun", ["environment.json", "metrics.jsonl", "summary.json"])
def test_a_run_has_a_config_and_has_begun(tmp_path, begun):
    for inside in ("b", "a/deep"):
        write(tmp_path / inside, "config.json", begun)
    write(tmp_path / "nothing", begun)
    # The exported model of a run, what its checkpoint holds, and what is hidden.
    write(tmp_path / "b/model", "config.json")
    write(tmp_path / "b/checkpoints/6", "config.json", begun)
    write(tmp_path / ".trash", "config.json", begun)
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert discovery.find(tmp_path) == [tmp_path / "a/deep", tmp_path / "b"]
    assert discovery.find(str(tmp_path / "b")) == [tmp_path / "b"]


@pytest.mark.parametrize(
    ("config", "seed"),
    [
        ({"seed": 3}, 3),
        ({"seed": 3, "seeds": "4"}, 3),
        ({"seeds": "4"}, 4),
        ({"seeds": "0:4"}, None),
        ({"seeds": "1,2"}, None),
        # How many, not which.
        ({"seeds": 16}, None),
        ({"seed": "three"}, None),
        ({}, None),
    ],
)
def test_seeds_that_are_one(config, seed):
    assert discovery.seed_of(config) == seed


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(names, configs, max_size=4))
def test_leaves_are_where_their_keys_lead(config):
    found = list(discovery.leaves(config))
    for keys, value in found:
        inner = config
        for key in keys:
            inner = inner[key]
        assert inner == value
        assert not (isinstance(value, dict) and value)
    assert len({keys for keys, _ in found}) == len(found) >= len(config)
