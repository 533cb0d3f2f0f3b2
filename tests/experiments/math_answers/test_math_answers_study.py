import dataclasses
import json
import types
from fractions import Fraction

import numpy as np
import pytest

from experiments import math_answers
from experiments.math_answers import PRESETS, Settings
from ipsrl.environments.language.math_answers import outcome_of
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.records.tidy import Records
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.sampled_answers import AllAnswers, Completion
from ipsrl.structures import Outcomes
from ipsrl.study import Output, Study, claims
from ipsrl.study.study import run
from scripts.make_checkpoint import make_checkpoint
from scripts.make_questions import make_questions

pytestmark = pytest.mark.eight_devices

HELD_OUT = "math_answers(split=test)"
STUDY = Study.of(math_answers)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Settings of a smoke run on a tiny model and few questions."""
    folder = tmp_path_factory.mktemp("material")
    model = make_checkpoint(folder / "model", hidden_size=16, num_layers=1)
    make_questions(folder, train=32, test=16, largest=2)
    data = f"math_answers(data_dir={str(folder)!r}, builder=small_sums"
    return dataclasses.replace(
        PRESETS["smoke"],
        model_dir=str(model),
        data=f"{data})",
        evaluation_data=f"{data}, split=test, limit=8)",
        objectives=("grpo", "ips_dr_grpo(aggregation=sequence_mean)"),
    )


def test_measures_by_hand(monkeypatch):
    right, wrong, none = outcome_of(Fraction(4)), outcome_of(Fraction(5)), -1
    outcomes = Outcomes(
        rewards=np.array([[1, 1, 0, 0], [0, 0, 0, 0]], np.float32),
        outcome_id=np.array([[right, right, wrong, none], [wrong, none, none, none]], np.int32),
    )
    answers = AllAnswers(
        outcomes,
        tokens=np.array([[[7, 0]] * 4, [[8, 9]] * 4]),
        written=np.array([[[True, False]] * 4, [[True] * 2] * 4]),
        dictated=np.zeros((2, 4, 2), bool),
    )
    held_out = types.SimpleNamespace(
        question_text=lambda prompt: f"question {prompt}", answer_texts=lambda rows: [str(row.tolist()) for row in rows]
    )
    asked = []

    def answer(*arguments):
        asked.append(arguments)
        return answers

    monkeypatch.setattr(math_answers, "independent_answers", answer)
    settings = Settings(answers=4, pass_at=3, prompts_at_once=2, temperature=0.5)
    measured = math_answers.evaluate(held_out, "policy", settings, 0, "parameters")
    ((environment, policy, parameters, _, *numbers),) = asked
    assert (environment, policy, parameters, numbers) == (held_out, "policy", "parameters", [4, Decoding(0.5), 2])
    # The first question has 2 of 4 right: two draws without replacement are both wrong with probability 1/6.
    two_thirds = np.exp(-(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)))
    assert measured.metrics == pytest.approx(
        {
            "pass_at_1": 1 / 4,
            "pass_at_2": 5 / 12,
            "pass_at_3": 1 / 2,
            "effective_outcomes": (two_thirds + 1) / 2,
            "distinct_outcomes": 3 / 2,
            "parse_rate": 1 / 2,
        }
    )
    np.testing.assert_allclose(measured.ranked_shares, [(2 / 3 + 1) / 2, 1 / 6, 0, 0], rtol=1e-6)
    assert [completion.completion for completion in measured.completions] == ["[7]"] * 4 + ["[8, 9]"] * 4
    assert measured.completions[3] == Completion(0, "question 0", "[7]", 0.0, None)
    assert measured.completions[4].outcome == f"#{wrong}"


def test_numbers_of_answers_tried():
    assert Settings(answers=128, pass_at=64).tried == [1, 2, 4, 8, 16, 32, 64]
    assert Settings(answers=128, pass_at=100).tried == [1, 2, 4, 8, 16, 32, 64, 100]
    assert Settings(answers=1, pass_at=1).tried == [1]


def records(**pass_at):
    rows = [{"step": 0, "objective": math_answers.START, "pass_at_1": 0.2, "pass_at_2": 0.6}]
    for objective, (one, two) in pass_at.items():
        rows += [
            {"step": 1, "objective": objective, "seed": seed, "pass_at_1": one + by, "pass_at_2": two + by}
            for seed, by in enumerate((-0.02, -0.01, 0.0, 0.01, 0.02))
        ]
    return Records(rows, ("objective",))


def test_claims_are_checked_against_the_start():
    found = records(grpo=(0.3, 0.5), progrpo=(0.3, 0.7))
    decided = claims.decided(math_answers.CLAIMS, found)
    assert {sentence.partition(":")[0]: held for sentence, held in decided.items()} == {
        "grpo": True,
        "ips_dr_grpo(aggregation=sequence_mean)": None,
        "progrpo": False,
    }
    settings = Settings(answers=2, pass_at=2, evaluation_data=HELD_OUT)
    shown = math_answers.TABLE(found, settings).split("\n")
    assert shown[0].startswith(f"{HELD_OUT}, 2 answers to each question, mean over seeds 0:5")
    assert shown[2].split() == ["before", "training", "0.20", "0.60"]
    assert "0.30 [0.28, 0.32]" in shown[3]
    unclear = claims.decided(math_answers.CLAIMS, records(grpo=(0.3, 0.605)))
    assert set(unclear.values()) == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_dir": ""}, "--model_dir is missing: give it as in --model_dir=DIR"),
        ({"data": ""}, r'--data is missing: give it as in --data="math_answers\(builder=gsm8k\)"'),
        ({"evaluation_data": ""}, "--evaluation_data is missing: .* questions that are held out"),
        ({"data": "countdown"}, "countdown asks no questions with one right answer each"),
        ({"data": "math_answers(builder=none)"}, "there is no data set none in"),
        ({"prompts_at_once": 12}, "--prompts_at_once=12 questions cannot be shared evenly by the 8 devices"),
        ({"prompts_per_step": 6}, "6 prompts cannot be split evenly over the 8 devices"),
        ({"answers": 4, "pass_at": 8}, "pass@8 cannot be estimated from 4 answers: raise --answers"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(settings, changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run(STUDY, dataclasses.replace(settings, **changes), "smoke", Output(tmp_path / "out", False))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_trains_measures_draws_and_continues(settings, tmp_path, capsys):
    settings = dataclasses.replace(settings, lora_rank=2, export=True)
    run(STUDY, settings, "smoke", Output(tmp_path, False))
    first = capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["complete"]
    assert [row["objective"] for row in summary["final"]] == [math_answers.START, *settings.objectives]
    start, *trained = summary["final"]
    assert 0 <= start["parse_rate"] < 1
    for measured in trained:
        assert measured.keys() == start.keys() >= {"pass_at_1", "pass_at_2", "pass_at_4"}
    for suffix in ("png", "pdf"):
        assert (tmp_path / f"math_answers.{suffix}").stat().st_size > 5000
    # Three k, before training and after two objectives.
    assert (tmp_path / "math_answers.csv").read_text().count("\n") == 1 + 3 * 3
    models = sorted(tmp_path.glob("*/seed_*/model"))
    assert [str(model.relative_to(tmp_path).parent) for model in models] == [
        f"{objective}/seed_{seed}" for objective in ("grpo", "ips_dr_grpo-aggregation=sequence_mean") for seed in (0, 1)
    ]
    assert read_policy(models[0]).hidden_size == 16
    drawn = (tmp_path / "math_answers.png").read_bytes()
    records = (tmp_path / "grpo" / "seed_0" / "metrics.jsonl").read_text()

    (tmp_path / "math_answers.png").unlink()
    run(STUDY, settings, "smoke", Output(tmp_path, True))
    assert capsys.readouterr().out == first
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (tmp_path / "math_answers.png").read_bytes() == drawn
    assert (tmp_path / "grpo" / "seed_0" / "metrics.jsonl").read_text() == records
