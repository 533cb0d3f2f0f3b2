"""Tables as text."""

from collections.abc import Sequence

from ipsrl.printable import printable


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Text of a table with aligned columns, two spaces apart; control characters are shown as JSON has them."""
    rows = [[printable(cell, kept="") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *others))
