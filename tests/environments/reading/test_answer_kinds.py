import re
from fractions import Fraction

import numpy as np
import pytest

from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.reading.numeric_answers import read_number
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from tests.environments.reading.right_answers import RIGHT
from tests.environments.reading.wrong_answers import WRONG

TASKS = {
    "countdown": Countdown(numbers=3, problems=12, largest_number=9, largest_target=30),
    "hypospace_boolean": HypospaceBoolean("full", 2),
    "hypospace_causal": HypospaceCausal(4),
    "hypospace_voxels": HypospaceVoxels(blocks=2),
    "one_of_many": OneOfMany(questions="african_country"),
}
NUMBERS = (2, 3, 7, 12, 3000, 45000)


def replaced(text, **signs):
    return re.sub("|".join(map(re.escape, signs)), lambda match: signs[match[0]], text)


def countdown_forms(task, hypothesis):
    plain = task.hypotheses[hypothesis]
    prompt = int(np.flatnonzero(task.admissible[:, hypothesis])[0])
    return {
        "a": plain,
        "b": plain.replace(" ", ""),
        "u": plain.replace("*", "×").replace("/", "÷").replace("-", "−"),
        "l": plain.replace("*", r"\times").replace("/", r"\div").replace("(", r"\left(").replace(")", r"\right)"),
        "t": str(task.asked[prompt].target),
    }


def boolean_forms(task, hypothesis):
    plain = task.hypotheses[hypothesis]

    def spelled(**signs):
        return re.sub(r"\b(AND|OR|NOT)\b", lambda match: signs[match[1]], plain)

    return {
        "a": plain,
        "u": spelled(AND="∧", OR="∨", NOT="¬"),
        "l": spelled(AND=r"\land", OR=r"\vee", NOT=r"\neg"),
        "p": spelled(AND="&&", OR="||", NOT="!"),
        "s": plain.lower(),
    }


def causal_forms(task, hypothesis):
    edges = task.hypotheses[hypothesis].split(", ")
    pairs = [edge.split("->") for edge in edges] if edges != ["No edges"] else []
    written = ", ".join(edges)
    tuples = ", ".join(f"({a}, {b})" for a, b in pairs)
    quoted = ", ".join(f'("{a}", "{b}")' for a, b in pairs)
    return {
        "a": written,
        "n": "\n".join(edges),
        "k": "\n".join(f"- {edge}" for edge in edges),
        "e": "\n".join(f"- {edge} (direct)" for edge in edges),
        "o": ", ".join(edges[::-1]),
        "u": written.replace("->", " → "),
        "l": written.replace("->", r" \to "),
        "x": " and ".join(edges),
        "y": "; ".join(edges),
        "z": written.replace("->", " --> "),
        "s": written.lower(),
        "p": tuples or "{}" * (not pairs),
        "q": quoted or "[]" * (not pairs),
    }


def voxel_forms(task, hypothesis):
    layers = [[layer[i : i + 3] for i in (0, 3, 6)] for layer in task.hypotheses[hypothesis].split(";")]

    def written(header="Layer {}:", row=" ".join, between="\n", rows="\n".join, end="\n", order=1):
        parts = [
            header.format(number) + end + rows(row(digits) for digits in layer)
            for number, layer in enumerate(layers, 1)
        ]
        return between.join(parts[::order])

    title = "Structure:\n"
    plain = title + written()
    first = layers[0][0]
    spaced = " ".join(first)
    return {
        "a": plain,
        "h": written(),
        "d": written(order=-1),
        "r": title + written(between="\n---\n"),
        "c": title + written(between="\nOn top of these comes:\n"),
        "w": title + written(between="\n\n", end="\n\n"),
        "j": written(row=lambda digits: f"[{', '.join(digits)}],"),
        "m": written(row=lambda digits: f"[{','.join(digits)}]", rows=lambda rows: f"[{', '.join(rows)}]", end=" "),
        "v": written(row=lambda digits: f"| {' | '.join(digits)} |"),
        "y": written(row=", ".join),
        "t": written(row="".join),
        "n": written(header="Layer {}"),
        "b": written(header="**Layer {}:**"),
        "g": written(header="### Layer {}"),
        "i": written(header="Layer {} (from the ground):"),
        "l": written(row=lambda digits: f"Row: {' '.join(digits)}"),
        "e": written(rows="; ".join, end=" "),
        "o": written(row=lambda digits: " ".join(digits) + "."),
        "z": plain + f"\nLayer {len(layers) + 1}:\n0 0 0\n0 0 0\n0 0 0",
        "x": str(len(layers) + 1),
        "f": "\n".join(map(" ".join, layers[0])),
        "2": plain.replace(spaced, spaced[:-1] + "2", 1),
        "q": plain.replace(spaced, spaced[:-1] + "o", 1),
        "4": plain + "\n1 1 1",
        "5": plain.replace(spaced, spaced + " 0", 1),
        "6": plain.replace(spaced, "-" + spaced, 1),
        "7": plain.replace(spaced, "1 if zero", 1),
        "8": plain + "\n" + "\n".join(map(" ".join, layers[-1])),
        "9": plain.replace(spaced + "\n", spaced + "\nand then\n", 1),
        "0": title + written().replace("Layer 1:", "Layer 5:"),
    }


