import dataclasses

import numpy as np
import pytest
from matplotlib.image import imread

from experiments import phase_portraits
from experiments.phase_portraits import CLAIMS, Settings, computed_portraits, field_of, row_of
from ipsrl import study
from ipsrl.records import metric_log
from ipsrl.records.tidy import Records
from ipsrl.study.study import Study, run

REWARDS = (1.0, 0.6, 0.3)
SMALL = Settings(objectives=("reinforce",), rewards=(REWARDS,), group_size=3, arrows=3, starts=2)


@pytest.fixture(scope="module")
def portrait():
    def portrait_of(name, rewards):
        starts = computed_portraits.spread_starts(SMALL.starts, SMALL.seed)
        return computed_portraits.portrait(name, field_of(name, rewards, SMALL), SMALL.intervals, starts)

    return portrait_of


def test_expected_return_leaves_ties_where_they_are(portrait):
    partial = portrait("reinforce", (1.0, 1.0, 0.5))
    assert partial.attracting == []
    assert row_of(partial) == ("reinforce", "1,1,0.5", "", "", "every policy of 1 and 2 rests")
    full = portrait("reinforce", (1.0, 1.0, 1.0))
    assert row_of(full)[-1] == "none: every policy rests"
    ends = [path[-1] for path in full.paths]
    np.testing.assert_allclose(ends, computed_portraits.spread_starts(2, SMALL.seed), atol=1e-12)


@pytest.mark.slow
def test_paths_that_stop_at_a_jump_are_counted(portrait):
    found = portrait("unlikeliness", (1.0, 1.0, 0.0))
    stopped = found.finished.count(False)
    assert stopped > 0
    assert f"{stopped} of 2 paths stop where the field jumps" in row_of(found)[-1]


def test_records_and_arrays_are_the_portrait(tmp_path, capsys):
    document = tmp_path / "figure.png"
    settings = dataclasses.replace(SMALL, starts=1, document=str(document))
    run(Study.of(phase_portraits), settings, "demo", study.Output(tmp_path / "out", resume=False))
    # Beside the best outcome the rewards are 1, 0.6 and 0.3: dp/dt = -(1 - 0.6) 2 p^2.
    printed = capsys.readouterr().out
    assert "reinforce  1,0.6,0.3                1 / (0.8 t)  1.000 0.000 0.000\n" in printed
    assert f"document: {document}\n" in printed
    rows = metric_log.read(tmp_path / "out" / "metrics.jsonl")
    assert [row["kind"] for row in rows] == ["attracts", "saddle", "repels"]
    assert rows[0]["p_1"] == 1.0
    assert rows[0]["invasion_of_2"] == pytest.approx(-0.8e-6, rel=1e-4)
    assert np.isnan(rows[0]["invasion_of_1"])
    assert np.isnan(rows[0]["rate_1"])
    assert "a group of 3 answers" in (tmp_path / "out" / "phase_portraits.txt").read_text()
    # The document has few colours and the size of the figure.
    png = tmp_path / "out" / "phase_portraits.png"
    assert imread(document).shape[:2] == imread(png).shape[:2]
    assert document.stat().st_size < png.stat().st_size / 2
    np.testing.assert_allclose(imread(document)[..., :3], imread(png)[..., :3], atol=0.15)


def test_the_claims_look_at_what_attracts():
    def at_rest(objective, p_1):
        return {"objective": objective, "rewards": "1,0.6,0.3", "kind": "attracts", "p_1": p_1}

    other = {"objective": "grpo", "rewards": "1,0.6,0.3", "kind": "repels", "p_1": 0.0}
    records = Records([at_rest("grpo", 1.0), other, at_rest("ips_grpo", 0.4)], ("objective", "rewards"))
    assert [claim(records) for claim in CLAIMS.values()] == [True, False]
