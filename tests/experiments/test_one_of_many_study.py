"""The study of a real language model: its claims on made-up records, and all of it on a tiny random model."""

import dataclasses
import json

import pytest

from experiments import one_of_many
from experiments.one_of_many import GRPO, IPS, PRESETS
from ipsrl.records import metric_log
from ipsrl.records.tidy import Records
from ipsrl.study import claims
from ipsrl.study.study import Output, Study, run
from ipsrl.study.text_tasks import held_out_task
from scripts.make_checkpoint import make_checkpoint

STUDY = Study.of(one_of_many)


def records(grpo, ips, pass_at_1=0.98, held_out=(4.0, 5.0)):
    """The ends of two seeds each of GRPO and IPS-GRPO, from 8.5 effective right answers."""
    ends = [(one_of_many.PRIOR, None, 8.5, 5.0, 0.5)]
    for objective, values, others in ((GRPO, grpo, held_out[0]), (IPS, ips, held_out[1])):
        ends += [(objective, seed, value, others + value / 100, pass_at_1) for seed, value in enumerate(values)]
    rows = [
        {
            "objective": objective, "seed": seed, "step": 40, "effective_outcomes": value,
            "held_out_effective_outcomes": others, "pass_at_1": valid,
        }
        for objective, seed, value, others, valid in ends
    ]  # fmt: skip
    return Records([{k: v for k, v in row.items() if v is not None} for row in rows], ("objective",))


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (records((2.4, 2.6), (10.1, 9.8)), [True, True, True]),
        (records((5.0, 5.2), (10.1, 9.8)), [False, True, True]),
        (records((2.4, 2.6), (2.5, 9.8)), [True, None, True]),
        (records((2.4, 4.6), (10.1, 9.8)), [None, True, True]),
        (records((2.4, 2.6), (10.1, 9.8), pass_at_1=0.8), [True, False, False]),
        (records((2.4, 2.6), (10.1, 9.8), held_out=(5.0, 4.0)), [True, True, False]),
        (records((2.4,), (10.1,)), [None, None, None]),
    ],
)
def test_claims_are_decided_by_intervals_and_pass_at_1(found, held):
    assert list(claims.decided(one_of_many.CLAIMS, found).values()) == held


def test_all_objectives_of_the_long_preset_are_different():
    assert len(set(map(str, PRESETS["all"].objectives))) == len(PRESETS["all"].objectives) == 11


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    model = make_checkpoint(tmp_path_factory.mktemp("model") / "tiny", hidden_size=16, num_layers=1)
    return dataclasses.replace(PRESETS["smoke"], model_dir=str(model), lora_rank=2, max_tokens=4, mesh="data:1")


def test_questions_that_are_trained_on_are_not_held_out():
    message = r"has 2 questions of one_of_many\(questions=eight\), such as 'Name a .*': hold out others"
    with pytest.raises(ValueError, match=message):
        held_out_task("one_of_many(questions=('day', 'month', 'season'))", "one_of_many(questions=eight)")
    assert held_out_task("one_of_many(questions=nine)", "one_of_many(questions=eight)").num_prompts == 9


def test_a_small_policy_is_not_asked_held_out_questions(settings):
    with pytest.raises(
        ValueError, match=r"--held_out is for language models: give --policy=hf and --model_dir as well"
    ):
        dataclasses.replace(settings, policy="small", model_dir="", lora_rank=0, max_tokens=256, frozen_dtype="float32")


@pytest.mark.slow
def test_trains_asks_both_sets_of_questions_and_continues(settings, tmp_path, capsys):
    run(STUDY, settings, "smoke", Output(tmp_path, False))
    first = capsys.readouterr().out
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

    written = (runs[0] / "metrics.jsonl").read_bytes()
    run(STUDY, settings, "smoke", Output(tmp_path, True))
    assert capsys.readouterr().out == first
    assert (runs[0] / "metrics.jsonl").read_bytes() == written
