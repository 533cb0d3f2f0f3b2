import itertools

import numpy as np
import pytest

from ipsrl.environments.tasks.graph_coloring import GraphColoring, graph_of_seed

TASK = GraphColoring(vertices=5, problems=12)
RENAMED = GraphColoring(vertices=5, problems=12, renaming=True)
HIDDEN = GraphColoring(vertices=5, problems=12, hidden=3)


def proper_colorings(task, prompt):
    """All proper colorings with three colors, by brute force."""
    edges, _ = task.asked[prompt]
    return {
        colors
        for colors in itertools.product((1, 2, 3), repeat=5)
        if all(colors[tail] != colors[head] for tail, head in edges)
    }


def admitted(task, prompt):
    return {task.answers[i] for i in np.flatnonzero(task.admissible[prompt])}


def test_solutions_are_those_of_brute_force():
    for prompt in range(4):
        proper = proper_colorings(TASK, prompt)
        assert admitted(TASK, prompt) == proper
        up_to_names = {tuple(map([*dict.fromkeys(colors)].index, colors)) for colors in proper}
        if TASK.asked[prompt] in RENAMED.asked:
            assert RENAMED.admissible[RENAMED.asked.index(TASK.asked[prompt])].sum() == len(up_to_names)


def test_solutions_keep_the_colors_that_are_shown():
    for prompt, (_, shown) in enumerate(HIDDEN.asked):
        agree = [
            colors
            for colors in proper_colorings(HIDDEN, prompt)
            if all(seen in (0, color) for seen, color in zip(shown, colors, strict=True))
        ]
        assert admitted(HIDDEN, prompt) == {*agree}
        assert (shown.count(0), len(agree) >= 2) == (3, True)
        assert HIDDEN.question_text(prompt).split()[-5:] == [str(color or "?") for color in shown]
        words = HIDDEN.prompt_text(prompt).split("must stay: ")[1].split("\n")[0]
        assert [f'"{vertex}": {color}' in words for vertex, color in enumerate(shown)] == [color > 0 for color in shown]


def test_up_to_names_assignments_are_partitions():
    # Of 5 elements into at most 3 parts: 1 + 15 + 25.
    assert (TASK.num_hypotheses, RENAMED.num_hypotheses) == (3**5, 41)
    rng = np.random.default_rng(0)
    spelled = {tuple(RENAMED.spell(RENAMED.answers[40], rng)) for _ in range(40)}
    assert len(spelled) == 6
    assert {RENAMED.outcome(tuple(map(int, colors))) for colors in spelled} == {40}
    assert TASK.outcome((2, 1, 2, 1, 2)) != TASK.outcome((1, 2, 1, 2, 1))
    assert RENAMED.outcome((2, 1, 2, 1, 2)) == RENAMED.outcome((1, 2, 1, 2, 1))
    assert RENAMED.outcome((4, 1, 4, 1, 4)) == -1


MAP = '{"0": 1, "1": 2, "2": 3, "3": 1, "4": 2}'


@pytest.mark.parametrize(
    "text",
    [
        f"<answer>{MAP}</answer>",
        f"<think><answer>{{}}</answer></think>Vertex 0 is free. <answer>\n{MAP}\n</answer> Done.",
        f"<answer>{MAP.replace(' ', '')}</answer>",
        f"<answer>{MAP.replace(', ', ',' + chr(10))}</answer>",
        '<answer>{0: 1, 1: 2, 2: 3, 3: 1, 4: "2"}</answer>',
        '<answer>{"4": 2, "3": 1, "2": 3, "1": 2, "0": 1}</answer>',
    ],
)
def test_maps_are_read(text):
    assert TASK.hypotheses[TASK.parse_text(text)] == "1 2 3 1 2"


@pytest.mark.parametrize(
    "answer",
    [
        MAP.replace('"4": 2', '"4": 4'),
        MAP.replace('"4": 2', '"4": 2.0'),
        MAP.replace('"4": 2', '"5": 2'),
        MAP.replace(', "4": 2', ""),
        MAP.replace('"4": 2', '"4": 2, "5": 1'),
        MAP.replace('"4": 2', '"4": 2, "4": 1'),
        MAP[1:-1],
        f"{MAP} or {MAP}",
        "",
    ],
)
def test_other_maps_have_no_outcome(answer):
    assert TASK.parse_text(f"<answer>{answer}</answer>") == -1


def test_graphs_that_are_too_dense_are_refused_and_not_sought_forever():
    with pytest.raises(ValueError, match=r"^none of 10000 graphs with 12 vertices and edge_probability 0\.9 was"):
        GraphColoring(vertices=12, colors=2, edge_probability=0.9).asked  # noqa: B018


@pytest.mark.parametrize("probability", [0.2, 0.5, 0.8])
def test_problems_and_words_are_those_of_reasoning_gym(probability):
    theirs = pytest.importorskip("reasoning_gym", reason='pip install -e ".[reasoning_gym]"')
    sizes = {"min_num_vertices": 5, "max_num_vertices": 5, "num_colors": 3, "edge_probability": probability}
    data_set = theirs.create_dataset("graph_color", seed=7, size=20, **sizes)
    problems = [data_set[number] for number in range(20)]
    graphs = [tuple(problem["metadata"]["puzzle"]["edges"]) for problem in problems]
    assert graphs == [graph_of_seed(7 + number, 5, 3, probability) for number in range(20)]
    task = GraphColoring(5, 3, probability, problems=4, least_solutions=1, seed=7)
    assert [edges for edges, _ in task.asked] == [*dict.fromkeys(graphs)][:4]
    for prompt, (edges, _) in enumerate(task.asked):
        problem = problems[graphs.index(edges)]
        assert task.prompt_text(prompt).startswith(problem["question"])
        # Theirs and ours agree on every assignment.
        for hypothesis in range(0, task.num_hypotheses, 7):
            text = task.answer_text(hypothesis).removeprefix("<answer> ").removesuffix(" </answer>")
            score = data_set.score_answer(text, problem)
            assert (score == 1.0) == task.admissible[prompt, hypothesis]
