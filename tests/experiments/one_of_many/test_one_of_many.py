import dataclasses
import json

import pytest

from experiments import one_of_many
from experiments.one_of_many import PRESETS
from ipsrl.records import metric_log
from ipsrl.study.curves import Output
from ipsrl.study.study import Study, run
from ipsrl.study.text_tasks import held_out_task
from scripts.make_checkpoint import make_checkpoint

STUDY = Study.of(one_of_many)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    model = make_checkpoint(tmp_path_factory.mktemp("model") / "tiny", hidden_size=16, num_layers=1)
    return dataclasses.replace(PRESETS["smoke"], model_dir=str(model), lora_rank=2, max_tokens=4, mesh="data:1")


def test_questions_that_are_trained_on_are_not_held_out():
    message = r"has 2 questions of one_of_many\(questions=eight\), such as 'Name a .*': hold out others"
    with pytest.raises(ValueError, match=message):
        held_out_task("one_of_many(questions=('day', 'month', 'season'))", "one_of_many(questions=eight)")
    assert held_out_task("one_of_many(questions=nine)", "one_of_many(questions=eight)").num_prompts == 9


@pytest.mark.slow
def test_trains_and_asks_both_sets_of_questions(settings, tmp_path):
    run(STUDY, settings, "smoke", Output(tmp_path, False))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["complete"]
    [folder] = tmp_path.glob("one_of_many-*")
    runs = sorted(folder.glob("*/seed_0"))
    assert len(runs) == 2
    for path in runs:
        last = metric_log.read(path / "metrics.jsonl")[-1]
        assert {"evaluation/effective_outcomes", "evaluation/held_out_pass_at_1"} <= last.keys()
        shown = [json.loads(line) for line in (path / "completions.jsonl").read_text().splitlines()]
        assert {row["step"] for row in shown} == {0, 2}
        asked = {row["prompt_index"]: row["prompt"] for row in shown}
        assert asked.keys() == {0, 1, 2}
        assert asked[2].startswith("Name a season of the year.\n")
    assert (tmp_path / "one_of_many.png").stat().st_size > 5000
