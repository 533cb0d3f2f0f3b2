"""Colours, dashes and markers of lines, the same in figures and reports."""

from collections.abc import Iterable

# Okabe and Ito's colours, ordered so that neighbours differ in lightness; yellow is left out, it vanishes on white.
# Where a colour comes again, its line and its marker are others.
_STYLES = (
    ("#000000", "-", "o"),
    ("#E69F00", "--", "s"),
    ("#0072B2", "-.", "^"),
    ("#56B4E9", ":", "D"),
    ("#D55E00", (0, (5, 1)), "v"),
    ("#009E73", (0, (3, 1, 1, 1, 1, 1)), "P"),
    ("#CC79A7", (0, (1, 1)), "X"),
    ("#000000", "--", "*"),
    ("#E69F00", "-", "<"),
    ("#0072B2", ":", "p"),
    ("#56B4E9", "-", ">"),
    ("#D55E00", "-.", "h"),
)


def line_styles(names: Iterable[str]) -> dict[str, dict]:
    """Colour, line style and marker for each name, in order of first appearance, as keyword arguments of `Axes.plot`.

    Raises:
      ValueError: there are more names than distinguishable styles.
    """
    names = list(dict.fromkeys(names))
    if len(names) > len(_STYLES):
        raise ValueError(f"a figure can tell at most {len(_STYLES)} lines apart, not {len(names)}: draw fewer at once")
    return {n: {"color": c, "linestyle": line, "marker": m} for n, (c, line, m) in zip(names, _STYLES, strict=False)}
