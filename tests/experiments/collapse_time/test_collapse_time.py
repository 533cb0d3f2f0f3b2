import numpy as np

from experiments import collapse_time
from experiments.collapse_time import COLLAPSES, HALF, KEEPERS
from ipsrl import study


def test_ties_collapse_after_the_exact_time_and_others_keep_them(smoke):
    settings, records = smoke(collapse_time)
    for size in (4, 16):
        where = {"objective": COLLAPSES, "group_size": size}
        updates, exact = records.ends("updates", **where), records.mean("exact", **where)
        assert abs(updates.mean() - exact) < 4 * updates.std(ddof=1) / np.sqrt(len(updates))
        # The diffusion limit's own error, 0.25 h r / sqrt(G) at most.
        assert 0 < exact / records.mean("formula", **where) - 1 < 0.25 * 0.5 / np.sqrt(size)
    shares = {name: study.share("collapsed", objective=name)(records) for name in settings.keepers}
    assert {share.seeds for share in shares.values()} == {80}
    assert shares.pop(HALF).low < 0.05
    assert shares.keys() == set(KEEPERS)
    assert all(share.mean == 0 and 0 < share.high < 0.05 for share in shares.values())
    above, ratios, lost = collapse_time.FIGURE(records, settings).figure.axes
    np.testing.assert_array_equal(above.lines[0].get_xdata(), [4, 16])
    assert ratios.lines[0].get_ydata().min() > 1
    assert [label.get_text() for label in lost.get_yticklabels()] == list(settings.keepers)
