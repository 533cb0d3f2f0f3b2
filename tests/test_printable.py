"""Texts of others cannot rewrite the terminal on which they are shown."""

import io
import json
import re

import pytest

from ipsrl.command.ending import Ending, _Stream
from ipsrl.printable import printable
from ipsrl.records.progress_line import ProgressLine, report_line, working
from ipsrl.records.run_folder import RunFolder
from ipsrl.sweeps.sweep import report
from ipsrl.sweeps.sweep_folder import SweepFolder
from ipsrl.sweeps.sweep_runs import SweepRun
from ipsrl.text_table import aligned
from scripts import results
from tests.records.report.run_folders import write, write_run

CLEARS = "\x1b[2J\x1b]0;taken\x07\x9b1mred\r"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (CLEARS, r"\u001b[2J\u001b]0;taken\u0007\u009b1mred\u000d"),
        ("a\nb\tc", "a\nb\tc"),
        ("grün, 北京, 🎉, \u200d", "grün, 北京, 🎉, \u200d"),
        ("\u202eabc\u2069", r"\u202eabc\u2069"),
        ("half \ud800", r"half \ud800"),
        ("\x00\x7f\x85", r"\u0000\u007f\u0085"),
    ],
)
def test_what_is_shown(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (CLEARS, printable(CLEARS)),
        ("a\r\x1b[AEVIL\n", "a\\u000d\\u001b[AEVIL\n"),
        # Python 3.13 shows tracebacks so.
        (
            "\x1b[1;35mKeyError\x1b[0m: \x1b[35m'\x1b[K'\x1b[m\n",
            "\x1b[1;35mKeyError\x1b[0m: \x1b[35m'\\u001b[K'\x1b[m\n",
        ),
    ],
)
def test_what_a_stream_lets_pass(written, shown):
    raw = io.BytesIO()
    stream = _Stream(raw, encoding="utf-8")
    assert stream.write(written) == len(written)
    stream.flush()
    assert raw.getvalue().decode() == shown


def test_only_a_progress_line_moves(monkeypatch):
    raw = io.BytesIO()
    stream = _Stream(raw, encoding="utf-8")
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", stream)
    with working("above"), ProgressLine(total=2, label=f"run {CLEARS}"):
        report_line("a\r\x1b[AEVIL")
    stream.flush()
    drawn = raw.getvalue().decode()
    # It makes room for the text, which is alone on its line.
    assert re.search(r" \r(\x1b\[A)?a\\u000d\\u001b\[AEVIL\n", drawn)
    assert f"run {printable(CLEARS)}]" in drawn
    assert "\n\r  0% 0/2" in drawn
    assert set(re.findall(r"\x1b..", drawn)) == {"\x1b[A"}


def test_an_error_shows_names_of_settings(tmp_path):
    write(tmp_path / "config.json", {CLEARS: 1})
    with pytest.raises(SystemExit, match=r"\\u001b\[2J") as ended, Ending():
        RunFolder.open(tmp_path, {})
    assert "\x1b" not in ended.value.code


def test_the_state_of_a_sweep_shows_last_lines(tmp_path):
    folder, run = SweepFolder.at(tmp_path), SweepRun("two_outcomes", "smoke", {}, "two_outcomes-12345678")
    with folder.hold([run]):
        write(folder.failure_path(run), {"exit_status": 1, "last_lines": [CLEARS]})
        assert report(folder, [run]).splitlines()[-1].endswith(printable(CLEARS))


def test_results_show_values_and_names(tmp_path, capsys):
    write_run(tmp_path / "run", objective=CLEARS, settings={f"name {CLEARS}": 3})
    results.main([str(tmp_path)])
    printed = capsys.readouterr().out
    assert r"\u001b[2J" in printed
    assert not set(CLEARS) & set(printed) & set("\x1b\x07\x9b\r")
    for form in results.FORMATS:
        results.main([str(tmp_path), f"--format={form}", "--sql=select objective from runs"])
        printed = capsys.readouterr().out
        assert r"\u001b[2J" in printed
        assert not set(CLEARS) & set(printed) & set("\x1b\x07\x9b\r")
    results.main([str(tmp_path), "--sql=select objective from runs", "--format=json", f"--out={tmp_path}/all.json"])
    assert json.loads((tmp_path / "all.json").read_text()) == [{"objective": CLEARS}]


def test_columns_stay_aligned():
    assert aligned([["a\x1b", "b"], ["longer than", "c"]]) == "a\\u001b      b\nlonger than  c"
