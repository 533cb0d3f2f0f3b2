"""Code shown in README and pages runs, their links lead somewhere, and their numbers are those that are stored."""

import argparse
import dataclasses
import importlib
import json
import re
import shutil
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags

from experiments import transfer
from ipsrl import study
from ipsrl.environments.group_log import GroupLog
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.records.tidy import Records
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.study import catalog
from ipsrl.study.command_line import CommandLine
from ipsrl.study.pages import claim_pages
from ipsrl.study.study import run
from scripts import claims_table, reproduce_figures
from tests.hangs import HANGS
from tests.sampled_groups import collect

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def execute(page, word, names=None):
    """Runs the one Python block of a page that contains a word, after what has given `names`; returns its names."""
    (block,) = [block for block in blocks(page) if word in block]
    names = {"__name__": "page"} | (names or {})
    exec(compile(block, page, "exec"), names)
    return names


def test_catalog_example():
    assert execute("README.md", "objectives.describe(")["objective"].reward_shaping


@pytest.mark.slow
def test_wind_tunnel_example():
    page = "docs/wind_tunnel.md"
    names = execute(page, "import verdict")
    assert names["result"].word == "collapses"
    np.testing.assert_allclose(names["flow"].exponents[0], [0.0, -0.5, -1.0], atol=0.01)
    execute(page, "import Steps", names)


@pytest.mark.slow
def test_readme_example():
    assert execute("README.md", "import verdict")["result"].word == "collapses"


def test_group_size_example():
    names = execute("docs/wind_tunnel.md", "smallest_group(")
    assert names["group"] == 5
    assert names["exponent"] == pytest.approx(0.512, abs=5e-4)


def test_training_example():
    names = execute("docs/training.md", "state = train(")
    assert len(names["records"]) == 50
    # It compares its parameters with those of the loop.
    execute("docs/training.md", "learned = apply(", names)


def test_objective_example(monkeypatch):
    from ipsrl.objectives import catalog

    monkeypatch.setattr(catalog, "CATALOG", dict(catalog.CATALOG))
    names = execute("docs/extending.md", "class RarityBonus")
    assert names["objectives"].make("rarity_bonus(bonus=0.5)") == names["rarity_bonus"](0.5)


def test_environment_example():
    dice = execute("docs/extending.md", "class TwoDice")["TwoDice"]()
    policy = Tabular(dice.num_observations, dice.vocabulary_size)
    parameters = policy.init(jax.random.key(0))
    probs = dice.terminal_distribution(log_probs_table(policy, parameters, dice))
    np.testing.assert_allclose(probs, np.array([1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1]) / 36, rtol=1e-5)

    prompts = choose_prompts(dice, 0, 0, 1)
    trajectories, verdict = collect(dice, policy, parameters, prompts, 0, 0, group_size=64, temperature=1.0)
    np.testing.assert_array_equal(verdict.outcome_id, jnp.sum(trajectories.tokens, axis=-1))
    # Uniform over the parents, of which a sum has as many as it has paths.
    np.testing.assert_allclose(jnp.exp(verdict.log_backward), 1 / (36 * probs[verdict.outcome_id]), rtol=1e-5)


def test_text_task_example():
    names = execute("docs/extending.md", "class Divisors", execute("docs/extending.md", "class TwoDice"))
    task = names["Divisors"]()
    assert task.admissible.sum(axis=1).tolist() == [1, 2, 2, 3, 2, 4, 2, 4, 3, 4, 2, 6]
    assert [task.parse(task.render(5)), task.parse_text(task.answer_text(5))] == [5, 5]
    texts = ["<answer> 2 </answer>", "<answer> 3 </answer>", "2", "<answer> banana </answer>"]
    outcomes = task.verify_texts([3], [texts])
    assert outcomes.rewards.tolist() == [[1, 0, 0, 0]]
    assert outcomes.outcome_id.tolist() == [[1, 2, -1, -1]]
    assert execute("docs/extending.md", "source = Sampled(", names)["outcomes"].rewards.shape == (2, 4)


@pytest.mark.slow
def test_study_example(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "two_dice", module := types.ModuleType("two_dice"))
    vars(module).update(execute("docs/extending.md", "class TwoDice", {"__name__": "two_dice"}))
    vars(module).update(execute("docs/extending.md", "class EqualDice", vars(module)))
    execute("docs/extending.md", "claims.decided(", vars(module))
    settings = dataclasses.replace(module.PRESETS["smoke"], steps=400, record_every=100, seeds=(0, 1, 2, 3, 4))
    run(study.Study.of(module), settings, "demo", study.Output(tmp_path / "out", resume=False))
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["verdict"] == "supported"
    assert (tmp_path / "out" / "two_dice.png").exists()


