import re

import jax
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.environments.tasks.addition_modes import AdditionModes, Modes, columns
from ipsrl.environments.text import STOP
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify
from ipsrl.structures import control_token
from ipsrl.training.settings import TrainSettings
from tests.environments.reading.answers import tokens_of, trajectories_of
from tests.sampled_groups import check_run

TASK = AdditionModes()
TASKS = [TASK, AdditionModes(digits=1, problems=72), AdditionModes(digits=3, problems=50, gamma=0.2, seed=3)]
every_task = pytest.mark.parametrize("task", TASKS, ids=str)


def asked(task, prompt):
    """The two numbers in the words of a prompt, as texts."""
    return re.match(r"What is (\d+) \+ (\d+)\?\n", task.prompt_text(prompt)).groups()


def counted_carries(first, second):
    """How often a column is full, by counting up one unit at a time, as an abacus does."""
    beads, carries = [int(digit) for digit in reversed(first)] + [0], 0
    for place, digit in enumerate(reversed(second)):
        for _ in range(int(digit)):
            beads[place] += 1
            at = place
            while beads[at] == 10:
                beads[at], at, carries = 0, at + 1, carries + 1
                beads[at] += 1
    return carries


@every_task
def test_right_is_the_sum_in_each_mode(task):
    for prompt in range(task.num_prompts):
        first, second = asked(task, prompt)
        assert task.question_text(prompt).replace(" ", "") == f"{first}+{second}"
        space = task.outcome_space(prompt)
        worth = {space.names[i]: float(space.rewards[i]) for i in np.flatnonzero(task.admissible[prompt])}
        total = int(first) + int(second)
        assert worth == pytest.approx({f"short {total}": 1.0, f"think {total}": 1 - task.gamma})
        assert (space.rewards[~task.admissible[prompt]] == 0).all()
    assert len({asked(task, prompt) for prompt in range(task.num_prompts)}) == task.num_prompts
    assert task.num_hypotheses == 2 * len(task.values)


@every_task
def test_difficulty_is_digits_and_carries_and_is_balanced(task):
    pairs = [asked(task, prompt) for prompt in range(task.num_prompts)]
    assert all(len(first) == len(second) <= task.digits for first, second in pairs)
    # The abacus finds each carry once, because no column is full twice: 9 + 9 + 1 is 19.
    assert task.difficulty.tolist() == [len(first) + counted_carries(first, second) for first, second in pairs]
    levels, prompts = np.unique(task.difficulty, return_counts=True)
    assert levels.tolist() == list(range(1, 2 * task.digits + 1))
    assert np.ptp(prompts) <= 1
    for level in levels:
        lengths = [len(pair[0]) for pair, each in zip(pairs, task.difficulty, strict=True) if each == level]
        assert np.ptp(np.unique(lengths, return_counts=True)[1]) <= 1


def test_answers_of_the_docstring():
    work = columns(47, 85)
    assert work == [(1, 2), (1, 3)]
    for answer in (TASK.answer(None, 132), TASK.answer(work, 132)):
        assert f"\n        {' '.join(answer)}\n" in AdditionModes.__doc__


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("<no_think> 1 3 2", "short 132"),
        ("<think> 1 2 1 3 : 1 3 2", "think 132"),
        ("<think> : 1 3 2", "think 132"),
        ("<think> : 5 : 1 3 2", "think 132"),
        ("<think> 1 3 2", None),
        ("<no_think> 1 2 1 3 : 1 3 2", None),
        ("<no_think> 0 1 3 2", None),
        ("<no_think> + 1 3 2", None),
        ("<no_think> 1 9 9", None),
        ("1 3 2", None),
        ("<no_think>", None),
    ],
)
def test_compact_answers(answer, name):
    outcome = TASK.parse([*tokens_of(TASK, answer.split()), STOP])
    assert (None if outcome < 0 else TASK.hypotheses[outcome]) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<no_think>\n<answer> 132 </answer>", "short 132"),
        ("<think> 7 + 5 is <answer> 12 </answer> </think> so <answer>132</answer>.", "think 132"),
        ("It is <answer>132</answer>.", "short 132"),
        ("<think> <answer>132</answer>", None),
        ("<answer>132</answer> </think>", None),
        ("<answer>0132</answer>", None),
        ("<answer>1 3 2</answer>", None),
    ],
)
def test_answers_in_text(text, name):
    outcome = TASK.parse_text(text)
    assert (None if outcome < 0 else TASK.hypotheses[outcome]) == name


def test_random_forms_have_carries_in_all_places_and_mean_the_same():
    rng = np.random.default_rng(0)
    forms = {" ".join(TASK.spell("think 42", rng)) for _ in range(40)}
    assert forms == {f"<think> {a} 2 {b} 4 : 4 2" for a in (0, 1) for b in (0, 1)}
    assert TASK.spell("think 42", None) == ["<think>", *"0204", ":", *"42"]
    assert TASK.spell("short 42", rng) == ["<no_think>", *"42"]


