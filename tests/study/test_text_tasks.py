import dataclasses
import json
import re

import jax
import pytest

from experiments import hypospace
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters
from ipsrl.records.json_files import read_json
from ipsrl.records.metric_log import read
from ipsrl.study import Output, Study
from ipsrl.study.language_model import LanguageModelFlags
from ipsrl.study.study import run

pytestmark = pytest.mark.eight_devices

MESH = "data:4,model:2"
STUDY = Study.of(hypospace)


def settings(checkpoint, **changes):
    return dataclasses.replace(
        hypospace.PRESETS["smoke"],
        **{"policy": "hf", "model_dir": checkpoint, "seeds": (0,), "objectives": ("grpo(kl=0.1)",), "steps": 2}
        | {"max_tokens": 4, "mesh": MESH, "answers": 4, "checkpoint_every": 1}
        | changes,
    )


@pytest.mark.slow
@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_run_on_a_mesh_continues_and_leaves_a_model(checkpoint, tmp_path, lora_rank):
    asked = settings(checkpoint, lora_rank=lora_rank, export=True, dtype="bfloat16", remat="layer")
    run(STUDY, asked, "smoke", Output(tmp_path, resume=False))
    (log,) = tmp_path.rglob("metrics.jsonl")
    before = log.read_text()
    assert [json.loads(line)["step"] for line in before.splitlines()] == [0, 1, 2]
    run(STUDY, asked, "smoke", Output(tmp_path, resume=True))
    assert log.read_text() == before
    (folder,) = tmp_path.rglob("model")
    assert jax.tree.leaves(load_parameters(folder, read_policy(folder)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "small", "model_dir": "", "max_tokens": 256, "lora_rank": 4}, "--lora_rank is for language models"),
        ({"policy": "small", "model_dir": "", "max_tokens": 9}, "--max_tokens is for language models"),
        ({"frozen_dtype": "int4"}, "--frozen_dtype=int4 is the type of what adapters are trained on: give --lora_rank"),
        ({"longest_prompt": 20}, "more than the 20 that are allowed: raise longest_prompt"),
        (
            {"longest_prompt": 4090, "max_tokens": 7},
            "longest_prompt 4090 and max_tokens 7 are together more than the 4096 positions",
        ),
        (
            {"tools": "calculator", "stop_strings": '["."]'},
            "stop strings would end an answer in the middle of a call: leave out these or the tools",
        ),
        ({"model_dir": "/nowhere"}, "there is no folder /nowhere: give the folder of a Hugging Face checkpoint"),
        ({"lora_rank": 4, "lora_targets": ("q",)}, "the targets of LoRA are some of"),
        ({"mesh": "data:2,model:4"}, "num_key_value_heads is 2, which cannot be split evenly over the 4 devices"),
        ({"tasks": ("bandit",)}, "bandit is not a text task, .* such as hypospace_causal, .*factors"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ",".join(value),
)
def test_what_cannot_be_is_refused_before_weights_are_read(checkpoint, changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run(STUDY, settings(checkpoint, **changes), "smoke", Output(tmp_path / "out", resume=False))
    assert not (tmp_path / "out").exists()


@dataclasses.dataclass(frozen=True)
class Quick(HypospaceBoolean):
    """A task whose answers are read at once."""

    reads_quickly = True


@pytest.mark.parametrize(
    ("task", "changes", "processes"),
    [
        (HypospaceBoolean, {}, 2),
        (HypospaceBoolean, {"verifier_processes": 0}, 0),
        (Quick, {}, 0),
        (Quick, {"verifier_processes": 3}, 3),
        (Quick, {"tools": "calculator"}, 2),
    ],
)
def test_a_task_that_reads_quickly_needs_no_processes(checkpoint, task, changes, processes):
    flags = LanguageModelFlags(model_dir=checkpoint, **changes)
    assert flags.in_words(task("basic", 1)).verifier.workers == processes


@pytest.mark.slow
def test_the_prior_and_the_ceiling_have_rows_beside_the_objectives(tmp_path, capsys):
    small = {"evaluate_every": 4, "prompts_per_step": 2, "micro_batches": 1}
    asked = dataclasses.replace(hypospace.PRESETS["smoke"], objectives=("grpo",), mesh="replica:-1", **small)
    run(STUDY, asked, "smoke", Output(tmp_path, resume=False))
    title, _, *rows = capsys.readouterr().out.split("\n")
    assert title == (
        "hypospace_boolean(operators=basic, depth=2), protocol independent, mean over seeds 0:2 [95 % interval]"
    )
    assert rows[0].startswith("prior     ")
    assert re.match(r"grpo +0\.\d\d \[-?0\.\d\d, 0\.\d\d\] ", rows[1])
    assert re.fullmatch(r"ceiling of independent answers +0\.70", rows[2])
    (log,) = tmp_path.glob("*/grpo/seed_0/metrics.jsonl")
    prior = read(log)[0]
    final = read_json(tmp_path / "summary.json")["final"]
    assert [row["objective"] for row in final] == ["prior", "grpo", "ceiling of independent answers"]
    assert final[0]["recovery"] == prior["evaluation/recovery"]
    assert final[2]["recovery"] == prior["evaluation/ceiling"]