def test_advantages_example(capsys):
    execute("docs/integrations.md", "import advantages")
    assert capsys.readouterr().out.startswith("[")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing(_disable|_enable)?` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found:UserWarning")
def test_trl_example(tmp_path, monkeypatch):
    pytest.importorskip("trl", reason='pip install -e ".[trl]"')
    from tests.integrations import small_model

    monkeypatch.chdir(tmp_path)
    names = execute("docs/integrations.md", "IPSRLTrainer", {"MODEL": small_model.saved(tmp_path / "model")})
    assert names["trainer"].state.global_step == 2
    execute("docs/integrations.md", "to_json", names)
    log = GroupLog.read("groups.jsonl")
    assert log.rewards.shape == (2, 8)
    assert (log.outcome_id[log.rewards > 0] >= 0).all()


def test_every_block_is_executed():
    # Those with trainers that ask for other packages than ours are executed in environments of their own.
    files = [Path(__file__), *(ROOT / "tests" / "integrations").glob("inside_*.py")]
    executed = "\n".join(file.read_text() for file in files)
    for page in PAGES:
        for block in blocks(page):
            words = re.findall(r'execute\((?:"[\w./]+"|page), "(.+?)"', executed)
            assert any(word in block for word in words), f"{page.name}: no test executes\n{block}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    text = page.read_text()
    for path in re.findall(r"`((?:ipsrl|experiments|scripts|tests|docs)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path
    assert set(re.findall(r"python -m experiments\.(\w+)", text)) <= set(catalog.names())
    for script in re.findall(r"(?:python |^)(scripts/[\w/]+\.\w+)", text, re.MULTILINE):
        assert (ROOT / script).exists(), script


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    # The site writes the folder `reference` when it is built.
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("https://", "reference/")):
            assert (page.parent / target).exists(), target


def options(parser):
    """The names of all flags of an argparse parser and its commands."""
    chosen = [
        made for action in parser._actions if isinstance(action.choices, dict) for made in action.choices.values()
    ]
    commands = [made for made in chosen if isinstance(made, argparse.ArgumentParser)]
    own = {text.lstrip("-") for action in parser._actions for text in action.option_strings}
    return own.union(*map(options, commands))


def flags_of(module):
    """The flags of `experiments.NAME` or `scripts.NAME`."""
    if module.startswith("scripts."):
        return options(importlib.import_module(module).parser())
    found, values = catalog.find(module.removeprefix("experiments.")), flags.FlagValues()
    CommandLine(found.name, found.presets, found.many_hosts, found.trackers, values)
    return set(values)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_have_these_flags(page):
    text = page.read_text().replace("\\\n", " ").replace("scripts/", "scripts.").replace(".py ", " ")
    for module, rest in re.findall(r"((?:experiments|scripts)\.[a-z_]+) ([^`#\n]*--[^`#\n]*)", text):
        unknown = set(re.findall(r"--(\w+)", rest)) - flags_of(module)
        assert not unknown, f"{module} {rest}"


def test_rows_of_figures_are_those_of_the_studies():
    page = (ROOT / "docs" / "figures.md").read_text()
    rows = dict(line.removeprefix("| ").split(" | ", 1) for line in page.splitlines() if line.startswith("| "))
    drawn = {variant.shows: (found, variant) for found, variant in catalog.drawn().values()}
    for shows in rows.keys() - {"figure or table", "---"}:
        found, variant = drawn[shows]
        command = reproduce_figures.command(found, variant, "demo")
        assert rows[shows].startswith(f"{'; '.join(found.claims)} | `{command}` | ")
    for found in catalog.every().values():
        if not found.variants:
            assert f"- `{found.command()}`: {found.header['Time']}\n" in page


def effective_outcomes(page, when):
    """Records of a table of docs/transfer.md, at a reward at which objectives are compared."""
    (table,) = re.findall(rf"^\| effective outcomes {when} (\|(?:.*\n\|)+)", page, re.MULTILINE)
    head, _, *rows = [line.strip("| \n").split(" | ") for line in table.splitlines() if line.strip("|")]
    of_reward = {"step": 0, "reward": 1.0}
    kept = [
        of_reward | {"level": level, "objective": name, "effective_outcomes": float(cell.split()[0])}
        for name, *cells in rows
        for level, cell in zip(head, cells, strict=False)
        if cell.strip()
    ]
    return Records(kept, ("level", "objective"))


def test_two_classes_of_transfer_are_those_of_its_tables():
    page = (ROOT / "docs" / "transfer.md").read_text()
    records = effective_outcomes(page, "at the bar")
    of_classes, most, others = (f"{number(records).mean:.2f}" for number in list(transfer.NUMBERS.values())[-3:])
    assert f"gives a\nrank correlation of {of_classes} with the model" in page
    assert f"as the model does, {most}; within the seven it does not, {others}." in page
    ends = effective_outcomes(page, "at the end").where(level=transfer.MODEL)
    in_order = sorted(ends.rows, key=lambda row: row["effective_outcomes"])
    gaps = np.diff([row["effective_outcomes"] for row in in_order])
    assert {row["objective"] for row in in_order[1 + np.argmax(gaps) :]} == set(transfer.KEEPERS)


NOT_RUN_YET = {"transfer"}
"""Studies with a headline and no published run: this takes four hours, and its numbers are in docs/transfer.md."""


def test_pages_of_claims_are_those_of_the_results(tmp_path):
    """Words are those of the study, numbers those of its last published run: `python scripts/claims_table.py`."""
    folder = ROOT / "docs" / "claims"
    tested = {name for name, study in catalog.every().items() if study.headline is not None} - NOT_RUN_YET
    for name in tested:
        # A page has a figure if there is one.
        shutil.copyfile(folder / f"{name}.png", tmp_path / f"{name}.png")
    written = claim_pages.write(tmp_path, catalog.every().values())
    assert {path.stem for path in written} == {*tested, "index"}
    assert {path.name: path.read_text() for path in written} == {
        path.name: path.read_text() for path in folder.glob("*.md")
    }
    readme = (ROOT / "README.md").read_text()
    assert claims_table.MARKS.content(readme).strip() == claims_table.rows()


@pytest.mark.slow
def test_the_tutorial_runs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=HANGS, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160
