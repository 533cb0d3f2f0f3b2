import copy
import dataclasses
import pickle
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.factors import Factors
from ipsrl.environments.tasks.graph_coloring import GraphColoring
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.tasks.n_queens import NQueens
from ipsrl.environments.tasks.plan_and_execute import PlanAndExecute
from ipsrl.environments.text import ANSWER, BEGIN, EARLIER, PADDING, STOP, TextTask
from tests.environments.reading.answers import trajectories_of

pytestmark = pytest.mark.core

TASKS = [
    HypospaceCausal(3),
    HypospaceCausal(4, perturbations=2),
    HypospaceBoolean("extended", 1),
    HypospaceBoolean("full", 2),
    HypospaceBoolean("basic", 3),
    HypospaceVoxels(),
    Countdown(numbers=3, problems=16, largest_number=9, largest_target=30, least_solutions=2),
    OneOfMany(questions=("day", "colour", "fruit")),
    GraphColoring(vertices=4, problems=16),
    GraphColoring(vertices=4, colors=4, problems=16, renaming=True),
    NQueens(n=6, min_remove=4, max_remove=6, problems=8, least_solutions=1),
    Addition(digits=2, problems=16),
    Addition(digits=1, modulus=7, problems=16, scratchpad="announced"),
    PlanAndExecute(length=5, problems=16),
    GraphSearch(problems=16),
    # Where thinking costs nothing, rewards are 0 and 1.
    AdditionModes(problems=16, gamma=0.0),
    GraphColoring(vertices=5, problems=16, hidden=3),
    Factors(numbers=3, largest=40, problems=16, least_solutions=8),
]
every_task = pytest.mark.parametrize("task", TASKS, ids=str)
some_task = st.sampled_from(TASKS)


@settings(deadline=None, max_examples=200)
@given(some_task, st.data(), st.integers(0, 2**32 - 1))
def test_every_form_of_a_hypothesis_is_read_back(task, data, seed):
    hypothesis = data.draw(st.integers(0, task.num_hypotheses - 1))
    canonical, random = task.render(hypothesis), task.render(hypothesis, np.random.default_rng(seed))
    assert task.parse(canonical) == task.parse(random) == hypothesis
    assert len(canonical) <= task.longest_answer + 1
    assert len(random) <= task.longest_answer + 1
    text = task.answer_text(hypothesis, np.random.default_rng(seed))
    assert task.parse_text(text) == task.parse_text(task.answer_text(hypothesis)) == hypothesis
    if not isinstance(task, OneOfMany):
        assert task.parse_text(f"Let me think. A -> B?\n{text}\nI am sure of it: yes.") == hypothesis
        if task.answer_marker is None:
            assert task.parse_text(text.replace("<answer>", "").replace("</answer>", "")) == -1


@every_task
def test_shapes_of_prompts(task):
    prompts = jax.jit(task.prompts)(jnp.array([0, task.num_prompts - 1]))
    assert prompts.tokens.shape == prompts.mask.shape == (2, task.prompt_length)
    tokens, mask = np.asarray(prompts.tokens), np.asarray(prompts.mask)
    assert tokens.dtype == np.int32
    for row, row_mask, prompt in zip(tokens, mask, (0, task.num_prompts - 1), strict=True):
        assert row[row_mask].tolist() == task.prompt_tokens(prompt)
        assert (row[~row_mask] == PADDING).all()
        assert row_mask[-1]
        assert (row[row_mask][0], row[-1]) == (BEGIN, ANSWER)
    table = task.prompt_table.tokens
    assert table.shape == (task.num_prompts, task.prompt_length)
    assert (table.min(), table.max() < task.vocabulary_size) in ((0, True), (1, True))
    assert len(np.unique(table, axis=0)) == task.num_prompts
    assert len(set(task.vocabulary)) == task.vocabulary_size == task.num_observations
    assert task.max_tokens == task.longest_answer + 3


