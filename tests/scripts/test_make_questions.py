import re
import subprocess
import sys
from fractions import Fraction

import pytest

from ipsrl.environments import catalog
from ipsrl.environments.language.math_answers import MathAnswers
from scripts.make_questions import all_questions, make_questions


def value_of(question):
    (expression,) = re.fullmatch(r"What is ([\d+*() -]+)\?", question).groups()
    return Fraction(eval(expression))


def test_every_question_once_with_its_answer_in_steps():
    rows = all_questions(largest=3)
    # Two numbers, or three; three operations each.
    assert len({row["question"] for row in rows}) == len(rows) == 3**2 * 3 + 3**3 * 3**2
    for row in rows:
        *steps, last = row["answer"].splitlines()
        assert last == f"#### {value_of(row['question'])}"
        for step in steps:
            left, right = step.split(" = ")
            assert eval(left) == int(right)
        assert steps[-1].endswith(f"= {value_of(row['question'])}")


def test_splits_are_read_back_and_share_no_question(tmp_path):
    assert make_questions(tmp_path, train=30, test=20, largest=2) == tmp_path / "small_sums"
    train, test = (MathAnswers(str(tmp_path), "small_sums", split=split).rows for split in ("train", "test"))
    assert (len(train), len(test)) == (30, 20)
    assert len(set(train) | set(test)) == 50
    assert all(value_of(question) == value for question, value in train + test)
    make_questions(tmp_path / "again", train=30, test=20, largest=2)
    assert MathAnswers(str(tmp_path / "again"), "small_sums").rows == train
    make_questions(tmp_path / "other", train=30, test=20, largest=2, seed=1)
    assert MathAnswers(str(tmp_path / "other"), "small_sums").rows != train


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"10 \+ 3 questions are requested, but numbers up to 1 give only 12"):
        make_questions(tmp_path, train=10, test=3, largest=1)
    make_questions(tmp_path, train=1, test=1, largest=1)
    with pytest.raises(ValueError, match=r"small_sums/1\.0\.0 exists already: choose another folder"):
        make_questions(tmp_path)


@pytest.mark.slow
def test_the_command(tmp_path):
    command = [sys.executable, "scripts/make_questions.py", f"--out={tmp_path / 'my data'}", "--train=4", "--test=2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (data,) = re.findall(r"--data='(.*)'", done.stdout)
    assert catalog.make(data).num_prompts == 4
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode != 0
    assert again.stderr == f"error: {tmp_path / 'my data'}/small_sums/1.0.0 exists already: choose another folder\n"
