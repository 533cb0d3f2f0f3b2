import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow_datasets as tfds

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.stored_texts import write_texts
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

pytestmark = pytest.mark.eight_devices

TASK = HypospaceCausal(2)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=2)
RIGHT = [np.flatnonzero(row).tolist() for row in TASK.admissible]
PROMPTS = 8


def demonstrations():
    """Two right answers to each prompt, the same one twice where there is no other."""
    return [
        {
            "prompt": prompt,
            "answers": [TASK.render(RIGHT[prompt][0]), TASK.render(RIGHT[prompt][-1])],
            "rewards": (1.0, 0.5),
        }
        for prompt in np.arange(PROMPTS) % TASK.num_prompts
    ]


def trained(rows, steps, objective="supervised", mesh="data:8", **settings):
    """The policy before and after some steps, and the groups of the first one."""
    source = StoredGroups.of(TASK, POLICY, PROMPTS, rows)
    plain = {"optimizer": "sgd", "learning_rate": 1.0, "max_gradient_norm": None} | settings
    trainer = Trainer(TASK, POLICY, objectives.make(objective), TrainSettings(steps, PROMPTS, 2, **plain), source)
    with jax.set_mesh(make_mesh(mesh)):
        trainer.check()
        state = trainer.init(0)
        before = jax.device_get(state.parameters)
        _, groups, _ = trainer.ask(state)
        for _ in range(steps):
            state, _ = trainer.step(state)
    return before, jax.device_get(state.parameters), jax.device_get(groups)


@pytest.mark.parametrize(("mesh", "parts", "prompts"), [("data:8", 1, False), ("data:4,model:2", 2, True)])
def test_a_step_climbs_the_likelihood_of_the_texts(mesh, parts, prompts):
    objective = f"supervised(prompts={prompts})"
    before, after, (answers, outcomes) = trained(
        demonstrations(), 1, objective, mesh, batching=Batching(micro_batches=parts)
    )

    def loss(parameters):
        found = POLICY.score(parameters, answers, 1.0).log_probs
        total = (found * answers.token_mask * outcomes.rewards[..., None]).sum()
        count = answers.token_mask.sum()
        if prompts:
            log_probs, mask = POLICY.prompt_log_probs(parameters, answers.prompts, 1.0)
            total, count = total + jnp.where(mask, log_probs, 0.0).sum(), count + mask.sum()
        return -total / count

    slopes = jax.jit(jax.grad(loss))(before)
    for old, new, slope in zip(*map(jax.tree.leaves, (before, after, slopes)), strict=True):
        np.testing.assert_allclose(old - new, slope, rtol=1e-4, atol=1e-6)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(slopes)) > 0.01


@pytest.mark.slow
def test_preferences_of_a_tfds_data_set_are_learned(tmp_path):
    """The wrong answer to each prompt is the preferred one."""
    wrong = [np.flatnonzero(~row).tolist() for row in TASK.admissible]
    prompts = np.resize([prompt for prompt in range(TASK.num_prompts) if wrong[prompt]], PROMPTS)
    written = [
        {"prompt": str(prompt), "chosen": str(wrong[prompt][0]), "rejected": str(RIGHT[prompt][0])}
        for prompt in prompts
    ]
    folder = write_texts(tmp_path, "preferences", tuple(written[0]), {"train": written})
    rows = [
        {
            "prompt": int(row["prompt"]),
            "answers": [TASK.render(int(row[key])) for key in ("chosen", "rejected")],
            "rewards": [1.0, 0.0],
        }
        for row in tfds.builder_from_directory(folder / "1.0.0").as_data_source("train")
    ]
    before, after, (answers, _) = trained(rows, 30, "dpo", optimizer="adam", learning_rate=3e-3)
    gains = [POLICY.score(parameters, answers, 1.0).log_probs.sum(axis=-1) for parameters in (before, after)]
    chosen, rejected = np.asarray(gains[1] - gains[0]).T
    assert (chosen > rejected).all()
