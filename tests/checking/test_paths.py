"""Home folders in paths."""

from pathlib import Path

import pytest

from ipsrl.checking.paths import expanded
from ipsrl.distributed.start_up import cache_folder


def test_home_folders(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert expanded("~/runs", "--out") == Path("/home/me/runs")
    assert expanded("a/~/b", "--out") == Path("a/~/b")
    with pytest.raises(ValueError, match=r"^--out is '~nobody!/x', but ~nobody! has no home folder here: "):
        expanded("~nobody!/x", "--out")


def test_the_cache_of_a_user_who_is_not_there(monkeypatch):
    monkeypatch.setenv("IPSRL_CACHE", "~nobody!/x")
    with pytest.raises(ValueError, match="IPSRL_CACHE is '~nobody!/x'"):
        cache_folder()
