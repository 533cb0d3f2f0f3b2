"""A page of claims: what is claimed, who says it, how it was tested, the verdicts, the numbers, and our doubts.

It has a section for each study whose docstring says under Arms what is compared, and under Doubt what would change our
mind. Sections stand in the order of their headings; those of studies that were not run again stay as they are.
"""

import re
from collections.abc import Mapping
from typing import Any

from ipsrl.study import claims
from ipsrl.study.study import OPTIONAL_HEADINGS, Study


def has_section(study: Study) -> bool:
    return set(OPTIONAL_HEADINGS) <= study.header.keys()


def section(study: Study, title: str, command: str, summary: Mapping[str, Any]) -> str:
    """The section of a finished run, as Markdown.

    Args:
      title: of the figure.
      command: repeats the run.
      summary: the contents of its summary.json.
    """
    verdicts = "\n".join(f"- **{claims.VERDICTS[held]}**: {sentence}" for sentence, held in summary["claims"].items())
    numbers = "\n".join(f"- {label}: {claims.as_text(number)}" for label, number in summary["numbers"].items())
    header = study.header
    return f"""\
## {title}

*Claim.* {header["Claim"]}

*Who says it.* {header["Paper"]}

*Arms.* {header["Arms"]}

{verdicts}

*What came out.* {header["Expected"]}

{numbers}

*What would change our mind.* {header["Doubt"]}

`{command}`"""


def merged(text: str, new: Mapping[str, str]) -> str:
    """The text of a page, between its marks: a table that counts verdicts, and the sections.

    Args:
      text: the present one.
      new: title -> section, in place of those with the same title.
    """
    old = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    sections = {each.partition("\n")[0].removeprefix("## "): each.strip() for each in old} | dict(new)
    counts = {
        title: [section.count(f"\n- **{word}**") for word in claims.VERDICTS.values()]
        for title, section in sections.items()
    }
    rows = [
        ["study", *claims.VERDICTS.values()],
        ["---"] * 4,
        *([title, *map(str, counts[title])] for title in sorted(counts)),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([table, *(sections[title] for title in sorted(sections))])