@every_task
def test_history_stands_before_the_answer_mark(task):
    first, second = task.render(0), task.render(1)[:-1]
    plain = task.prompt_tokens(1)
    expected = [*plain[:-1], EARLIER, *first[:-1], EARLIER, *second, ANSWER]
    assert task.prompt_tokens(1, [first, second]) == expected
    width = len(expected) + 3
    prompts = task.prompts_with_history([1, 0], [[first, second], []], width)
    assert prompts.tokens.shape == (2, width)
    assert prompts.tokens[0].tolist() == [PADDING] * 3 + expected
    assert prompts.tokens[1][prompts.mask[1]].tolist() == task.prompt_tokens(0)
    assert task.prompts_with_history([1, 0], [[first, second], []]).tokens.shape == (2, len(expected))
    assert task.prompts_with_history([1], [[first] * 3], task.history_width(3)).mask.any()
    with pytest.raises(ValueError, match=f"has {len(expected)} tokens, more than the {len(expected) - 1} columns"):
        task.prompts_with_history([1], [[first, second]], len(expected) - 1)
    with pytest.raises(ValueError, match="2 prompts need as many histories, got 1"):
        task.prompts_with_history([1, 0], [[]])


@every_task
def test_verdict(task):
    rng = np.random.default_rng(0)
    prompts = np.flatnonzero(~task.admissible.all(1))[[0, -1]]
    hypotheses = rng.integers(task.num_hypotheses, size=(2, 6))
    for row, prompt in enumerate(prompts):
        hypotheses[row, 0] = np.flatnonzero(task.admissible[prompt])[0]
        hypotheses[row, 1] = np.flatnonzero(~task.admissible[prompt])[0]
    answers = [[task.render(hypothesis, rng) for hypothesis in group] for group in hypotheses.tolist()]
    # Never stopped; stopped at once; a mark that is not an answer.
    answers = [[*group, [5], [STOP], [ANSWER, STOP]] for group in answers]
    outcomes = task.verify(trajectories_of(task, prompts, answers, behind=STOP))
    np.testing.assert_array_equal(outcomes.outcome_id, np.pad(hypotheses, ((0, 0), (0, 3)), constant_values=-1))
    expected = np.take_along_axis(task.admissible[prompts], hypotheses, 1)
    np.testing.assert_array_equal(outcomes.rewards, np.pad(expected, ((0, 0), (0, 3))))
    assert (outcomes.rewards.dtype, outcomes.outcome_id.dtype) == (np.float32, np.int32)
    assert outcomes.rewards[:, 0].tolist() == [1, 1]
    assert outcomes.rewards[:, 1].tolist() == [0, 0]

    texts = [[*(task.answer_text(i) for i in group), "no idea" * 9, "", "?"] for group in hypotheses.tolist()]
    spoken = task.verify_texts(prompts, texts)
    assert spoken.planning_mask is None
    np.testing.assert_array_equal(spoken.outcome_id, outcomes.outcome_id)
    np.testing.assert_array_equal(spoken.rewards, outcomes.rewards)


@pytest.mark.parametrize(
    ("task", "answer", "planning"),
    [
        (HypospaceBoolean("full", 2), "AND NOT x y <stop>", "11..."),
        (HypospaceBoolean("full", 2), "NOR x OR x y <stop>", "1.1..."),
        (HypospaceBoolean("full", 2), "x (x=0,y=0)->0 <answer> NOT", "...1"),
        (HypospaceCausal(3), "A->B C->A <stop>", "11."),
        (HypospaceCausal(3), "No_edges <stop>", "1."),
        (HypospaceCausal(3), "Perturb(A) A->B B:1", ".1."),
        (HypospaceVoxels(2, 2, 2), "1 0 0 1 ; 1 0 0 0 <stop>", "....1....."),
        (HypospaceVoxels(2, 2, 2), "0 1 0 0 <stop>", "....."),
        (TASKS[6], "* 2 - 9 1 <stop>", "1.1..."),
        (TASKS[12], "<think> 6 : 0 + 6 <stop>", "1...1.."),
        (TASKS[13], "reverse 1 2 3 4 5 <stop>", "1......"),
        (TASKS[14], "B E alternatively C E I K <stop>", "..1....."),
        (TASKS[15], "<think> 1 2 : 1 2 <stop>", "1......"),
    ],
)
def test_planning_tokens_choose_the_structure_of_an_answer(task, answer, planning):
    token_of = {name.replace(" ", "_"): token for token, name in enumerate(task.vocabulary)}
    trajectories = trajectories_of(task, [0], [[[token_of[word] for word in answer.split()], []]])
    # Behind the mask stand tokens that would plan.
    plan = token_of[task.planning_symbols[0].replace(" ", "_")]
    tokens = np.where(trajectories.token_mask, trajectories.tokens, plan)
    mask = task.verify(dataclasses.replace(trajectories, tokens=tokens)).planning_mask
    assert "planning_mask" in task.optional_fields
    assert (mask.dtype, mask.shape) == (bool, tokens.shape)
    assert mask[0, 0].tolist() == [mark == "1" for mark in planning.ljust(task.max_tokens, ".")]
    assert not mask[0, 1].any()


