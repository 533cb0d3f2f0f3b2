import pytest

from ipsrl.distributed import placement


@pytest.fixture(scope="module")
def _small_leaves_are_cut():
    """Models of tests are too small to be divided otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "SMALLEST_SHARED", 0)
        yield
