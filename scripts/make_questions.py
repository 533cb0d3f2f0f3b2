"""Writes a small data set of arithmetic questions: `python scripts/make_questions.py --out=DIR`.

It replaces a real one, such as GSM8K, in tests and smoke runs: the same format (TFDS in array_record, solutions that
end with "#### 42"), read by --data="math_answers(data_dir=DIR, builder=small_sums)". It takes seconds, and needs
neither network nor TensorFlow.
"""

import argparse
import itertools
import operator
from collections.abc import Mapping
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.make_questions")

import numpy as np
from absl import logging

from ipsrl.checking.paths import expanded, require_possible
from ipsrl.command.ending import Ending
from ipsrl.distributed import memory
from ipsrl.environments.stored_texts import write_texts

NAME = "small_sums"
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}

Row = Mapping[str, str]
# At least: a dict, its two texts, and their places in lists.
ROW_BYTES = 400


def make_questions(out: str | Path, train: int = 512, test: int = 128, largest: int = 9, seed: int = 0) -> Path:
    """Writes the data set `small_sums` with the splits "train" and "test", which share no question, to `out`.

    Args:
      out: folder of data sets.
      train, test: number of questions in each split.
      largest: numbers in questions lie between 1 and this.
      seed: of the selection among all questions.

    Returns:
      The folder of the data set.

    Raises:
      ValueError: a number is too small, `out` cannot be a folder or already holds this data set, or there are fewer
        questions, or more than the memory holds.
    """
    for name, value, least in (("train", train, 1), ("test", test, 1), ("largest", largest, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}, it must be at least {least}")
    folder = expanded(out, "--out")
    require_possible(folder)
    number = 3 * largest**2 + 9 * largest**3
    memory.require(ROW_BYTES * number, f"the questions with numbers up to {largest}", "lower --largest")
    rows = all_questions(largest)
    if train + test > len(rows):
        raise ValueError(f"{train} + {test} questions are requested, but numbers up to {largest} give only {len(rows)}")
    order = np.random.default_rng(seed).permutation(len(rows))
    chosen = [rows[number] for number in order[: train + test]]
    return write_texts(folder, NAME, ("question", "answer"), {"train": chosen[:train], "test": chosen[train:]})


def all_questions(largest: int) -> list[Row]:
    """Every question with one or two operations on numbers between 1 and `largest`, and its solution in steps."""
    numbers, rows = range(1, largest + 1), []
    for a, (first, apply_first), b in itertools.product(numbers, OPERATIONS.items(), numbers):
        inner = apply_first(a, b)
        step = f"{a} {first} {b} = {inner}"
        rows.append({"question": f"What is {a} {first} {b}?", "answer": f"{step}\n#### {inner}"})
        for (second, apply_second), c in itertools.product(OPERATIONS.items(), numbers):
            value = apply_second(inner, c)
            rows.append(
                {
                    "question": f"What is ({a} {first} {b}) {second} {c}?",
                    "answer": f"{step}\n{inner} {second} {c} = {value}\n#### {value}",
                }
            )
    return rows


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", required=True, help="folder of data sets")
    made.add_argument("--train", type=int, default=512, help="questions to train on; 512 by default")
    made.add_argument("--test", type=int, default=128, help="held-out questions; 128 by default")
    made.add_argument("--largest", type=int, default=9, help="largest number in a question; 9 by default")
    made.add_argument("--seed", type=int, default=0, help="of the choice among all questions; 0 by default")
    return made


def main() -> None:
    arguments = parser().parse_args()
    # TFDS would log every file.
    logging.set_verbosity(logging.WARNING)
    with Ending():
        folder = make_questions(**vars(arguments))
        print(f"{folder}: --data='math_answers(data_dir=\"{folder.parent}\", builder={NAME})'")


if __name__ == "__main__":
    main()
