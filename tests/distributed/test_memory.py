"""How much memory there is: that of the machine, or what a container is allowed of it."""

import jax
import pytest

from ipsrl.distributed import memory


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="devices have memory of their own")
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("1000000\n", None), 1_000_000),
        ((None, "2000000\n"), 2_000_000),
        (("max\n", None), None),
        ((None, "9223372036854771712\n"), None),
        ((None, None), None),
    ],
)
def test_a_container_has_what_it_is_allowed(monkeypatch, tmp_path, texts, expected):
    monkeypatch.setattr(memory, "LIMITS", ())
    of_machine = memory.available()
    paths = [tmp_path / "two", tmp_path / "one"]
    for path, text in zip(paths, texts, strict=True):
        if text is not None:
            path.write_text(text)
    monkeypatch.setattr(memory, "LIMITS", paths)
    assert memory.available() == (expected or of_machine)
