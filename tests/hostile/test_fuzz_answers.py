"""Random texts and damaged right answers to every verifier: no exception, no invented outcome, bounded work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.reading.answer_words import CHANGING_BEFORE_BOX
from ipsrl.environments.reading.numeric_answers import read_number
from ipsrl.environments.tasks.long_work import LongWork
from tests.environments.test_text import TASKS as TEXT_TASKS
from tests.tiers import fuzzed
from tests.work import calls_of

pytestmark = pytest.mark.slow

TASKS = [*TEXT_TASKS, LongWork(problems=4), OneOfMany(reading="mention")]
MOST_CALLS = 1_000_000
WORDS = """
    <answer> </answer> Expression: Graph: Structure: Layer Layer 1: #### \\boxed{ } answer is ( ) [ ] { $ ` ``` * ** +
    - -> → ∧ AND NOT NOR x y A B 0 1 19 1e99999 ² ½ \\frac{1}{2} \\sqrt{2} , . ; : = ! % not or and thousand <think>
    </think> none " '
"""
BESIDE = """
    So She has is not minus about or and thousand dozen apples cups of at most = : + - − * / ^ ( ) { } $ ** % , . 0 1 1.
    .5 ,000 e3 \\times \\frac{ \\sqrt{ \\pi \\[ \\\\ x
"""
PIECES = [*WORDS.split(), "\n", "\r", "\0", "\ud800", " ", "\t", "9" * 400, "(" * 300]
noise = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=30).map("".join)
beside = st.lists(st.sampled_from([*BESIDE.split(), " ", "\n"]), max_size=6).map("".join)


@st.composite
def damaged(draw, text):
    """A text with pieces put in, cut out and doubled."""
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, len(text)))
        last = draw(st.integers(first, min(len(text), first + 8)))
        text = text[:first] + draw(st.sampled_from(["", text[first:last] * 2, *PIECES])) + text[last:]
    return draw(st.sampled_from([text, text * 40, f"{text}\n{text}"]))


def with_little_work(function, *arguments):
    calls, found = calls_of(function, *arguments)
    assert calls < MOST_CALLS
    return found


@pytest.mark.parametrize("task", TASKS, ids=str)
@fuzzed(45)
@given(data=st.data())
def test_answers_in_text(task, data):
    prompt = data.draw(st.integers(0, task.num_prompts - 1))
    right = data.draw(st.sampled_from(np.flatnonzero(task.admissible[prompt]).tolist()))
    text = data.draw(damaged(task.answer_text(right)) | noise)
    found = with_little_work(task.verify_texts, [prompt], [[text]])
    outcome, reward = int(found.outcome_id[0, 0]), float(found.rewards[0, 0])
    assert outcome == task.parse_text(text, prompt) >= -1
    assert reward in (0.0, 1.0)
    if outcome < task.num_hypotheses:
        assert reward == (outcome >= 0 and task.admissible[prompt, outcome])


@pytest.mark.parametrize("task", TASKS, ids=str)
@fuzzed(45)
@given(data=st.data())
def test_answers_in_tokens(task, data):
    tokens = task.render(data.draw(st.integers(0, task.num_hypotheses - 1)))
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(tokens)))
        tokens[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.lists(st.integers(-1, task.vocabulary_size), max_size=2)
        )
    assert with_little_work(task.parse, tokens) >= -1


@fuzzed(100)
@given(data=st.data())
def test_numbers(data):
    number = data.draw(st.fractions(-1000, 1000, max_denominator=20))
    text = data.draw(damaged(f"#### {number}") | noise)
    with_little_work(read_number, text)


@fuzzed(100)
@given(number=st.integers(2, 1000), before=beside | st.text(max_size=6), behind=beside | st.text(max_size=6))
def test_a_box_is_read_as_what_it_holds_or_not_at_all(number, before, behind):
    assert read_number(f"{before}\\boxed{{{number}}}{behind}") in (number, None)


@fuzzed(100)
@given(number=st.integers(2, 1000), words=beside)
def test_words_that_are_not_known_leave_no_number(number, words):
    assert read_number(f"#### {number} qua {words}") is None


@fuzzed(100)
@given(number=st.integers(2, 1000), word=st.sampled_from(sorted(CHANGING_BEFORE_BOX)))
def test_words_that_change_a_number_leave_no_box(number, word):
    for text in (rf"{word} \boxed{{{number}}}", rf"The answer is {word} \boxed{{{number}}} apples."):
        assert read_number(text) is None


def test_a_reader_that_does_too_much_is_found():
    with pytest.raises(AssertionError):
        with_little_work(lambda: [abs(number) for number in range(MOST_CALLS)])
