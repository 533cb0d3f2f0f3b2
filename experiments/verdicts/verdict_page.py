"""Verdicts on many objectives: groups of equal verdicts, and a Markdown page about all."""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from experiments.verdicts.another_prompt import BESIDE, OVERLAP
from ipsrl.dynamics.cases import (
    CASES,
    LOST,
    SAME,
    SKEWED,
    SPLIT,
    STARTS,
    STEP_SIZE,
    STEPS,
    STILL_THERE,
    Case,
    limits,
)
from ipsrl.dynamics.expected_update import Steps
from ipsrl.dynamics.verdict import FITS, MEANINGS, Verdict
from ipsrl.records.json_files import read_json, replace_file
from ipsrl.records.tidy import Record, Records
from ipsrl.text_table import markdown

REWARDS = {
    "full tie": "all three are equally good",
    "partial tie": "two are equally good, the third is half as good",
    "binary": "two are right, one is wrong, as a verifier says",
    "unequal": "all are rewarded, differently",
}
"""Case -> the meaning of its rewards."""
BARS = (
    "A bar is a policy: its three parts are the probabilities of the three outcomes. Each cell shows where the six "
    "policies of the first row end, in the same order. Bars all alike: the end does not depend on the start. One "
    "colour only: the others are lost."
)
"""Explanation of the figure."""
SHOWN = (0, 2, 3, 6, 8, 9)
"""Which of `STARTS` are shown: of each half, one led by each outcome."""
SEVERAL = Steps(4, 0.5)
"""Steps on each batch, of the column for objectives whose importance ratios have an effect only then."""
CHANGES = ("several", "walks", "beside")
"""Columns in which one thing is changed: fields of `PublishedVerdict`."""
REMARKS = {
    "hgpo": "outcome 1 is not like the others: it is the token that opens a thought",
    "degrpo": "an answer of one token is only a control token, whose weight is small",
    "mode_replay": "the bank here is one right answer sampled in each step, not one of each outcome ever found",
    "gapo": "with two valid outcomes both always earn the same",
}
"""Objective -> a remark for its row."""


def records_of(
    entry: Verdict, beside: Case, walks: Verdict, several: Verdict | None = None
) -> list[Record]:
    """A record for each flow of `entry`, by reference policy, rewards and start; outcomes are numbered from 1.

    Args:
      entry: of single tokens.
      beside: of `beside_another`.
      walks: of `cases.WALKS`.
      several: with the steps `SEVERAL`, for an objective whose surrogate has no effect in `entry`.
    """
    # Whether equally good outcomes share alike, or their walks do, which gives the third outcome twice as much.
    full_tie = f"full tie {walks.cases['full tie'].text}"
    of_all = {
        "word": entry.word,
        "evidence": entry.evidence,
        "unseen": entry.unseen,
        "beside": beside.text,
        "several": "" if several is None else _in_short(several),
        "walks": walks.word if walks.word == "collapses" else f"{_in_short(walks)}; {full_tie}",
    }
    records = []
    for side, cases in entry.sides.items():
        for name, case in cases.items():
            of_case = of_all | {"reference": side, "rewards": name, "text": case.text}
            for flow in zip(STARTS, case.ends, case.exponents, strict=True):
                columns = zip(("start", "end", "exponent"), flow, strict=True)
                numbered = {
                    f"{what}_{n}": value
                    for what, values in columns
                    for n, value in enumerate(values, 1)
                }
                records.append(of_case | numbered)
    return records


def _in_short(entry: Verdict) -> str:
    return f"{entry.word}: {entry.evidence.partition(';')[0]}"


