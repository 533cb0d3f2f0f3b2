"""Values that a kind must take and must refuse; a kind is what `allowed.py` writes down, such as `numbers? [0,1)`."""

import math
import re

VALUES = {
    "None": None,
    "bool": True,
    "whole": 3,
    "number": 2.5,
    "nan": math.nan,
    "inf": math.inf,
    "text": "none_such",
    "wholes": (3,),
    "numbers": (2.5,),
    "texts": ("none_such",),
    "Nones": (None,),
    "list": [3],
    "objects": [object()],
    "lists of objects": [[object()]],
    "dict": {},
    "function": len,
    "object": object(),
}
TUPLES = {"wholes", "numbers", "texts", "Nones"}
NUMERIC = {"bool", "whole", "number", "wholes", "numbers", "list"}
OF_THE_TYPE = {
    "number": {"whole", "number"},
    "numbers": {"wholes", "numbers"},
    "name": {"text"},
    "names": {"texts"},
    "seeds": {"wholes"},
    "path": {"text"},
    "tuple": TUPLES,
    "list": {*TUPLES, "list"},
    # What may be read but once is looked at by the function.
    "iterable": {*TUPLES, "list", "objects", "lists of objects", "dict"},
    "array": NUMERIC,
    "device array": {*NUMERIC, "nan", "inf"},
    "anything": {*VALUES},
    "pair": set(),
    "rows": set(),
    "object": set(),
}
"""Kind -> the values of its type, if there are others than the one of its name."""


def of_other_types(kind):
    """Values of other types than those of a kind, such as `array or whole?`."""
    kinds, optional = kind.removesuffix("?").split(" or "), kind.endswith("?")
    taken = set().union(*(OF_THE_TYPE.get(each, {each}) for each in kinds), {"None"} if optional else ())
    return [value for name, value in VALUES.items() if name not in taken]


def ends(limits, whole):
    """The numbers just inside and just outside of a range, such as `[0,1)`."""
    opening, low, high, closing = re.fullmatch(r"(.)(.+),(.+)(.)", limits).groups()
    inside, outside = [], []
    for text, included, away in ((low, opening == "[", -math.inf), (high, closing == "]", math.inf)):
        number = float(text)
        if math.isinf(number):
            inside.append(math.copysign(1e9, away))
            continue
        beyond, within = (
            number + math.copysign(1, to) if whole else math.nextafter(number, to) for to in (away, -away)
        )
        inside.append(number if included else within)
        outside.append(beyond if included else number)
    return ([*map(int, inside)], [*map(int, outside)]) if whole else (inside, outside)


def words_of(kind):
    """The texts that a kind such as `one of (a|b)` lists; none for other kinds."""
    return kind.removeprefix("one of ").strip("()").split("|") if kind.startswith("one of ") else []


def taken_and_refused(kind):
    """Values that a field of a kind must take, those of other types, and those of its type that it must refuse."""
    if words := words_of(kind):
        return words, of_other_types("text"), ["none_such"]
    kind, how, limits = re.fullmatch(r"([A-Za-z ]+?\??)( rising| 2)?(?: ([\[(].+))?", kind).groups()
    wrong = of_other_types(kind)
    if kind in ("name", "names"):
        return [], wrong, ["none_such" if kind == "name" else ("none_such",)]
    if kind == "seeds":
        return [(0, 2**31 - 1)], wrong, [(-1, 0), (0, 2**31), (1, 1), *[(0,)] * (how == " 2")]
    if not limits:
        return [], wrong, []
    inside, outside = ends(limits, kind.startswith("whole"))
    if how == " rising":
        low, high = inside
        return [(low, high)], wrong, [(high, low), (low, low), (outside[0], high), (low, outside[1])]
    length = {"wholes": 1, "numbers": 1, "pair": 2}.get(kind.removesuffix("?"))
    inside, outside = ([(number,) * length if length else number for number in some] for some in (inside, outside))
    return inside, wrong, outside
