import random
from fractions import Fraction

import numpy as np
import pytest

from ipsrl.environments import critiques
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.tasks.addition import WORDS, Addition
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.countdown import Countdown, Puzzle
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.long_work import LongWork
from tests.environments.language.asked_tasks import Remainders
from tests.environments.language.tokenizers_for_tests import ids, save_tokenizer
from tests.environments.reading.answers import tokens_of

SUM = Addition(problems=16, spellings=("plain", "zero", "places", "reversed", "words"))
WORKED = Addition(digits=2, problems=32, scratchpad="optional")
ANNOUNCED = Addition(digits=2, modulus=50, problems=32, scratchpad="announced")
REACHED = Countdown(numbers=3, problems=12, largest_number=9, largest_target=30)
AT_MOST = Countdown(numbers=3, problems=12, largest_number=9, largest_target=30, use_all=False)
TASKS = (SUM, WORKED, ANNOUNCED, REACHED, AT_MOST)


def said(task, prompt, text, critic=critiques.first_mistake):
    """The critique of an attempt, in symbols; "." in the text of the attempt is its end."""
    return symbols(task, critic(task, prompt, tokens_of(task, text.replace(".", "<stop>").split())))


def symbols(task, tokens):
    return " ".join(task.vocabulary[token] for token in tokens)


def problem(numbers, target):
    """A task with one prompt of our choice."""
    task = Countdown(numbers=len(numbers), problems=1, largest_number=9, largest_target=30)
    (solutions,) = task.problem_table.values()
    task.__dict__["problem_table"] = {Puzzle(numbers, target): solutions}
    return task


def sum_of(task, prompt):
    return sum(task.summands[prompt]) % (task.modulus or 10**9)


def test_sums_with_known_mistakes():
    prompt = next(prompt for prompt in range(SUM.num_prompts) if sum_of(SUM, prompt) > 999)
    a, b, c, d = str(sum_of(SUM, prompt))
    other = {digit: str((int(digit) + 1) % 10) for digit in "0123456789"}
    words = dict(zip("0123456789", WORDS, strict=True))
    for attempt, expected in {
        f"{a} {b} {c} {d} .": "+",
        f"0 {a} {b} {c} {d} .": "+",
        f"reversed {d} {c} {b} {a} .": "+",
        f"{a} {b} {c} {other[d]} .": "% 1",
        f"{a} {b} {other[c]} {other[d]} .": "% 1",
        f"{a} {b} {other[c]} {d} .": "% 2",
        f"0 {a} {other[b]} {c} {d} .": "% 3",
        f"reversed {d} {other[c]} {other[b]} {a} .": "% 2",
        f"{words[a]} {words[b]} {words[other[c]]} {words[d]} .": "% 2",
        # The thousand is missing.
        f"{b} {c} {d} .": "% 4" if b != "0" else "%",
        f"{a} {b} {c} {d}": "%",
        f"{a} {b} {c} {d} 0 .": "%",
        # It is above all sums.
        f"{other[a]} {b} {c} {d} .": "%",
        f"{a} {b} + {c} {d} .": "%",
        ".": "%",
        "": "%",
    }.items():
        assert said(SUM, prompt, attempt) == expected, attempt
        assert said(SUM, prompt, attempt, critiques.right_or_wrong) == expected.split()[0], attempt