@dataclasses.dataclass(frozen=True)
class PublishedVerdict:
    """The published verdict on one objective.

    Attributes:
      objective: its specification.
      word, evidence, unseen: as in `Verdict`.
      several: word and evidence with the steps `SEVERAL`; empty if the surrogate has an effect without them.
      walks: word and evidence on walks of two moves.
      beside: the end of the binary case beside another prompt, in a few words.
      texts: distribution of the reference policy (`uniform`, and `skewed` for objectives that use one) -> case ->
        the end of training in a few words.
      ends: distribution of the reference policy -> case -> `[12, 3]`, the ends of the flows from `STARTS`, without lost
        outcomes.
    """

    objective: str
    word: str
    evidence: str
    unseen: str
    several: str
    walks: str
    beside: str
    texts: Mapping[str, Mapping[str, str]]
    ends: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]

    @classmethod
    def of(cls, objective: str, records: Records) -> Self:
        """From the records of one objective, see `records_of`."""
        texts: dict[str, dict[str, str]] = {}
        ends: dict[str, dict[str, list[list[float]]]] = {}
        for labels, flows in records.each("reference", "rewards"):
            side, case = labels.values()
            columns = (
                np.stack([flows.column(f"{what}_{n}") for n in (1, 2, 3)], axis=1)
                for what in ("end", "exponent")
            )
            texts.setdefault(side, {})[case] = flows.rows[0]["text"]
            ends.setdefault(side, {})[case] = limits(*columns).tolist()
        texts_of_all = (
            records.rows[0][name]
            for name in ("word", "evidence", "unseen", "several", "walks", "beside")
        )
        return cls(objective, *texts_of_all, texts, ends)

    def rounded(self) -> Self:
        """The same with four digits."""
        ends = {
            side: {case: np.round(probs, 4).tolist() for case, probs in cases.items()}
            for side, cases in self.ends.items()
        }
        return dataclasses.replace(self, ends=ends)

    def equals(self, other: Self) -> bool:
        """Whether both are equal except for the name, and for all but the first words of `CHANGES`."""

        def compared(entry: Self) -> tuple:
            words = (getattr(entry, column).partition(":")[0] for column in CHANGES)
            return entry.word, entry.evidence, entry.texts, *words

        if compared(self) != compared(other):
            return False
        return all(
            np.abs(np.subtract(self.ends[side][name], other.ends[side][name])).max() < SAME
            for side, cases in self.texts.items()
            for name in cases
        )


def write(path: Path, published: Sequence[PublishedVerdict], group_size: int) -> None:
    """Writes verdicts as JSON, one line each, probabilities with four digits."""
    lines = ",\n".join(json.dumps(dataclasses.asdict(entry.rounded())) for entry in published)
    replace_file(path, f'{{"group_size": {group_size}, "verdicts": [\n{lines}\n]}}\n')


def read(path: Path, group_size: int) -> list[PublishedVerdict]:
    """Reads the file of `write`.

    Raises:
      ValueError: the file does not exist, or has another group size.
    """
    if not path.exists():
        raise ValueError(f"{path} is missing: write the whole page before you update a row")
    kept = read_json(path)
    if kept["group_size"] != group_size:
        raise ValueError(
            f"{path} has groups of {kept['group_size']}, not {group_size}: use its --group_size"
        )
    return [PublishedVerdict(**entry) for entry in kept["verdicts"]]


def grouped(published: Sequence[PublishedVerdict]) -> list[list[PublishedVerdict]]:
    """Groups verdicts that differ only in the name; in the order of `MEANINGS`."""
    rows = []
    for entry in published:
        row = next((row for row in rows if entry.equals(row[0])), None)
        if row is None:
            rows.append([entry])
        else:
            row.append(entry)
    return sorted(rows, key=lambda row: list(MEANINGS).index(row[0].word))


