"""The default run stays short: rows of the catalog and studies have no more than their share of it."""

import re
from collections import Counter

import pytest

from ipsrl.objectives import names
from ipsrl.study import catalog
from tests.tiers import SLOW_FOLDERS, TESTS

TESTS_OF_A_ROW, TESTS_OF_A_STUDY = 24, 4
"""At the mean. Most are made from the row's declaration, or from the study's header."""


@pytest.fixture
def selected(request):
    """The tests of this run, if it is the whole default run on one device."""
    options = request.config.option
    chosen = options.markexpr != "not slow" or options.keyword or options.devices == 8
    if chosen or request.config.args != request.config.getini("testpaths"):
        pytest.skip("counts the tests of the whole default run")
    return request.session.items


def test_rows_and_studies_have_no_more_than_their_share(selected):
    rows, studies = set(names()), set(catalog.names())
    of_rows, of_studies = Counter(), Counter()
    for item in selected:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        texts = {text.partition("(")[0] for text in parameters if isinstance(text, str)}
        (of_rows if item.path.is_relative_to(TESTS / "objectives") else of_studies).update(texts)
    assert sum(of_rows[name] for name in rows) <= TESTS_OF_A_ROW * len(rows)
    assert sum(of_studies[name] for name in studies) <= TESTS_OF_A_STUDY * len(studies)
    assert min(of_rows[name] for name in rows) > 0 < min(of_studies[name] for name in studies)


def test_every_file_that_the_script_of_tests_names_is_there():
    script = (TESTS.parent / "scripts" / "test.sh").read_text()
    named = re.findall(r"(tests/\S+/test_)\{([^}]*)\}(\.py)", script)
    files = [f"{start}{name}{end}" for start, names, end in named for name in names.split(",")]
    assert len(files) > 4
    assert [file for file in files if not (TESTS.parent / file).is_file()] == []


def test_every_folder_of_slow_tests_is_there():
    assert [folder for folder in SLOW_FOLDERS if not (TESTS / folder).is_dir()] == []