def test_announced_scratchpads_with_known_mistakes():
    other = {digit: str((int(digit) + 1) % 10) for digit in "0123456789"}
    prompt = next(prompt for prompt in range(ANNOUNCED.num_prompts) if sum_of(ANNOUNCED, prompt) > 9)
    a, b = str(sum_of(ANNOUNCED, prompt))
    for attempt, expected in {
        f"<think> {b} {a} : {a} {b} .": "+",
        f"<no_think> {a} {b} .": "+",
        f"<think> {b} {other[a]} : {a} {other[b]} .": "% : 2",
        f"<think> {b} {a} : {a} {other[b]} .": "% 1",
        f"<no_think> {a} {other[b]} .": "% 1",
        # The announcement is wrong, so there is no answer.
        f"<no_think> {b} {a} : {a} {b} .": "%",
        f"<think> {a} {b} .": "%",
        f"{a} {b} .": "%",
    }.items():
        assert said(ANNOUNCED, prompt, attempt) == expected, attempt


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_right_is_what_the_task_takes_for_right(task):
    rng = np.random.default_rng(0)
    for prompt in range(task.num_prompts):
        for hypothesis in (*np.flatnonzero(task.admissible[prompt])[:4], *rng.integers(task.num_hypotheses, size=9)):
            attempt = task.render(int(hypothesis), rng)
            right = bool(task.admissible[prompt, hypothesis])
            first, word = (call(task, prompt, attempt) for call in (critiques.first_mistake, critiques.right_or_wrong))
            assert len(word) == 1
            assert first[:1] == word
            assert (symbols(task, word) in "+=") == right
            if right:
                # Without its end it is no answer.
                assert symbols(task, critiques.first_mistake(task, prompt, attempt[:-1])) in ("%", "-")
            assert (len(first) > 1) != right
        answer = critiques.true_answer(task, prompt)
        assert task.admissible[prompt, task.parse([*answer, task.stop_tokens[0]])]
        assert not {*answer} & {*task.stop_tokens}


def slow_sum(task, prompt, words):
    """The first mistake of a plain or reversed sum with a scratchpad."""
    right = str(sum_of(task, prompt))[::-1]
    work, _, answer = "".join(words).rpartition(":")
    digits = answer.removeprefix("reversed")
    number = digits if answer != digits else digits[::-1]
    if digits.isdecimal() and (digits[0] != "0" or len(digits) == 1) and answer == digits and number == right:
        return "+"
    if answer != digits and number == right:
        return "+"
    for place in range(max(len(work), len(right)) if ":" in words else 0):
        if work[place : place + 1] != right[place : place + 1]:
            return f"% : {place + 1}"
    largest = 2 * (10**task.digits - 1)
    if not digits.isdecimal() or str(int(number[::-1])) != number[::-1] or int(number[::-1]) > largest:
        return "%"
    return next(f"% {k + 1}" for k in range(9) if number[k : k + 1] != right[k : k + 1])


def test_random_sums():
    task = Addition(digits=2, problems=32, scratchpad="optional", spellings=("plain", "reversed"))
    rng, numbers, found = random.Random(0), np.random.default_rng(0), set()
    for _ in range(3000):
        prompt = rng.randrange(task.num_prompts)
        hypothesis = rng.choice(np.flatnonzero(task.admissible[prompt]).tolist())
        words = [task.vocabulary[token] for token in task.render(hypothesis, numbers)[:-1]]
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            place = rng.randrange(len(words))
            words[place : place + rng.choice((0, 1, 1))] = [rng.choice([*"0123456789", ":", "reversed"])]
        expected = slow_sum(task, prompt, words)
        assert said(task, prompt, " ".join([*words, "."])) == expected, words
        found.add(expected)
    assert found == {"+", "%", *(f"% {k}" for k in range(1, 4)), *(f"% : {k}" for k in range(1, 5))}


def slow_value(words):
    """Value, numbers and rest of an expression in prefix notation, by recursion; None for what is no expression."""
    if not words:
        return None
    head, rest = words[0], words[1:]
    if head.isdecimal():
        return Fraction(int(head)), rest
    if head not in "+-*/" or (left := slow_value(rest)) is None or (right := slow_value(left[1])) is None:
        return None
    (x, _), (y, rest) = left, right
    if x is ... or y is ... or (head == "/" and y == 0):
        return ..., rest
    return {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else None}[head], rest


def slow_expression(task, prompt, words):
    numbers, target = (task.asked[prompt].numbers, task.asked[prompt].target)
    read, left = slow_value(words), list(numbers)
    for end in range(1, len(words) + 1):
        # Behind a complete expression, or with a symbol that cannot stand there, reading has ended.
        if words[end - 1] == "=" or any((part := slow_value(words[:k])) and not part[1] for k in range(1, end)):
            break
        if words[end - 1].isdecimal():
            number = int(words[end - 1])
            if number not in left:
                return f"- {number} {number}" if number in numbers else f"- {number}"
            left.remove(number)
    if read is None or read[1]:
        return "-"
    if task.use_all and left:
        return f"- + {min(left)}"
    if read[0] == target:
        return "="
    whole = read[0] is not ... and read[0].denominator == 1 and 1 <= read[0] <= 30
    return f"- = {read[0]}" if whole else "- ="


