import types

import pytest

from scripts import objectives_table

pytestmark = pytest.mark.core


def test_the_table_is_the_one_of_this_catalog():
    document = objectives_table.DOCUMENT.read_text()
    written = objectives_table.MARKS.filled(document, objectives_table.table())
    assert written == document, "run: python scripts/objectives_table.py"


@pytest.mark.slow
def test_the_table_of_trainers_is_the_one_of_this_catalog():
    document = objectives_table.INTEGRATIONS.read_text()
    written = objectives_table.MARKS.filled(document, objectives_table.table_of_trainers())
    assert written == document, "run: python scripts/objectives_table.py"


def documented(docstring):
    return types.SimpleNamespace(__name__="documented", __doc__=docstring)


def test_missing_lines_are_named():
    with pytest.raises(ValueError, match="must begin with 'NAME"):
        objectives_table.first_line(documented("An objective without a paper: A = r."))
    with pytest.raises(ValueError, match="lacks the line 'Evidence"):
        objectives_table.entry(documented("GRPO (arXiv 2402.03300): A."), "Evidence")


def test_cells_do_not_break_the_table():
    assert objectives_table.prose("KL(p | q)*, see `a|b_c`") == r"KL(p \| q)\*, see `a\|b_c`"
