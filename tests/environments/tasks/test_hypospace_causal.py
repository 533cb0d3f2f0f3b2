from collections import Counter

import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal, acyclic_graphs, count_acyclic_graphs
from tests.environments.reading.answers import tokens_of

# nodes, k -> size of the admissible set: how many observation sets have it
SIZES = {
    (3, 1): {4: 6, 5: 3, 12: 3},
    (3, 2): {1: 9, 2: 6, 3: 6, 4: 9},
    (3, 3): {1: 13, 2: 6},
    (4, 1): {40: 12, 48: 12, 79: 4, 200: 4},
    (4, 2): {1: 12, 3: 24, 5: 12, 8: 36, 9: 6, 12: 24, 16: 24, 20: 12, 24: 24, 35: 12, 48: 18},
    (4, 3): {1: 76, 2: 84, 3: 48, 4: 12, 5: 12, 8: 76, 9: 12, 12: 48, 16: 24},
    (4, 4): {1: 87, 2: 84, 4: 24, 8: 24},
}


@pytest.mark.parametrize(("nodes", "k"), SIZES)
def test_sizes_of_admissible_sets(nodes, k):
    assert Counter(HypospaceCausal(nodes, perturbations=k).admissible.sum(1).tolist()) == SIZES[nodes, k]


@pytest.mark.parametrize(("nodes", "graphs", "patterns"), [(3, 25, 19), (4, 543, 219)])
def test_complete_collections(nodes, graphs, patterns):
    task = HypospaceCausal(nodes)
    assert task.num_hypotheses == graphs
    assert len(np.unique(task.graphs[1], axis=0)) == patterns
    together = sum((Counter(SIZES[nodes, k]) for k in range(1, nodes + 1)), Counter())
    assert Counter(task.admissible.sum(1).tolist()) == together


def test_numbers_of_acyclic_graphs():
    assert [count_acyclic_graphs(nodes, 15) for nodes in range(1, 7)] == [1, 3, 25, 543, 29281, 3781503]
    for limit in range(1, 7):
        edges, _ = acyclic_graphs(4, limit)
        assert len(edges) == count_acyclic_graphs(4, limit)
        assert edges.sum(1).max() == limit


def test_descendants_agree_with_powers_of_the_adjacency_matrix():
    edges, reach = acyclic_graphs(4, 6)
    assert not reach[:, range(4), range(4)].any()
    adjacency = np.zeros((len(edges), 4, 4), int)
    adjacency[:, ~np.eye(4, dtype=bool)] = edges
    paths = adjacency + adjacency @ adjacency + adjacency @ adjacency @ adjacency
    np.testing.assert_array_equal(reach, paths > 0)


def test_names_and_a_hand_worked_prompt():
    task = HypospaceCausal(3, perturbations=1)
    assert task.hypotheses[:3] == ("No edges", "A->B", "A->C")
    # Perturbing A changes B alone: A->B, and C is not a descendant of A or B.
    prompt = task.asked.index(((0, 0b010),))
    explained = {task.hypotheses[i] for i in np.flatnonzero(task.admissible[prompt])}
    assert explained == {"A->B", "A->B, C->A", "A->B, C->B", "A->B, C->A, C->B"}
    words = [task.vocabulary[token] for token in task.prompt_tokens(prompt)]
    assert words == ["<bos>", "Perturb(A)", "B:1", "<answer>"]
    assert "Perturb(A) -> A:0 B:1 C:0" in task.prompt_text(prompt)


@pytest.mark.parametrize(
    "answer",
    [
        "A->B, B->C, C->A",  # a cycle
        "A->B, B->C, A->C",  # three edges, two allowed
    ],
)
def test_answers_that_break_a_rule(answer):
    task = HypospaceCausal(3, max_edges=2)
    assert task.parse_text(f"Graph: {answer}") == -1
    # It is the last well-formed answer all the same.
    assert task.parse_text(f"Graph: A->B\nGraph: {answer}") == -1
    edges = answer.split(", ")
    if set(edges) <= set(task.vocabulary):
        assert task.parse([*tokens_of(task, edges), *task.stop_tokens]) == -1


def test_lenient_text():
    task = HypospaceCausal(3)
    assert task.hypotheses[task.parse_text("Graph: A → B; B => C")] == "A->B, B->C"


def test_the_empty_graph_needs_its_token():
    task = HypospaceCausal(3)
    (none, edge), stop = tokens_of(task, ["No edges", "A->B"]), task.stop_tokens[0]
    assert task.parse([none, stop]) == task.parse_text("Graph: no edges.") == 0
    assert task.parse([stop]) == task.parse([none, edge, stop]) == task.parse_text("Graph:") == -1
    assert task.parse([edge, edge, stop]) == task.parse([edge, stop]) == task.hypotheses.index("A->B")


def test_many_nodes_draw_asked():
    task = HypospaceCausal(5, max_edges=4, seed=1)
    sizes = Counter(len(observations) for observations in task.asked)
    assert set(sizes) == {1, 2, 3, 4, 5}
    assert max(sizes.values()) == 100
    assert (HypospaceCausal(5).edge_limit, count_acyclic_graphs(5, 10)) == (10, 29281)