@pytest.mark.parametrize("task", [REACHED, AT_MOST], ids=str)
def test_random_expressions(task):
    rng, numbers, found = random.Random(0), np.random.default_rng(0), []
    for _ in range(3000):
        prompt = rng.randrange(task.num_prompts)
        hypothesis = rng.choice(np.flatnonzero(task.admissible[prompt]).tolist())
        words = [task.vocabulary[token] for token in task.render(hypothesis, numbers)[:-1]]
        given = [*map(str, task.asked[prompt].numbers)]
        for _ in range(rng.choice((0, 1, 1, 2))):
            place = rng.randrange(len(words))
            kinds = [given, "+-*/"] if rng.random() < 0.9 else ["=", [*"123456789"]]
            kind = kinds[words[place] in "+-*/"] if len(kinds[0]) > 1 else rng.choice(kinds)
            words[place : place + rng.choice((0, 1, 1, 1, 1))] = [rng.choice(kind)]
        if rng.random() < 0.1:
            words = ["+", *rng.sample(given, 2)]
        expected = slow_expression(task, prompt, words)
        assert said(task, prompt, " ".join([*words, "."])) == expected, (given, words)
        found.append("".join("n" if word.isdecimal() else word for word in expected.split()))
    assert {*found} == {"=", "-", "-n", "-nn", "-=n", "-="} | ({"-+n"} if task.use_all else set())


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    def environment(task):
        in_text = [text for _, text in critiques.MISTAKES.values()]
        texts = [task.prompt_text(0), *in_text, "The answer is right. wrong. Digit"]
        folder = save_tokenizer(tmp_path_factory.mktemp("tokenizer"), texts)
        return LanguageTask(task, str(folder), vocabulary_size=4096, max_tokens=64, longest_prompt=2048)

    return environment


def spoken(environment, prompt, text, critic=critiques.first_mistake):
    attempt = ids(environment.tokenizer, text)
    return environment.tokenizer.decode(critic(environment, prompt, attempt))


def test_the_true_answer_to_a_task_in_text_alone(asked):
    environment = asked(Remainders())
    assert environment.tokenizer.decode(critiques.true_answer(environment, 2)) == "<answer> 2 </answer>"


def test_language_models_read_sentences(asked):
    environment = asked(SUM)
    a, b, *rest = str(sum_of(SUM, 0))
    wrong = f"{a}{int(b) ^ 1}{''.join(rest)}"
    digit = f"Digit {len(wrong) - 1} of its number, counted from the last one, is the first mistake."
    assert spoken(environment, 0, f"<answer> {sum_of(SUM, 0)} </answer>") == "The answer is right."
    assert spoken(environment, 0, f"I think <answer> 0{wrong} </answer>") == f"The answer is wrong. {digit}"
    assert spoken(environment, 0, "I do not know") == "The answer is wrong. It cannot be read."
    assert spoken(environment, 0, wrong, critiques.right_or_wrong) == "The answer is wrong."

    environment = asked(problem((2, 2, 7), 28))
    for text, sentence in {
        "2 + 2 * 5": "5 is not one of the given numbers.",
        "7 + 7": "7 is used more often than it is given.",
        "2 + 7": "2 is not used.",
        "7 / (2 + 2)": "Its value is 7/4.",
        "7 / (2 - 2)": "It divides by zero.",
        "two": "It cannot be read.",
    }.items():
        assert spoken(environment, 0, f"<answer> {text} </answer>") == f"The answer is wrong. {sentence}"


@pytest.mark.parametrize("task", [HypospaceCausal(2), AdditionModes(problems=4), LongWork(problems=4)], ids=str)
@pytest.mark.parametrize("critic", [critiques.first_mistake, critiques.right_or_wrong])
def test_tasks_whose_mistakes_nobody_knows(task, critic, asked):
    """Additions with other outcomes or other work are not read as sums."""
    for environment in (task, asked(task)):
        assert critiques.criticism_of(environment) is None
        with pytest.raises(
            ValueError, match=f"nobody knows the mistakes of .*{type(task).__name__}.*critics know Addition, Count"
        ):
            critic(environment, 0, [2])
