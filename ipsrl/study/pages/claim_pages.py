"""Pages of claims: an index by subject with a row for each study, and a page for each study, made of its results.

A study with a `HEADLINE` is a folder, in which `result.json` keeps what its last published run found: each claim with
its verdict and the number that decides, the other main numbers, and the values of all curves at the end. Pages are made
of that and of the study's header, so that words can be mended without a run.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipsrl.records.json_files import read_json, replace_file
from ipsrl.records.tidy import Records
from ipsrl.study.claims import ERROR, VERDICTS, Claim, as_text, decision
from ipsrl.study.pages import published
from ipsrl.study.settings import Settings
from ipsrl.text_table import markdown

if TYPE_CHECKING:
    from ipsrl.study.study import Study

RESULT = "result.json"
LONGEST_CLAIM = 20
"""Words of a headline."""
SUBJECTS = (
    "Collapse and its causes",
    "Collapse as a dynamical system",
    "Entropy and exploration",
    "Clips and stale data",
    "Groups, prompts and budgets",
    "Verifiers and reward models",
    "Thinking, planning and computation at test time",
    "Imitation, critiques and preferences",
    "Agents that search or talk",
    "Molecules and combinatorial outcomes",
    "Theories next door",
)
MIXED = "mixed"


@dataclasses.dataclass(frozen=True)
class Headline:
    """The paper's claim that a study tests, and what decides it.

    Attributes:
      subject: one of `SUBJECTS`.
      claim: what the paper claims, in one sentence of at most 20 words.
      scope: where we tried it, in a few words.
      decided_by: sentences of CLAIMS, its parts.
    """

    subject: str
    claim: str
    scope: str
    decided_by: tuple[str, ...]

    def __post_init__(self):
        if self.subject not in SUBJECTS:
            raise ValueError(f"the headline's subject is {self.subject!r}, it must be one of {', '.join(SUBJECTS)}")
        if len(self.claim.split()) > LONGEST_CLAIM:
            raise ValueError(f"the headline {self.claim!r} has more than {LONGEST_CLAIM} words: shorten it")
        if not self.decided_by:
            raise ValueError(f"nothing decides the headline {self.claim!r}: name sentences of CLAIMS")

    def verdict(self, claims: Mapping[str, Claim], records: Records) -> str:
        """The verdict on the paper's claim: that of `every` part, or `MIXED` if it is refuted and a part supported.

        As one refuted part is enough, each is tried at `ERROR` divided by their number, so that a part that is refuted
        by itself may leave the whole undecided.
        """
        parts = [claims[sentence] for sentence in self.decided_by]
        held = [decision(part, records).verdict for part in parts]
        if any(decision(part, records, ERROR / len(parts)).verdict is False for part in parts):
            return MIXED if True in held else VERDICTS[False]
        return VERDICTS[True if all(held) else None]


def result(study: "Study", settings: Settings, summary: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The contents of `result.json` for a finished run of these settings with its summary; the command repeats it."""
    deciding = summary["decisive"]
    return {
        "command": command,
        "date": date.today().isoformat(),
        "made_of": published.inputs(study, settings),
        "verdict": summary["headline"],
        "claims": {
            sentence: {"verdict": VERDICTS[held], **deciding.get(sentence, {})}
            for sentence, held in summary["claims"].items()
        },
        "numbers": summary["numbers"],
        "paper": summary["paper"],
        "final": rounded(summary["final"]),
    }


def rounded(value: Any) -> Any:
    """JSON values with six digits of each number: more say nothing beside an interval, and double the file."""
    match value:
        case dict():
            return {name: rounded(inner) for name, inner in value.items()}
        case list():
            return [rounded(inner) for inner in value]
        case float():
            return float(f"{value:.6g}")
    return value


def result_path(study: "Study") -> Path:
    """The path of a study's `result.json`.

    Raises:
      ValueError: the study is no folder.
    """
    module = Path(inspect.getfile(study.module))
    if module.name != "__init__.py":
        raise ValueError(f"{study.name} has a headline, but no folder for its results: make {module.stem}/ of {module}")
    return module.parent / RESULT


def has_page(study: "Study", figure: str) -> bool:
    """Whether a figure is that of a page: the first of a study with a headline; others have rows in docs/figures.md."""
    return study.headline is not None and figure == next(iter(study.variants))