def number_forms(number):
    return {
        "a": str(number),
        "g": f"{number:,}",
        "h": f"{number:,}".replace(",", " "),
        "i": f"{number:,}".replace(",", "{,}"),
        "j": f"{number:_}",
        "k": f"{number:,}".replace(",", "'"),
        "l": str(number - 1),
        "f": str(2 * number),
        "m": str(number // 1000),
        "n": "".join(chr(ord(digit) + 0xFEE0) for digit in str(number)),
        "z": str(number + 4),
    }


def phrase_forms(task, hypothesis):
    plain = task.hypotheses[hypothesis]
    return {
        "a": plain.title(),
        "s": plain,
        "c": plain.upper(),
        "p": f"{plain}s",
        "h": plain.replace(" ", "-"),
        "w": "".join(chr(ord(sign) + 0xFEE0) if sign.isalpha() else sign for sign in plain),
        "o": task.hypotheses[hypothesis - 1].title(),
    }


FORMS = dict(zip(TASKS, (countdown_forms, boolean_forms, causal_forms, voxel_forms, phrase_forms), strict=True))


def filled(template, forms):
    return re.sub("@(.)", lambda match: forms[match[1]], template)


def cases(table):
    return [(task, kind) for task, kinds in table.items() for kind in kinds]


def some_hypotheses(name):
    task = TASKS[name]
    found = np.linspace(0, task.num_hypotheses - 1, 25).astype(int).tolist()
    # A graph without edges is spelled otherwise, and kinds of wrong answers add D->B to a graph.
    return [i for i in found if task.hypotheses[i] != "No edges" and "D->B" not in task.hypotheses[i]]


def answers_of(name):
    """The answer's forms, its identity, and a function that reads a text."""
    if name == "math_answers":
        return [(number_forms(number), Fraction(number), read_number) for number in NUMBERS]
    return [(FORMS[name](TASKS[name], i), i, TASKS[name].parse_text) for i in some_hypotheses(name)]


@pytest.mark.parametrize(("task", "kind"), cases(RIGHT))
def test_right_answers_are_read(task, kind):
    template = RIGHT[task][kind]
    for forms, identity, read in answers_of(task):
        if "@m" in template and task == "math_answers" and identity < 1000:
            continue
        text = filled(template, forms)
        assert read(text) == identity, text


@pytest.mark.parametrize(("task", "kind"), cases(WRONG))
def test_other_answers_are_not_taken_for_right_ones(task, kind):
    for forms, identity, read in answers_of(task):
        text = filled(WRONG[task][kind], forms)
        outcome = read(text)
        assert outcome != identity, text
        if task in TASKS and outcome >= 0:
            index = [int(np.flatnonzero(TASKS[task].admissible[:, identity])[0])]
            known = outcome < TASKS[task].num_hypotheses
            assert known or TASKS[task].verify_texts(index, [[text]]).rewards[0, 0] == 0, text


def test_a_graph_without_edges():
    task = TASKS["hypospace_causal"]
    for text in ("No edges", "no edges.", '"No edges"', "[]", "{}", r"$\emptyset$", "(no edges)", "\n- No edges"):
        assert task.hypotheses[task.parse_text(f"Graph: {text}")] == "No edges"
    for text in ("", "none", "No edges, A->B", "no edge", "no edges at all"):
        assert task.parse_text(f"Graph: {text}") == -1