def document(
    rows: Sequence[Sequence[PublishedVerdict]],
    left_out: Mapping[str, str],
    group_size: int,
    command: str,
    figure: str,
) -> str:
    """The verdicts as a Markdown page for a reader who knows none of the papers.

    Args:
      rows: from `grouped`.
      left_out: objective -> why it has no verdict.
      group_size: G.
      command: command that writes the page.
      figure: path of the figure, relative to the page.
    """
    words = dict.fromkeys(row[0].word for row in rows)
    sections = [
        _FRONT.format(
            group_size=group_size,
            figure=figure,
            starts=" and ".join(
                f"{start[0]:g} : {start[1]:g} : {start[2]:g}" for start in (STARTS[0], STARTS[6])
            ),
            rewards="\n".join(
                f"- **{name}**, {numbers(CASES[name])}: {text}." for name, text in REWARDS.items()
            ),
            meanings="\n".join(
                f"- **{word}**: {what}. {worth}" for word, (what, worth) in MEANINGS.items()
            ),
            lost=f"{LOST:g}",
            still_there=f"{STILL_THERE:g}",
            several=f"{SEVERAL.number} steps of size {SEVERAL.size:g}",
            fits=f"{FITS:g}",
            skewed=" : ".join(f"{chance:g}" for chance in SKEWED),
            overlap=OVERLAP,
            beside=numbers(BESIDE),
            split=" : ".join(f"{share:g}" for share in SPLIT),
            bars=textwrap.fill(BARS, 120),
        )
    ]
    for word in words:
        sections.append(f"## {word}\n\n{_table([row for row in rows if row[0].word == word])}")
    sections.append(_LIMITS.format(step_size=STEP_SIZE, steps=STEPS, unseen=_unseen(rows)))
    if left_out:
        reasons = "\n".join(f"- `{name}`: {reason}." for name, reason in left_out.items())
        sections.append(f"Without a verdict:\n\n{reasons}")
    sections.append(f"This page is written by\n\n    {command}")
    return "\n\n".join(sections) + "\n"


def _table(rows: Sequence[Sequence[PublishedVerdict]]) -> str:
    heads = (
        "objectives",
        *(f"{name}: {numbers(rewards)}" for name, rewards in CASES.items()),
        "evidence",
        f"with {SEVERAL.number} steps on each batch",
        "on walks of two moves",
        "binary, beside another prompt",
    )
    lines = [heads]
    for row in rows:
        texts = row[0].texts
        cells = [
            "<br>".join(
                f"{side}: {cases[name]}" if len(texts) > 1 else cases[name]
                for side, cases in texts.items()
            )
            for name in CASES
        ]
        remarks = [REMARKS[entry.objective] for entry in row if entry.objective in REMARKS]
        evidence = "; ".join([row[0].evidence, *remarks])
        names = ", ".join(f"`{entry.objective}`" for entry in row)
        lines.append((names, *cells, evidence, *(_cell(row, column) for column in CHANGES)))
    return markdown(lines)


def _cell(row: Sequence[PublishedVerdict], column: str) -> str:
    """A line for each text of a column, with its objectives unless it is that of the whole row."""
    by_text: dict[str, list[str]] = {}
    for entry in row:
        by_text.setdefault(getattr(entry, column) or "-", []).append(f"`{entry.objective}`")
    if len(by_text) == 1:
        return next(iter(by_text))
    return "<br>".join(f"{', '.join(names)}: {text}" for text, names in by_text.items())


def _unseen(rows: Sequence[Sequence[PublishedVerdict]]) -> str:
    """Surrogates that have no effect here, with their objectives."""
    by_name: dict[str, list[str]] = {}
    for entry in (entry for row in rows for entry in row if entry.unseen):
        by_name.setdefault(entry.unseen, []).append(f"`{entry.objective}`")
    return (
        "; ".join(f"{surrogate} of {', '.join(names)}" for surrogate, names in by_name.items())
        or "none"
    )


def numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


