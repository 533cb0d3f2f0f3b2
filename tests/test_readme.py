"""What the README shows must run."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.training.groups import choose_prompts, collect

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def execute(word):
    """Runs the one Python block of the README that contains a word, and returns its names."""
    (block,) = [block for block in BLOCKS if word in block]
    names = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)
    return names


def test_catalog_example():
    assert execute("objectives.describe(")["objective"].reward_shaping


@pytest.mark.slow
def test_wind_tunnel_example():
    names = execute("import verdict")
    assert names["judged"].word == "collapses"
    np.testing.assert_allclose(names["flow"].exponents[0], [0.0, -0.5, -1.0], atol=0.01)


def test_training_example():
    assert len(execute("state = train(")["records"]) == 50


def test_objective_example(monkeypatch):
    from ipsrl.objectives import catalog

    monkeypatch.setattr(catalog, "CATALOG", dict(catalog.CATALOG))
    names = execute("class RarityBonus")
    assert names["objectives"].make("rarity_bonus(bonus=0.5)") == names["rarity_bonus"](0.5)


def test_environment_example():
    dice = execute("class TwoDice")["TwoDice"]()
    policy = Tabular(dice.num_observations, dice.vocabulary_size)
    parameters = policy.init(jax.random.key(0))
    law = dice.terminal_distribution(log_probs_table(policy, parameters, dice))
    np.testing.assert_allclose(law, np.array([1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1]) / 36, rtol=1e-5)

    prompts = choose_prompts(dice, 0, 0, 1)
    trajectories, verdict = collect(dice, policy, parameters, prompts, 0, 0, group_size=64, temperature=1.0)
    np.testing.assert_array_equal(verdict.outcome_id, jnp.sum(trajectories.tokens, axis=-1))
    # Uniform over the parents, of which a sum has as many as it has paths.
    np.testing.assert_allclose(jnp.exp(verdict.log_backward), 1 / (36 * law[verdict.outcome_id]), rtol=1e-5)


@pytest.mark.slow
def test_experiment_example(tmp_path):
    (block,) = [block for block in BLOCKS if 'launch("ties"' in block]
    (tmp_path / "ties.py").write_text(block)
    command = [sys.executable, str(tmp_path / "ties.py"), "--preset=smoke", "--seeds=4"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    assert "ips_grpo: the likeliest of three equally good outcomes has 0." in finished.stdout


def test_folders_of_the_map_exist():
    for path in re.findall(r"`((?:ipsrl|experiments|scripts|tests)/[\w/.]*)`", (ROOT / "README.md").read_text()):
        assert (ROOT / path).exists(), path