@every_task
def test_outcome_space(task):
    space = task.outcome_space(1)
    assert space.names == task.hypotheses
    assert len(set(space.names)) == task.num_hypotheses == task.admissible.shape[1]
    assert task.num_prompts == len(task.admissible) == getattr(task, "problems", task.num_prompts)
    assert space.rewards.dtype == np.float32
    np.testing.assert_array_equal(space.rewards, task.admissible[1])
    assert space.target.sum() == pytest.approx(1)


@dataclasses.dataclass(frozen=True)
class Parity(TextTask):
    """Whether a number is even or odd."""

    symbols = ("1", "2", "even", "odd")
    answers = (("even",), ("odd",))
    problem_table: ClassVar = {1: [("odd",)], 2: [("even",)]}

    def observation_symbols(self, problem):
        return [str(problem)]

    def read_symbols(self, symbols):
        return tuple(symbols)

    def prompt_words(self, problem, earlier):
        return f"Is {problem} even or odd?\n{earlier}"

    def read_text(self, text):
        return (text,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"problem_table": {1: [("none",)]}}, r"problem_table of Parity has \('none',\) for 1, which must be among"),
        ({"problem_table": {1: [["odd"]]}}, r"problem_table of Parity has unhashable .*'list'.* for 1, which must be"),
        ({"problem_table": {1: np.array([False, True])}}, None),
        (
            {"problem_table": {1: np.array([0, 1])}},
            r"problem_table of Parity for 1 must be \[2\] bool",
        ),
        (
            {"problem_table": {1: np.array([True])}},
            r"problem_table of Parity for 1 must be \[2\] bool",
        ),
        ({"problem_table": {}}, "problem_table of Parity is empty: a task needs a problem"),
        ({"name": lambda self, answer: "same"}, "Parity calls two answers 'same': each needs a name of its own"),
        ({"answers": (("even",), ("odd",), ("even",))}, r"answers of Parity has \('even',\) twice"),
        ({"problem_table": {3: [("odd",)]}}, "Parity writes '3', but '3' is not among its symbols"),
        ({"symbols": ("1", "2", "even")}, "Parity writes 'odd', but 'odd' is not among its symbols"),
        ({"symbols": ("1", "2", "even", "odd", "1")}, "symbols of Parity must differ from each other .* '1' does not"),
        ({"symbols": ("1", "2", "even", "odd", "<stop>")}, "and from <pad>, .* but '<stop>' does not"),
    ],
)
def test_tables_that_contradict_each_other_are_refused(changes, message):
    task = type("Parity", (Parity,), changes)()

    def use():
        return task.admissible, task.hypotheses, task.prompt_table, [task.render(i) for i in range(task.num_hypotheses)]

    if message is None:
        use()
    else:
        with pytest.raises(ValueError, match=message):
            use()


@every_task
def test_text_prompts_show_the_history(task):
    answer = task.answer_text(0)
    assert answer not in task.prompt_text(1).split("Answer")[0].split("Write")[0]
    assert answer in task.prompt_text(1, [answer])
    assert len({task.prompt_text(prompt) for prompt in range(min(20, task.num_prompts))}) == min(20, task.num_prompts)


@every_task
def test_tables_do_not_travel(task):
    assert task.admissible.any()
    assert len(pickle.dumps(task)) < 500
    assert len(pickle.dumps(task.reader)) < 1500
    assert pickle.loads(pickle.dumps(task)) == task
    assert copy.copy(task).hypotheses == task.hypotheses
