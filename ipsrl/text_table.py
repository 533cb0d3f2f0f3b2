"""Tables as text."""

from collections.abc import Container, Sequence

from ipsrl.printable import printable


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> str:
    """Text of a table with aligned columns, two spaces apart; control characters are shown as JSON has them.

    Args:
      right: the numbers of columns whose cells end at the same place.
    """
    columns = [[printable(cell, kept="") for cell in column] for column in zip(*rows, strict=True)]
    for number, column in enumerate(columns):
        justify, width = str.rjust if number in right else str.ljust, max(map(len, column))
        columns[number] = [justify(cell, width) for cell in column]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *others))
