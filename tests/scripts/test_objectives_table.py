"""docs/objectives.md says what the catalog says."""

import types

import pytest

from scripts import objectives_table

pytestmark = pytest.mark.core


def filled(page):
    return objectives_table.MARKS.filled(page, objectives_table.table())


def test_the_table_is_the_one_of_this_catalog():
    document = objectives_table.DOCUMENT.read_text()
    assert filled(document) == document, "run: python scripts/objectives_table.py"


@pytest.mark.slow
def test_the_table_of_trainers_is_the_one_of_this_catalog():
    document = objectives_table.INTEGRATIONS.read_text()
    written = objectives_table.MARKS.filled(document, objectives_table.table_of_trainers())
    assert written == document, "run: python scripts/objectives_table.py"


def test_what_is_written_by_hand_stays():
    begin, end = objectives_table.MARKS.begin, objectives_table.MARKS.end
    document = f"before\n{begin}\nan old row\n{end}\nafter\n"
    written = filled(document)
    assert written.startswith(f"before\n{begin}\n\n| name |")
    assert written.endswith(f"|\n\n{end}\nafter\n")
    assert "an old row" not in written
    assert filled(written) == written
    with pytest.raises(ValueError, match="lacks the marks"):
        filled("no marks")


def documented(docstring):
    return types.SimpleNamespace(__name__="documented", __doc__=docstring)


def test_missing_lines_are_named():
    with pytest.raises(ValueError, match="must begin with 'NAME"):
        objectives_table.first_line(documented("An objective without a paper: A = r."))
    with pytest.raises(ValueError, match="lacks the line 'Evidence"):
        objectives_table.entry(documented("GRPO (arXiv 2402.03300): A."), "Evidence")


def test_cells_do_not_break_the_table():
    assert objectives_table.prose("KL(p | q)*, see `a|b_c`") == r"KL(p \| q)\*, see `a\|b_c`"