_FRONT = """\
# What each objective does to the set of outcomes

A policy chooses one of three outcomes, an objective turns their rewards into training, and this page says where that
training takes the policy on average: do equally good outcomes survive together, or does one of them take all, only
because it was slightly more likely at the start? Every objective was run with its own code: the mean of its update over
all groups of {group_size} answers is exact, and it was followed from twelve policies, the orders of {starts},
until nothing moves, or for longer than anyone trains.

![Where training ends, for each objective and reward]({figure})

{bars}

The verdicts, and what they are good for:

{meanings}

The columns are the rewards of the three outcomes:

{rewards}

How to read a cell:

- `0.50 : 0.50 : 0`: the probabilities of the three outcomes where training ends, the same from all twelve starts. 0 is
  an outcome that is lost: below {lost}, or below {still_there} and still falling as a power of time at the end.
- `one of 2 outcomes`: one outcome takes all, and which of these two it is depends on the start.
- `stays where it is`: on average nothing moves, from any start.
- `depends on the start: ...`: the end differs from start to start; one example is given.
- `uniform: ...` and `skewed: ...`: the objective uses a reference policy, which is uniform in the first line and
  {skewed} in the second.

In the evidence, t is training time, updates x step size. `t^-0.5` says that a probability falls as one over the square
root of it: a hundred times the training leaves a tenth. `p ~ r^(1/2.00)` is the best fit of the ends by a power of the
rewards r, for unequal rewards and the partial tie together, and the residual its error in log p, which must be below
{fits} of the range of log p, and below that of a fit by exp(r / T); 1/1 is proportional to the reward, 1/2 to its
square root. The rate at which the slowest deviation fades is per unit of t.

The last three columns change one thing each. The first is of training that takes {several} on each
batch, so that importance ratios leave 1, and clips act. It is exact as well: the mean, over all groups, of where these
steps lead. A dash means that the objective has no importance ratio, or one that acts in the other columns, too.

The second is of answers of two tokens. The first, right or up, leaves two of the three outcomes possible. One of
them is possible after both, so that two of the four walks end in it; it is the third outcome, which is wrong where one
is. So outcomes can share alike, `full tie 0.33 : 0.33 : 0.33`, or their walks can, `full tie 0.25 : 0.25 : 0.50`, and
`p ~ n r^(1/1.00)` is proportional to the reward times the number n of walks. The flows start from six of the twelve
distributions, and the third outcome's two walks from {split}. `collapses` stands without its exponents, and the uniform
reference is one over tokens.

The third is of two prompts that share parameters: {overlap:g} of each update of one prompt's logits is an update of the
other's, too. The other prompt has rewards {beside}, so that it pulls to the first of two outcomes that are equally good
here. Shared parameters do not move the policies at which all prompts rest (`ipsrl.dynamics.shared_prompts` has the
proof), so where something keeps a tie, `0.50 : 0.50 : 0`, it does so in spite of the other prompt, unless an outcome is
so nearly lost that its return takes longer than anyone trains. Where nothing restores a tie, the other prompt decides
which outcome is lost, `1.00 : 0 : 0`.

Objectives whose rows would be the same share one."""

_LIMITS = """\
## Limits

- Three outcomes of one token, or of two on walks: nothing here shows what happens in long answers. An
  objective that needs a certain token finds it in the first outcome, if anywhere; on walks it is the move to the right.
- The mean over groups is exact, but it is a mean: single runs also drift by sampling noise, most where it is zero.
- The group size is fixed. Objectives that count outcomes lose the worst outcome if groups are too small.
  `ips_reinforce` and `ips_dr_grpo` get closer to r^1 in larger groups; `ips_grpo`, which divides by the std, does so
  only roughly: beside a reward of 1, one of 0.3 keeps 0.133, 0.204, 0.228, 0.224 at G = 8, 16, 32, 64 (0.231 is r^1).
- With one update on each batch the policy is the one that sampled it, and all importance ratios are 1. Then these
  surrogates are the plain policy gradient or a multiple of it, and their clips, weights and targets act with several
  steps only: {unseen}.
- Steps are infinitely small, except with several on each batch, where {steps} batches follow each other. Where the
  mean update jumps from one policy to the next and no flow exists, it was applied in {steps} steps of size
  {step_size:g}, and on walks, which are learned more slowly, in four times as many.
- The state that an objective carries between batches is the initial one: adaptive coefficients have their first value,
  running means are empty.
- Some objectives know only right and wrong, and count every reward above zero as right, as
  these cases state no other threshold: if no reward is zero, their
  cells show just that.
- An objective that needs off-policy answers uses half of the group as samples, and the other half for the best of
  the refinements."""
