"""Colours, dashes and markers of lines, the same in figures and reports."""

import itertools
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
    ("#E69F00", ":", "<"),
    ("#0072B2", ":", "p"),
    ("#56B4E9", "-", ">"),
    ("#D55E00", "-.", "h"),
)


FIXED = {
    "grpo": 0, "ips_grpo(floor=0.2)": 1, "progrpo": 2, "prior": 3, "ceiling of independent answers": 4, "placebo": 5,
    "darling": 6, "reinforce": 7, "ips_grpo": 8, "progrpo(reference=correct)": 9, "placebo(floor=0.2)": 11,
}  # fmt: skip
"""Names that many figures show, and the style that each has in all of them; GRPO is `grpo`, IPS-GRPO `ips_grpo`."""


def style_numbers(names: Iterable[str]) -> list[int]:
    """The style of each of several different names: its own in `FIXED`, or the next that no name here has, or any."""
    names = list(names)
    of_all = [FIXED.get(name.lower().replace("-", "_")) for name in names]
    numbers = [number if number not in of_all[:place] else None for place, number in enumerate(of_all)]
    left = itertools.chain(sorted(set(range(len(_STYLES))) - set(numbers)), itertools.cycle(range(len(_STYLES))))
    return [next(left) if number is None else number for number in numbers]


def line_styles(names: Iterable[str]) -> dict[str, dict]:
    """Colour, line style and marker for each name, as keyword arguments of `Axes.plot`; see `style_numbers`.

    Raises:
      ValueError: there are more names than distinguishable styles.
    """
    names = list(dict.fromkeys(names))
    if len(names) > len(_STYLES):
        raise ValueError(f"a figure can tell at most {len(_STYLES)} lines apart, not {len(names)}: draw fewer at once")
    looks = [dict(zip(("color", "linestyle", "marker"), style, strict=True)) for style in _STYLES]
    return {name: looks[number] for name, number in zip(names, style_numbers(names), strict=True)}