def write(folder: Path, studies: Iterable["Study"]) -> list[Path]:
    """Writes a page for each study with a headline and results, and the index of all; returns their paths."""
    pages, rows = [], {}
    for study in studies:
        if study.headline is not None and result_path(study).exists():
            found = read_json(result_path(study))
            pages.append(folder / f"{study.name}.md")
            replace_file(pages[-1], page(study, study.headline, found, folder))
            rows.setdefault(study.headline.subject, []).append(row(study, study.headline, found))
    replace_file(folder / "index.md", index(rows))
    return [*pages, folder / "index.md"]


def index(rows: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """The index: a table for each subject."""
    tables = [f"## {subject}\n\n{table(rows[subject])}" for subject in SUBJECTS if subject in rows]
    return "\n\n".join([INTRODUCTION, *tables]) + "\n"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of studies under their heading."""
    return markdown([("claim", "verdict", "number that decides", "scope"), *rows])


INTRODUCTION = """\
# Claims of the field

Each row is a claim of a paper, or of ours, tested by a study of ours, and links to the study's page. **Supported** and
**refuted** say that the interval of the number that decides lies on one side of its limit, with five seeds or more; a
number without an interval is exact. **Undecided**: it does not. The interval is one of 95 %, and wider where one of
several numbers is enough to decide, by Bonferroni's correction. A claim of several parts is **supported** if all are,
**refuted** if one is and none is supported, and **mixed** if some are supported and some refuted; a part that is
refuted by itself, but not as one of several, leaves it undecided. The sentence behind a number is the part that it
decides, and its page says what the number is; limits are ours. Intervals are those of Student's t over seeds, which
know no bounds and may reach beyond what a value can be, such as an accuracy of 1, and exact binomial ones for shares of
runs. Verdicts hold for the small models named under scope; each page ends with what could change in larger ones.
This page and all others here are written by `scripts/reproduce_figures.py --claims=docs/claims`."""


def row(study: "Study", headline: Headline, found: Mapping[str, Any]) -> Sequence[str]:
    """The cells of the study's row in the index."""
    verdict = found["verdict"]
    # Of mixed parts a refuted one is shown.
    shown = VERDICTS[False] if verdict == MIXED else verdict
    deciding = [(sentence, found["claims"][sentence]) for sentence in headline.decided_by]
    # Where none has the verdict of all, the first.
    deciding.sort(key=lambda part: part[1]["verdict"] != shown)
    numbers = [
        f"{as_text(claim)}, true if {claim['claimed']}: {sentence}" for sentence, claim in deciding if "mean" in claim
    ]
    return (
        f"[{headline.claim}]({study.name}.md) ({paper_link(study)})",
        f"**{verdict}**",
        numbers[0] if numbers else "",
        headline.scope,
    )


def paper_link(study: "Study") -> str:
    """A link to the first paper that the header names, which a claim of ours comes after."""
    words = study.header["Paper"]
    found = re.search(r"\d{4}\.\d{5}", words)
    if found is None:
        return "our own"
    after = "ours, after " if words.startswith("Ours") else ""
    return f"{after}[{found[0]}](https://arxiv.org/abs/{found[0]})"


def page(study: "Study", headline: Headline, found: Mapping[str, Any], folder: Path) -> str:
    """The page of a study; its picture is the first figure."""
    title = next(iter(study.variants.values())).shows
    header, claims = study.header, found["claims"]
    deciding = [(each, claims[each]["verdict"], number(claims[each])) for each in headline.decided_by]
    others = [each["verdict"] for sentence, each in claims.items() if sentence not in headline.decided_by]
    counted = ", ".join(f"{others.count(word)} {word}" for word in VERDICTS.values() if word in others)
    figure = f"![{title}]({study.name}.png)" if (folder / f"{study.name}.png").exists() else ""
    parts = (
        f"# {headline.claim}",
        f"**{found['verdict'].capitalize()}** on {headline.scope} ({paper_link(study)}).",
        figure,
        markdown([("what decides", "verdict", "number"), *deciding]),
        f"Other claims: {counted}, in `experiments/{study.name}/{RESULT}`." if others else "",
        f"**What came out.** {header['Expected']}",
        f"**The claim.** {header['Claim']}",
        f"**Who says it.** {header['Paper']}",
        f"**What is compared.** {header['Arms']}",
        f"**What would change our mind.** {header['Doubt']}",
        f"Run on {found['date']}: `{found['command']}`",
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def number(claim: Mapping[str, Any]) -> str:
    """The number that decides a claim, what it is of, and from how many seeds."""
    if "mean" not in claim:
        return "not recorded, or too few seeds"
    seeds = f", {claim['seeds']} seeds" if claim["seeds"] else ""
    return f"{as_text(claim)}, true if {claim['claimed']}: {claim['of']}{seeds}"
