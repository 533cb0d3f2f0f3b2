"""Is a verifier good enough to train with? `python scripts/audit_verifier.py answers.jsonl`.

    python scripts/audit_verifier.py answers.csv --pattern=topic
    python scripts/audit_verifier.py answers.jsonl --accepted=0.3

The file has a line for each labelled answer, JSON objects (.jsonl) or comma-separated values with a header (.csv), with
the fields `label`, whether the answer is truly right, and `verdict`, whether the verifier accepted it: true, false, 1
or 0. Prints the true positive rate TPR, the false positive rate FPR and J = TPR - FPR, posterior means with 95 %
intervals under Jeffreys' prior, and a decision:

go        J is above 0: training raises true accuracy, if errors do not depend on the answer (arXiv 2601.04411)
no-go     J is below 0
unclear   the interval of J holds 0: label more answers

--pattern=FIELD says what kind of answer it is and adds the rates of each kind. If wrong answers of a kind are accepted
more often than the others, intervals apart, the error is systematic: a second optimum, which a high J does not exclude.
It is said, too, if J of a kind is below 0; a decision to go then ends in "but".
--accepted=SHARE if answers were chosen by their verdict, to label enough of both: the share of all answers that the
verifier accepts. Rates change with the policy that answers: label again.
"""

import argparse
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.audit_verifier")

from ipsrl.checking.paths import require_readable
from ipsrl.command.ending import Ending
from ipsrl.measures.seeds import Interval
from ipsrl.text_table import aligned

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
SAMPLES = 200_000  # Of the posterior distribution of J, with a fixed seed.


def read(path: Path, fields: Sequence[str]) -> list[dict[str, Any]]:
    """The labelled answers, with `label` and `verdict` as true or false.

    Raises:
      ValueError: the file is not UTF-8, has no answers, or a line lacks a field or holds something else.
    """
    try:
        # Spreadsheets begin a file with a byte order mark, which is no part of the first field's name.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from None
    rows = _table(text) if path.suffix == ".csv" else _objects(text)
    if not rows:
        raise ValueError(f"{path} has no answers")
    for line, row in rows:
        if missing := [name for name in fields if row.get(name) is None]:
            found = ", ".join(str(name) for name in row if name is not None)
            raise ValueError(f"line {line} of {path} has no {missing[0]}; its fields are: {found}")
        for name in ("label", "verdict"):
            if (value := str(row[name]).strip().lower()) not in BOOLEANS:
                raise ValueError(f"{name} in line {line} of {path} is {row[name]!r}, it must be true, false, 1 or 0")
            row[name] = BOOLEANS[value]
    return [row for _, row in rows]


def _table(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Line numbers and rows of comma-separated values, without the blanks around names and values."""
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
    # A line that is too short has None for what it lacks, one that is too long a list of what is left over.
    return [
        (reader.line_num, {name: value.strip() if isinstance(value, str) else value for name, value in row.items()})
        for row in reader
    ]


def _objects(text: str) -> list[tuple[int, dict[str, Any]]]:
    return [(number, _object(line, number)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"line {number} is not a JSON object")
    return found


def rates(right: np.ndarray, accepted: np.ndarray, share: float | None = None) -> tuple[Interval | None, ...]:
    """TPR, FPR and J; None where no answer tells. The `seeds` of an interval are its answers.

    The posterior of each rate is Beta(k + 1/2, n - k + 1/2), k of n answers. With `share` these are P(right | verdict),
    and TPR and FPR follow by Bayes' rule.

    Args:
      right, accepted: `[N]` bool.
      share: of all answers that are accepted, if those here were chosen by their verdict.
    """
    given, counted = (right, accepted) if share is None else (accepted, right)
    random, posteriors = np.random.default_rng(0), []
    for chosen in (given, ~given):
        yes, no = (counted & chosen).sum(), (~counted & chosen).sum()
        posteriors.append(stats.beta(yes + 0.5, no + 0.5).rvs(SAMPLES, random_state=random) if yes + no else None)
    first, second = posteriors
    if share is not None and first is not None and second is not None:
        hits, misses = share * first, (1 - share) * second
        first, second = hits / (hits + misses), (share - hits) / (1 - hits - misses)
    youden = None if first is None or second is None else first - second
    return tuple(None if values is None else _interval(values, len(right)) for values in (first, second, youden))


def _interval(samples: np.ndarray, answers: int) -> Interval:
    low, high = np.quantile(samples, [0.025, 0.975]).tolist()
    return Interval(float(samples.mean()), low, high, answers)


def decision(youden: Interval | None) -> str:
    if youden is None or youden.low <= 0 <= youden.high:
        return "unclear"
    return "go" if youden.low > 0 else "no-go"


def report(answers: Sequence[Mapping[str, Any]], pattern: str = "", share: float | None = None) -> str:
    """The table of rates, what is wrong with kinds of answers, and the decision."""
    right, accepted = (np.array([answer[name] for answer in answers]) for name in ("label", "verdict"))
    kinds = np.array([str(answer[pattern]) for answer in answers] if pattern else [])
    whole = rates(right, accepted, share)
    table, errors = [("answers", "right", "wrong", "TPR", "FPR", "J"), _row("all", right, whole)], []
    for kind in np.unique(kinds):
        here = kinds == kind
        found, others = (rates(right[chosen], accepted[chosen]) for chosen in (here, ~here))
        table.append(_row(str(kind), right[here], found))
        if found[1] is not None and others[1] is not None and found[1].low > others[1].high:
            errors.append(f"systematic error: wrong answers of {kind} are accepted more often than others")
        if decision(found[2]) == "no-go":
            errors.append(f"J of {kind} is below 0: training lowers the true accuracy of such answers")
    decided = decision(whole[2])
    if errors and decided == "go":
        decided = "go, but see above: training also raises what the verifier wrongly accepts"
    return "\n".join([aligned(table), *errors, f"decision: {decided}"])


def _row(name: str, right: np.ndarray, found: Sequence[Interval | None]) -> list[str]:
    return [name, str(right.sum()), str((~right).sum()), *("-" if rate is None else str(rate) for rate in found)]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("answers", type=Path, metavar="FILE", help="labelled answers, .jsonl or .csv")
    made.add_argument("--pattern", default="", metavar="FIELD", help="a field that says what kind of answer it is")
    made.add_argument("--accepted", type=float, metavar="SHARE", help="of all answers, if these were chosen by verdict")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError if the file cannot be read, or a flag has no meaning with another."""
    for name in ("answers", "pattern"):
        require_readable(str(getattr(arguments, name)), name)
    if not arguments.answers.is_file():
        raise ValueError(f"there is no file {arguments.answers}")
    if arguments.answers.suffix not in (".jsonl", ".csv"):
        raise ValueError(f"{arguments.answers} must end in .jsonl or .csv")
    if arguments.accepted is not None and not 0 < arguments.accepted < 1:
        raise ValueError(f"--accepted is {arguments.accepted}, it must lie between 0 and 1")
    if arguments.accepted is not None and arguments.pattern:
        raise ValueError("--accepted is a share of all answers, so that kinds have no rates: leave out --pattern")


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    with Ending():
        check(arguments)
        fields = [name for name in (arguments.pattern, "label", "verdict") if name]
        print(report(read(arguments.answers, fields), arguments.pattern, arguments.accepted))


if __name__ == "__main__":
    main()