def test_modes_and_worth_of_answers():
    prompt = int(np.flatnonzero(TASK.difficulty == 4)[0])
    first, second = TASK.summands[prompt]
    right, work = first + second, columns(first, second)
    symbols = [TASK.answer(None, right), TASK.answer(work, right), TASK.answer(None, right - 1)]
    symbols += [TASK.answer(work, right - 1), ["<think>", *str(right)], [*str(right)]]
    answers = [[*tokens_of(TASK, each), STOP] for each in symbols] + [[], tokens_of(TASK, TASK.answer(None, right))]
    trajectories = trajectories_of(TASK, [prompt], [answers])
    found, outcomes = TASK.modes(trajectories), TASK.verify(trajectories)
    assert found.mode[0].tolist() == [0, 1, 0, 1, 1, -1, -1, 0]
    assert found.right[0].tolist() == [True, True] + [False] * 6
    np.testing.assert_allclose(outcomes.rewards[0], [1, 0.5] + [0] * 6)
    assert outcomes.outcome_id[0, :2].tolist() == [2 * right, 2 * right + 1]
    assert outcomes.planning_mask[0, :, 0].tolist() == [mode >= 0 for mode in found.mode[0]]
    texts = [TASK.answer_text(2 * right), TASK.answer_text(2 * right + 1), TASK.answer_text(0)]
    assert TASK.verify_texts([prompt], [texts]).rewards[0].tolist() == [1, 0.5, 0]


def test_shares_and_skills_by_difficulty():
    found = Modes(
        np.array([[0, 1, 1, -1], [0, 0, 0, 0], [1, 1, 1, 0]]),
        np.array([[True, True, False, False], [False, True, False, False], [True] * 4]),
        np.array([1, 3, 1]),
    )
    assert found.thinking() == {1: 5 / 8, 3: 0.0}


@pytest.mark.parametrize(
    ("forced", "dictated"), [("half", "-T-S-T-S"), ("think", "TTTTTTTT"), ("short", "SSSSSSSS"), ("none", "--------")]
)
def test_forced_modes_are_dictated_and_the_others_are_free(forced, dictated):
    task = AdditionModes(digits=1, problems=16, forced=forced)
    policy = Transformer(task.vocabulary_size, hidden_size=8, num_layers=1)
    prompts = task.prompts(np.arange(16))
    sampled = sample_groups(task, policy, policy.init(jax.random.key(0)), prompts, jax.random.key(1), group_size=8)
    tokens, mask, mode = np.asarray(sampled.tokens), np.asarray(sampled.token_mask), task.modes(sampled).mode
    for member, word in enumerate(dictated):
        assert (mask[:, member, 0] == (word == "-")).all()
        if word == "-":
            assert len(set(tokens[:, member, 0].tolist())) > 2
        else:
            assert (mode[:, member] == "ST".index(word)).all()
    assert mask[:, [word != "-" for word in dictated], 1].all()
    # Objectives that weigh the control token find it where anyone chooses it.
    assert (np.asarray(control_token(sampled.token_mask))[..., 0].all()) == (forced in ("none", "half"))
    assert np.asarray(verify(task, sampled).rewards).shape == (16, 8)


@pytest.mark.parametrize("group_size", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("forced", ["none", "half", "think"])
def test_half_of_a_group_is_forced_only_in_groups_that_can_be_halved(forced, group_size):
    task = AdditionModes(digits=1, problems=16, forced=forced)
    where = task, Transformer(task.vocabulary_size, hidden_size=8, num_layers=1), objectives.make("hgpo(think_token=5)")
    settings = TrainSettings(1, 2, group_size)
    if forced != "half" or group_size in (4, 8):
        check_run(*where, settings)
    else:
        sentence = rf"group_size is {group_size}, it must be a multiple of 4, because AdditionModes\(.*forced='half'\)"
        with pytest.raises(ValueError, match=sentence):
            check_run(*where, settings)


def test_a_prompt_in_text_says_what_thinking_costs_and_asks_for_digits_alone():
    task = AdditionModes(problems=4, gamma=0.3)
    text = task.prompt_text(0, ["<no_think> 5"])
    assert "A right answer is worth 1 without work, and 0.7 with work.\n" in text
    assert "You have already given these answers:\n<no_think> 5\n" in text
    assert "Begin with <think> your work </think>, or with <no_think>" in text
    assert "Then write the number in its digits alone" in text
    assert "ways" not in text
    # The example is above all sums, so that it is no answer.
    assert task.parse_text(text) == -1
