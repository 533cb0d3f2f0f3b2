"""The progress line shows rates and metrics on a terminal, and nothing elsewhere."""

import io

from ipsrl.training.progress_line import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with ProgressLine(total=8, done=3, trajectories_per_step=1024) as line:
        # tqdm draws at most every tenth of a second.
        line._bar.mininterval = 0.0
        for _ in range(5):
            line.advance(reward=0.8125, distinct_outcomes=3.5)
    text = terminal.getvalue()
    assert "100% 8/8" in text
    assert "step/s" in text
    assert "trajectories/s, reward 0.812, distinct outcomes 3.5" in text


def test_silence_elsewhere(capsys):
    with ProgressLine(total=2) as line:
        line.advance(reward="not even looked at")
    assert capsys.readouterr().err == ""
