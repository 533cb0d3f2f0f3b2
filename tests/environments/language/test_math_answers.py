from fractions import Fraction

import numpy as np
import pytest

from ipsrl.environments import catalog
from ipsrl.environments.language.math_answers import MathAnswers, outcome_of
from ipsrl.environments.stored_texts import write_texts

ROWS = [
    {"question": " What is 40 + 2? ", "answer": "It is <<40+2=42>>42.\n#### 42", "hint": "none", "size": "2"},
    {"question": "Half of 1?", "answer": "#### 0.5", "hint": "none", "size": "1"},
    {"question": "A thousand and a half?", "answer": "#### 1,000.5", "hint": "none", "size": "1"},
]


def write(folder, rows=ROWS):
    write_texts(folder, "tiny_math", tuple(rows[0]), {"train": rows, "test": rows[:1]})
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def task(folder):
    return MathAnswers(folder, builder="tiny_math")


def test_questions_and_references(task, folder):
    assert [value for _, value in task.rows] == [42, Fraction(1, 2), Fraction(2001, 2)]
    assert task.num_prompts == 3
    assert task.prompt_text(0).startswith("What is 40 + 2?\n")
    assert "#### 42" in task.prompt_text(1, ["#### 42"]).split("Reason")[0]
    assert "#### 41" not in task.prompt_text(1)
    made = catalog.make(f"math_answers(data_dir={folder!r}, builder=tiny_math, split=test)")
    assert made.rows == task.rows[:1]
    assert MathAnswers(folder, "tiny_math", limit=2).rows == task.rows[:2]
    assert MathAnswers(folder, "tiny_math", limit=9).rows == task.rows
    assert MathAnswers(folder, "tiny_math", split="train[1:]").rows == task.rows[1:]
    assert MathAnswers(folder, "tiny_math", answer_key="size", limit=1).rows[0][1] == 2


def test_verdict(task):
    texts = [
        ["I think 6 * 7. #### 42", "#### 42.0", "84/2", "#### 43", "no idea"],
        ["#### 1/2", r"\boxed{\frac{2}{4}}", "50%", "0.5000001", ""],
    ]
    outcomes = task.verify_texts([0, 1], texts)
    np.testing.assert_array_equal(outcomes.rewards, [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
    assert (outcomes.rewards.dtype, outcomes.outcome_id.dtype) == (np.float32, np.int32)
    first, second = outcomes.outcome_id.tolist()
    assert first[0] == first[1] == first[2] == outcome_of(Fraction(42)) != first[3]
    assert second[0] == second[1] == outcome_of(Fraction(1, 2))
    assert first[4] == second[4] == -1
    assert min(first[:4] + second[:4]) >= 0
    # Another process gives the same numbers: they may be compared between hosts and runs.
    assert outcome_of(Fraction(42)) == 841265288
    swapped = task.verify_texts(np.array([1, 0]), texts[::-1])
    np.testing.assert_array_equal(swapped.rewards, outcomes.rewards[::-1])


def test_prompts_out_of_range(task):
    for number in (-1, 3):
        with pytest.raises(ValueError, match=f"prompt {number} does not exist: this task has 3"):
            task.prompt_text(number)


def test_what_is_missing_is_named(folder, tmp_path):
    def asking(message, **fields):
        with pytest.raises(ValueError, match=message):
            _ = MathAnswers(**({"data_dir": folder, "builder": "tiny_math"} | fields)).num_prompts

    asking(
        f'no data set gsm8k in {tmp_path}: prepare it by python -c "from tensorflow_datasets.text import Gsm8k .*'
        f"data_dir='{tmp_path}', file_format='array_record'",
        data_dir=str(tmp_path),
        builder="gsm8k",
    )
    asking("no data set other in .*import Builder", builder="other")
    asking("tiny_math.* has no questions in the split 'dev' .*known splits: train, test", split="dev")
    asking(
        "tiny_math.* has no feature 'question_text'; known: answer, hint, question, size", question_key="question_text"
    )
    asking("answer to question 0 of tiny_math/train holds no number: 'none'", answer_key="hint")
    asking(r"no questions in the split 'train\[:0%\]' ", split="train[:0%]")


def test_the_newest_version_is_read(tmp_path):
    write(tmp_path)
    (tmp_path / "tiny_math" / "1.0.0").rename(tmp_path / "tiny_math" / "10.0.0")
    write(tmp_path, rows=[{"question": "Old?", "answer": "#### 1", "hint": "none"}])
    info = tmp_path / "tiny_math" / "10.0.0" / "dataset_info.json"
    info.write_text(info.read_text().replace('"1.0.0"', '"10.0.0"'))
    assert MathAnswers(str(tmp_path), "tiny_math").num_prompts == 3


MATH = [
    {"question": "Thousands?", "answer": r"The total is $\boxed{10,\!000}$."},
    {"question": "A pair?", "answer": r"It is $\boxed{(3, 4)}$."},
    {"question": "A set?", "answer": "It is {1, 2}."},
    {"question": "A fraction?", "answer": r"We add. $\boxed{\frac34}$"},
]


def test_references_as_math_writes_them(tmp_path):
    folder = write(tmp_path, MATH)
    assert MathAnswers(folder, "tiny_math", split="test").rows[0][1] == 10_000
    with pytest.raises(ValueError, match=r"question 1 of tiny_math/train holds no number: .*without_number=skip"):
        _ = MathAnswers(folder, "tiny_math").rows
    task = MathAnswers(folder, "tiny_math", without_number="skip")
    with pytest.warns(UserWarning, match="2 of 4 questions of tiny_math/train are left out"):
        assert task.rows == (("Thousands?", 10_000), ("A fraction?", Fraction(3, 4)))
    with pytest.raises(ValueError, match="no other one does"):
        _ = MathAnswers(folder, "tiny_math", split="train[1:3]", without_number="skip").rows


def test_references_are_read_by_the_chosen_parser(folder, monkeypatch):
    monkeypatch.setattr(MathAnswers, "reader", property(lambda self: lambda text: Fraction(len(text))))
    assert [value for _, value in MathAnswers(folder, "tiny_math").rows] == [len(row["answer"]) for row in ROWS]
