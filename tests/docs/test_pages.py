"""What README and pages show must run, and what they link to must exist."""

import dataclasses
import json
import re
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import study
from ipsrl.environments.group_log import GroupLog
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.study import catalog, claims_page
from ipsrl.study.study import run
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
@pytest.mark.parametrize("page", ["README.md", "docs/wind_tunnel.md"])
def test_wind_tunnel_example(page):
    names = execute(page, "import verdict")
    assert names["result"].word == "collapses"
    np.testing.assert_allclose(names["flow"].exponents[0], [0.0, -0.5, -1.0], atol=0.01)
    if page != "README.md":
        execute(page, "import Steps", names)


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


@pytest.mark.slow
def test_study_example(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "two_dice", module := types.ModuleType("two_dice"))
    vars(module).update(execute("docs/extending.md", "class TwoDice", {"__name__": "two_dice"}))
    vars(module).update(execute("docs/extending.md", "class EqualDice", vars(module)))
    execute("docs/extending.md", "claims.decided(", vars(module))
    settings = dataclasses.replace(module.PRESETS["smoke"], steps=400, record_every=100, seeds=(0, 1, 2, 3))
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
    pytest.importorskip("trl", reason="pip install 'ipsrl[trl]'")
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
    for module in re.findall(r"python -m (experiments\.\w+)", text):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module
    for script in re.findall(r"(?:python |^)(scripts/[\w/]+\.\w+)", text, re.MULTILINE):
        assert (ROOT / script).exists(), script


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    # The site writes the folder `reference` when it is built.
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("https://", "reference/")):
            assert (page.parent / target).exists(), target


SECTIONS = {name: found for name, found in catalog.drawn().items() if claims_page.has_section(found[0])}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_of_claims_says_what_the_study_says(name):
    found, variant = SECTIONS[name]
    page = (ROOT / "docs" / "claims.md").read_text()
    section = page.partition(f"\n## {variant.shows}\n")[2].partition("\n## ")[0]
    for heading in ("Claim", "Paper", "Arms", "Expected", "Doubt"):
        assert found.header[heading] in section, (
            f"write the section of {name} anew: scripts/reproduce_figures.py --claims"
        )
    assert [sentence for sentence in found.claims if f": {sentence}\n" not in section] == []


@pytest.mark.slow
def test_the_tutorial_runs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160
