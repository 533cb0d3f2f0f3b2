"""Where a page lists what exists in the code, the list is that of the code."""

import dataclasses
import inspect
import os
import re
from pathlib import Path

import pytest

from ipsrl import objectives
from ipsrl.dynamics.verdict import MEANINGS
from ipsrl.environments import catalog as environments
from ipsrl.environments.molecules.rewards import CATALOG as MOLECULE_REWARDS
from ipsrl.environments.questions import Questions
from ipsrl.environments.text import TextTask
from ipsrl.integrations import outcomes
from ipsrl.objectives.corrections import Correction
from ipsrl.objectives.objective import Objective
from ipsrl.records.monitors import MONITORS, make_monitors
from ipsrl.records.trackers import TRACKERS
from ipsrl.rollouts.sources.critics import Critic
from ipsrl.sweeps import launcher_catalog
from ipsrl.training.settings import BATCH_FILTERS, make_batch_filters
from ipsrl.training.step import Batching
from scripts import objectives_table

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def rows(page, head):
    """The cells of the one table of a page whose first line begins with `head`."""
    (table,) = re.findall(rf"^\| {re.escape(head)} .*\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE)
    return [row.strip("| ").split(" | ") for row in table.splitlines()[1:]]


def listed(page, head):
    """The names in backticks with which the rows of a table begin, or `name(...)` does."""
    return [name for first, *_ in rows(page, head) if first[0] == "`" for name in re.findall(r"`(\w+)", first)]


def of_text():
    """Environments whose answers a language model can give. `mode_bench` is a function that makes one."""
    catalog = environments.CATALOG.items()
    return {name for name, make in catalog if not inspect.isclass(make) or issubclass(make, TextTask | Questions)}


def outcome_functions():
    own = {name: of for name, of in vars(outcomes).items() if getattr(of, "__module__", "") == outcomes.__name__}
    called = {name: of.__call__ if inspect.isclass(of) else of for name, of in own.items()}
    return {name for name, of in called.items() if "completion" in inspect.signature(of).parameters}


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("training.md", "batch filter", BATCH_FILTERS),
        ("training.md", "critic", Critic.NAMED),
        ("training.md", "monitor", MONITORS),
        ("training.md", "field, and flag", [field.name for field in dataclasses.fields(Batching)]),
        ("sweeps.md", "`--launcher=`", launcher_catalog.LAUNCHERS),
        ("objectives.md", "correction", Correction.NAMED),
        ("integrations.md", "function", outcome_functions()),
        ("language_models.md", "environment", of_text()),
    ],
)
def test_a_table_has_a_row_for_each(page, head, names):
    assert set(listed(DOCS / page, head)) == set(names)


def test_each_objective_is_in_one_family():
    members = [names for _, names in rows(DOCS / "objectives.md", "family")]
    families = re.findall(r"`(\w+)`", " ".join(members))
    assert sorted(families) == sorted(objectives.names())


@pytest.mark.parametrize("page", [README, DOCS / "index.md"], ids=lambda page: page.name)
def test_the_number_of_objectives_is_that_of_the_catalog(page):
    # All rows are counted, with the placebo and supervised training.
    assert re.findall(r"(\d+) objectives", page.read_text()) == [str(len(objectives.names()))]


def test_objectives_that_are_compared_with_trl_are_those_that_it_has():
    peers = {name: objectives_table.entry(make, "Peers", "") for name, make in objectives.catalog.CATALOG.items()}
    # Supervised training is TRL's, too, but no trainer's step is compared with it.
    expected = {name for name, libraries in peers.items() if "TRL" in libraries} - {"supervised"}
    assert set(listed(DOCS / "objectives.md", "here")) & set(objectives.names()) == expected


def test_parts_of_objectives():
    parts = {cells[0].replace(" ", "_").replace("-", "") for cells in rows(DOCS / "extending.md", "part")}
    # A correction is an argument of every row, and the tokens of a step of their own are no part.
    assert parts == {field.name for field in dataclasses.fields(Objective)} - {"correction", "first"}


def test_words_of_verdicts():
    section = (DOCS / "wind_tunnel.md").read_text().partition("## The verdicts")[2].partition("\n## ")[0]
    assert re.findall(r"^- \*\*(.+)\*\*", section, re.MULTILINE) == list(MEANINGS)


def test_trackers_and_rewards_of_molecules():
    for page in ("results_and_reports.md", "sweeps.md"):
        assert f"--tracker={','.join(TRACKERS)}" in (DOCS / page).read_text()
    named = re.findall(r'--reward="?(\w+)', (DOCS / "molecules.md").read_text())
    assert set(named) == set(MOLECULE_REWARDS)


def test_each_environment_is_named():
    text = "\n".join(page.read_text() for page in PAGES)
    assert [name for name in environments.names() if not re.search(rf"[`\"]{name}\b", text)] == []


def test_each_page_is_found_from_the_readme_and_from_the_first_page():
    for page, folder in ((README, "docs/"), (DOCS / "index.md", "")):
        linked = set(re.findall(r"\]\(([\w/.]+)", page.read_text()))
        pages = {f"{folder}{file.name}" for file in (*DOCS.glob("*.md"), *DOCS.glob("*.ipynb"))}
        assert pages - linked == {f"{folder}index.md"}


def test_each_command_is_named():
    commands = [path for path in (ROOT / "scripts").iterdir() if path.suffix == ".sh" and os.access(path, os.X_OK)]
    commands += [path for path in (ROOT / "scripts").glob("*.py") if '__name__ == "__main__"' in path.read_text()]
    text = "\n".join(page.read_text() for page in PAGES)
    assert [path.name for path in commands if f"scripts/{path.name}" not in text] == []


def test_the_map_has_each_folder():
    folders = {path.parent.name for path in (ROOT / "ipsrl").glob("*/__init__.py")}
    the_map = README.read_text().partition("    ipsrl/\n")[2].partition("    experiments/")[0]
    assert folders - set(re.findall(r"(\w+)/", the_map)) == set()


def specifications():
    """Texts such as `grpo(kl=0.04)` in pages, without those that leave something open."""
    texts = [text for page in PAGES for text in re.findall(r'[`"](\w+\([^`"\n]*\))[`"]', page.read_text())]
    # A letter stands for a number. reasoning-gym checks its options by its package, which may be missing.
    return sorted({text for text in texts if not re.search(r"\.\.\.|=[a-z]\)|^reasoning_gym", text)})


def test_texts_of_objectives_environments_and_the_like_are_read():
    readers = [
        (objectives.names(), objectives.make),
        (environments.names(), environments.check),
        (BATCH_FILTERS, make_batch_filters),
        (MONITORS, make_monitors),
        (launcher_catalog.LAUNCHERS, launcher_catalog.make),
    ]
    read = 0
    for text in specifications():
        for names, reader in readers:
            if text.partition("(")[0] in names:
                reader(text)
                read += 1
    assert read > 30
