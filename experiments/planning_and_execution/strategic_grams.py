"""Strategic grams: n-grams of tokens that many answers have, but few times each (HICRA, arXiv 2509.03646).

The paper's measure of planning in answers whose planning tokens are not known. It embeds the n-grams of right answers,
clusters them by meaning, and keeps the clusters that most answers have. Here are no embeddings: a gram is a run of
equal tokens, which is the same where a strategy has one wording, as in a compact language.

All of this runs on the host, in NumPy. `tokens` are `[..., T]` int, one answer in each row, and `mask` `[..., T]` bool
is True on the tokens that count. Grams never reach across a token that does not: take the stop token, and others that
all answers have, out of the mask, because they would be the most frequent grams of all.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ipsrl.arguments import checked

Gram = tuple[int, ...]


@checked
def strategic_grams(
    tokens: np.ndarray,
    mask: np.ndarray,
    shortest: int = 3,
    longest: int = 5,
    kept: float = 0.2,
    most_inside: float = 1.25,
) -> list[Gram]:
    """The share `kept` of the grams that most answers have, among those with few repetitions; most frequent first.

    Candidates are the n-grams, n from `shortest` to `longest`, that occur at most `most_inside` times on average in
    the answers that have them. Of C candidates the ceil(kept C) that most answers have are kept, and all ties with
    the last of them. There are none if no answer is long enough. Freeze the list: mined anew from a policy that
    changes, it is another measure at each step.

    Args:
      tokens, mask: right answers, as the paper has it, or any others.
      shortest, longest: 3 and 5 in the paper, for words; 1 where one token is a plan.
      kept: above 0, at most 1; 0.2 in the paper.
      most_inside: at least 1. "Few times inside one answer" is the paper's; the number is our reading.

    Raises:
      ValueError: a shape or a number is wrong.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"shortest is {shortest} and longest {longest}, they must be 1 <= shortest <= longest"
        )
    if not 0 < kept <= 1:
        raise ValueError(f"kept is {kept}, it must lie above 0 and not above 1")
    if most_inside < 1:
        raise ValueError(f"most_inside is {most_inside}, it must be at least 1")
    answers, occurrences = Counter(), Counter()
    for row, row_mask in _rows(tokens, mask):
        inside = Counter(
            gram for n in range(shortest, longest + 1) for _, gram in _grams(row, row_mask, n)
        )
        occurrences.update(inside)
        answers.update(inside.keys())
    few = [gram for gram in answers if occurrences[gram] <= most_inside * answers[gram]]
    ranked = sorted(few, key=lambda gram: (-answers[gram], gram))
    # Rounded, so that 0.2 of 5 is not a little more than 1.
    least = answers[ranked[int(np.ceil(round(kept * len(ranked), 9))) - 1]] if ranked else 0
    return [gram for gram in ranked if answers[gram] >= least]


@checked
def gram_mask(tokens: np.ndarray, mask: np.ndarray, grams: Sequence[Gram]) -> np.ndarray:
    """`[..., T]` bool, True on the tokens inside any of the grams: the estimate of a planning mask."""
    wanted = {tuple(gram) for gram in grams}
    # An empty gram occurs nowhere.
    lengths = {len(gram) for gram in wanted} - {0}
    marked = np.zeros(mask.shape, bool)
    places = marked.reshape(-1, mask.shape[-1])
    for of_row, (row, row_mask) in zip(places, _rows(tokens, mask), strict=True):
        for n in lengths:
            for place, gram in _grams(row, row_mask, n):
                of_row[place : place + n] |= gram in wanted
    return marked


@checked
def agreement(marked: np.ndarray, planning: np.ndarray) -> dict[str, float]:
    """How well marked tokens agree with the known planning tokens, both bool masks of the same shape.

    precision  share of the marked tokens that plan; 0 if none is marked
    recall     share of the planning tokens that are marked; 0 if there are none

    Raises:
      ValueError: the shapes differ.
    """
    if marked.shape != planning.shape:
        raise ValueError(
            f"marked has the shape {marked.shape}, it must be that of planning, {planning.shape}"
        )
    both = float((marked & planning).sum())
    return {
        "precision": both / max(1, int(marked.sum())),
        "recall": both / max(1, int(planning.sum())),
    }


def _rows(tokens: np.ndarray, mask: np.ndarray) -> Iterator[tuple[list[int], list[bool]]]:
    tokens, mask = np.asarray(tokens), np.asarray(mask, bool)
    if tokens.ndim < 1 or tokens.shape != mask.shape:
        raise ValueError(f"tokens {tokens.shape} and mask {mask.shape} must both be [..., token]")
    width = tokens.shape[-1]
    return zip(tokens.reshape(-1, width).tolist(), mask.reshape(-1, width).tolist(), strict=True)


def _grams(row: list[int], row_mask: list[bool], n: int) -> Iterator[tuple[int, Gram]]:
    """The n-grams of an answer and where they begin."""
    for place in range(len(row) - n + 1):
        if all(row_mask[place : place + n]):
            yield place, tuple(row[place : place + n])
