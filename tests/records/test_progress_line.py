"""The progress line shows rates and metrics on a terminal, and nothing elsewhere."""

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import types
from pathlib import Path

import pytest
from tqdm import tqdm

from ipsrl.records import progress_line
from ipsrl.records.progress_line import ProgressLine, working
from tests.hangs import wait_until
from tests.records.bandit_run import train_bandit


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch) -> Terminal:
    """Takes the place of stderr until the end of the test."""
    monkeypatch.setattr("sys.stderr", Terminal())
    return sys.stderr


def test_the_line_on_a_terminal(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with ProgressLine(total=8, done=3, trajectories_per_step=1024, label="run 2 of 9") as line:
        # tqdm draws at most every tenth of a second.
        line._bar.mininterval = 0.0
        for _ in range(5):
            line.advance(reward=0.8125, effective_outcomes=3.5)
    drawn = terminal.getvalue().split("\r")
    assert any(one.startswith(" 38% 3/8 [00:00<?, ?step/s, run 2 of 9]") for one in drawn)
    last = [one for one in drawn if one.strip()][-1]
    assert "100% 8/8" in last
    assert "step/s, reward 0.812, effective outcomes 3.5, run 2 of 9, " in last
    assert "trajectories/s]" in last
    # Nothing is left of it.
    assert not drawn[-2].strip()


def test_the_clock_goes_on_while_nothing_is_done(monkeypatch):
    terminal = on_terminal(monkeypatch)
    threads = threading.active_count()
    with working("learning"), ProgressLine(total=8) as line:
        for later in (r"learning \[(?!00:00)", r" 0% 0/8 \[(?!00:00)"):
            wait_until(lambda later=later: re.search(later, terminal.getvalue()))
        tqdm.write("warning: something", file=sys.stderr)
        line.advance()
    text = terminal.getvalue()
    assert "learning [00:00]" in text
    assert "0% 0/8 [00:00<?" in text
    assert "warning: something\n" in text
    wait_until(lambda: threading.active_count() == threads)


def test_a_task_that_fails_leaves_no_clock(monkeypatch):
    terminal = on_terminal(monkeypatch)
    threads = threading.active_count()
    with pytest.raises(ValueError, match="no"), working("learning"):
        raise ValueError("no")
    wait_until(lambda: threading.active_count() == threads)
    assert terminal.getvalue().endswith("\r")


def test_silence_elsewhere(capsys):
    with working("hardly anything"), ProgressLine(total=2) as line:
        line.advance(reward="not even looked at")
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_an_experiment_on_a_terminal(tmp_path):
    """Which run of how many, and results that stand on lines of their own."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 160))
    command = [
        sys.executable,
        "-m",
        "experiments.hypergrid",
        "--preset=smoke",
        "--objectives=grpo,ips_grpo",
        f"--out={tmp_path}",
    ]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        # A terminal that nobody writes to any more ends in an error.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                text += part
        os.close(ours)
    assert process.returncode == 0, text
    lines = [line for line in text.decode().replace("\n", "\r").split("\r") if line.strip()]
    # Which steps are drawn depends on the machine: at most one every tenth of a second.
    assert any(re.search(r"[1-6]/6 \[.*step/s, reward ", line) for line in lines)
    for number, run in enumerate(("grpo, seed 0", "grpo, seed 1", "ips_grpo, seed 0", "ips_grpo, seed 1"), start=1):
        assert any(re.search(rf", entropy [\d.]+, run {number} of 4: {run}[,\]]", line) for line in lines)
    assert not any(line.startswith("trained ") for line in lines)


def test_a_resumed_run_begins_where_it_was(monkeypatch, tmp_path):
    train_bandit(tmp_path, None, steps=2)
    terminal = on_terminal(monkeypatch)
    train_bandit(tmp_path, None, resume=True, steps=2)
    assert "100% 2/2 [00:00<?, ?step/s" in terminal.getvalue()


def test_what_takes_long_says_so_in_a_log(monkeypatch, capsys):
    clock = iter([0, 4, 6, 8, 15, 20, 20])
    monkeypatch.setattr(progress_line, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    assert list(progress_line.counted("abcd", "letters")) == list("abcd")
    assert capsys.readouterr().err == "letters: 1\nletters: 3\n"
