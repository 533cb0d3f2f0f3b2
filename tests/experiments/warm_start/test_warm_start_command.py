import dataclasses
import json

import jax.numpy as jnp
import pytest

from experiments import warm_start
from ipsrl.environments import catalog as environments
from ipsrl.policies.hugging_face.weights import load_parameters
from ipsrl.records.tidy import Records
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.study import Output, Study
from ipsrl.study.language_model import LanguageModelFlags
from ipsrl.study.study import run

pytestmark = pytest.mark.eight_devices
MESH = "data:4,model:2"
STUDY = Study.of(warm_start)


@pytest.mark.slow
def test_a_supervised_start_teaches(checkpoint, tmp_path):
    asked = warm_start.Settings(
        model_dir=checkpoint, task="hypospace_causal(nodes=2)", steps=20, answers_per_prompt=2, mesh=MESH
    )
    run(STUDY, asked, "smoke", Output(tmp_path, resume=False))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["complete"]
    assert 0 <= summary["final"][0]["pass_at_1"]["mean"] <= 1
    # Killed before it was measured: what was taught is not taught again.
    (tmp_path / "summary.json").unlink()
    written = (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns
    run(STUDY, asked, "smoke", Output(tmp_path, resume=True))
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns == written
    flags = LanguageModelFlags(model_dir=checkpoint, max_tokens=asked.max_tokens)
    model, task = flags.read_model(), flags.in_words(environments.make(asked.task))
    answer = jnp.asarray(task.render(0))[None, None]
    taught = given_answers(task.prompts(jnp.arange(1)), answer, jnp.array([[answer.size]]))
    before, after = (
        model.policy.score(load_parameters(folder, model.policy), taught, 1.0).log_probs.mean()
        for folder in (checkpoint, tmp_path / "model")
    )
    assert after > before + 1  # nats a token


def test_one_checkpoint_decides():
    (claim,) = warm_start.CLAIMS.values()
    rows = [{"step": 20, "task": "a", "seed": 3, "pass_at_1": share} for share in (0.41, 0.39)]
    assert [claim(Records([row], ("task",))) for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_dir": ""}, "--model_dir is missing"),
        ({"task": "bandit"}, "bandit is not a text task, whose answers are listed"),
    ],
)
def test_bad_supervised_starts_are_refused(checkpoint, changes, message, tmp_path):
    asked = dataclasses.replace(warm_start.Settings(model_dir=checkpoint), **changes)
    with pytest.raises(ValueError, match=message):
        run(STUDY, asked, "smoke", Output(tmp_path, resume=False))
