from collections import Counter

import numpy as np
import pytest

from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from tests.environments.reading.answers import tokens_of

CORNER, EMPTY, MIDDLE = "100000000", "000000000", "000010000"


def layered(*layers):
    """The answer in text, one row of digits a line."""
    rows = [f"Layer {i}:\n" + "\n".join(layer[j : j + 3] for j in (0, 3, 6)) for i, layer in enumerate(layers, 1)]
    return "\n".join(["Structure:", *rows])


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        ({"blocks": 1, "fixed": True}, {3: 9}),
        ({"blocks": 2, "fixed": True}, {9: 36}),
        ({"fixed": True}, {27: 84}),
        ({}, {3: 9, 9: 36, 27: 84}),
    ],
    ids=str,
)
def test_sizes_of_admissible_sets(fields, sizes):
    task = HypospaceVoxels(**fields)
    found = task.admissible.sum(1)
    assert Counter(found.tolist()) == sizes
    assert task.num_hypotheses == found.sum()


def test_every_hypothesis_passes_the_validator_for_its_own_prompt_alone():
    task = HypospaceVoxels(grid=2, max_height=2, blocks=2)
    for stack, right in zip(task.answers, task.admissible.T, strict=True):
        assert [task.explains(view, stack) for view in task.asked] == right.tolist()


def test_a_prompt_by_hand():
    task = HypospaceVoxels(blocks=1)
    prompt = task.asked.index(CORNER)
    assert [task.vocabulary[token] for token in task.prompt_tokens(prompt)] == ["<bos>", *CORNER, "<answer>"]
    assert [task.hypotheses[i] for i in np.flatnonzero(task.admissible[prompt])] == [
        CORNER,
        f"{CORNER};{CORNER}",
        f"{CORNER};{CORNER};{CORNER}",
    ]
    assert "\n1 0 0\n0 0 0\n0 0 0\n" in task.prompt_text(prompt).split("Describe")[0]
    assert task.answer_text(1) == "Structure:\nLayer 1:\n1 0 0\n0 0 0\n0 0 0\nLayer 2:\n1 0 0\n0 0 0\n0 0 0"


@pytest.mark.parametrize(
    ("layers", "reward"),
    [
        ((CORNER, CORNER), 1),
        ((CORNER, CORNER, CORNER, CORNER), 1),  # too tall: valid, but none of the hypotheses
        ((CORNER, EMPTY, CORNER), 0),  # floats
        ((EMPTY, CORNER), 0),
        ((CORNER, MIDDLE), 0),
        ((MIDDLE,), 0),  # another view
        ((EMPTY,), 0),
        (("110000000",), 0),  # two columns where the space has one
    ],
)
def test_validator(layers, reward):
    task = HypospaceVoxels(blocks=1)
    prompt = task.asked.index(CORNER)
    outcomes = task.verify_texts([prompt], [[layered(*layers)]])
    assert outcomes.rewards[0, 0] == reward
    name = ";".join(layers)
    outcome = outcomes.outcome_id[0, 0]
    assert (outcome == task.hypotheses.index(name)) if name in task.hypotheses else outcome >= task.num_hypotheses
    assert task.parse([*tokens_of(task, name), *task.stop_tokens]) == outcome


def test_outcomes_outside_the_space_are_stable_and_distinct():
    task = HypospaceVoxels(blocks=1)
    tall, floating = (task.parse_text(layered(*layers)) for layers in ((CORNER,) * 4, (CORNER, EMPTY, CORNER)))
    # K + crc32 of the name with K = 27: no process may see another number.
    assert tall == 27 + 1647013212
    assert tall != floating
    assert task.parse_text(layered(*[CORNER] * 4, EMPTY)) == tall


def test_short_and_missing_rows_are_filled_with_zeros():
    task = HypospaceVoxels(blocks=1)
    found = task.parse_text("Layer 1 (ground):\n1\n\nLayer 2:\n1 0\nThat is all.")
    assert task.hypotheses[found] == f"{CORNER};{CORNER}"


@pytest.mark.parametrize("text", ["", "Structure:\nLayer 1 0 0 0\n0 0 0(\n1 0 0"])
def test_text_without_a_structure(text):
    assert HypospaceVoxels(blocks=1).parse_text(text) == -1


def test_random_forms_add_empty_layers_only():
    task = HypospaceVoxels(blocks=1)
    rng = np.random.default_rng(0)
    lengths = {len(task.render(0, rng)) for _ in range(50)}
    assert lengths == {10, 20, 30}
    assert {len(task.render(2, rng)) for _ in range(20)} == {30}
