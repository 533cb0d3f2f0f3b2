"""A task that is slow says how far it is."""

import threading

from ipsrl import slow_tasks
from ipsrl.slow_tasks import report_if_slow
from tests.hangs import HANGS


def test_a_slow_task_says_how_far_it_is_and_a_quick_one_nothing(monkeypatch, capsys):
    done = []
    with report_if_slow(lambda: f"{len(done)} done"):
        done.append(1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(slow_tasks, "MUTE_SECONDS", 0.01)
    asked = threading.Event()
    with report_if_slow(lambda: asked.set() or f"{len(done)} done"):
        assert asked.wait(HANGS)
        heard = ""
        while "1 done\n" not in (heard := heard + capsys.readouterr().err):
            pass
