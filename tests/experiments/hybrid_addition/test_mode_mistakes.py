import pytest

from experiments.hybrid_addition.mode_mistakes import ModeMistakes
from ipsrl.environments.tasks.addition_modes import AdditionModes, columns
from tests.environments.reading.answers import demonstrated

TASK = AdditionModes()


@pytest.mark.parametrize(
    ("thinking", "right_thinking", "right_short"), [(0.5, 0.98, 0.7), (0.2, 1.0, 0.0), (1, 0.5, 1)]
)
def test_demonstrations_have_the_mistakes_asked_for(thinking, right_thinking, right_short):
    rows = ModeMistakes(thinking, right_thinking, right_short, answers=200).rows(TASK)
    found = TASK.modes(demonstrated(TASK, rows))
    assert (found.mode == 1).mean() == pytest.approx(thinking, abs=0.02)
    for mode, right in enumerate((right_short, right_thinking)):
        for level in range(1, 5):
            answers = found.right[(found.difficulty == level)[:, None] & (found.mode == mode)]
            assert not answers.size or abs(answers.mean() - right**level) < 0.04


def test_a_slip_is_in_the_work_and_in_the_number():
    rows = ModeMistakes(thinking=1.0, right_thinking=0.0).rows(TASK)
    for prompt, row in enumerate(rows):
        right = columns(*TASK.summands[prompt])
        for answer in TASK.answer_texts(row["answers"]):
            work, _, number = answer.removeprefix("<think> ").partition(" : ")
            written = [int(symbol) for symbol in work.split()]
            assert written[::2] == [carry for carry, _ in right]
            assert sum(one != digit for one, (_, digit) in zip(written[1::2], right, strict=True)) == 1
            digits = "".join(map(str, [written[-2], *written[1::2][::-1]]))
            assert int(digits) == int(number.replace(" ", ""))
