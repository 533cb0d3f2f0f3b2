r"""Answers in the text of a language model: where an answer stands, and its signs in one spelling.

docs/answers.md states the rule.
"""

import collections
import re
import zlib
from collections.abc import Callable
from typing import Any

from ipsrl.environments.reading.answer_boxes import is_factorial, last_sentence, leaves_box, unwrapped
from ipsrl.environments.reading.answer_words import without_ending, without_introduction

# Far above what any answer needs; longer ones are no answers.
LONGEST_ANSWER = 4000
# Markers in the middle of sentences that may be passed over on the way to an answer.
MOST_MARKERS = 20
LONGEST_LEAD = 60

# A piece of a line without words: a LaTeX command, or a sign that is no letter.
SIGN = r"\\[a-zA-Z]*+|[ -@\[\]-`{-~⁰¹²³⁴-⁹⁺⁻¼-¾⅐-⅞√π±≤≥≈≠∧∨¬↓⊕]"
# A number before an operator is no bullet but an operand.
BULLET = re.compile(r"^(?:[-+*>]|#+|\d{1,2}[.)](?!\s+[-+*/]))\s+")
# A line below the words behind an answer that gives another answer.
WITHDRAWN = re.compile(rf"(?:{BULLET.pattern[1:]})?or\b", re.IGNORECASE)

# Unlike a dash, a minus sign belongs to what stands behind it, and is no bullet.
_MINUS = re.compile("[−﹣－] +")
_CHARACTERS = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys("−–—‒‐‑﹣", "-")
    | dict.fromkeys("×⋅·∗✕✖", "*")
    | dict.fromkeys("÷∕⁄", "/")
    | dict.fromkeys("→⟶⇒➔➜⟹↦", "->")
    | dict.fromkeys("\t\r\v\f\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000", " ")
    | dict.fromkeys('“”„‟«»‹›"´✓✔✅•‣◦▪●', " ")
    | dict.fromkeys("‘’", "'")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\ufe0f", None)
)
_COMMANDS = (
    dict.fromkeys(("times", "cdot", "ast"), "*")
    | {"div": "/", "dfrac": r"\frac", "tfrac": r"\frac", "cfrac": r"\frac"}
    | dict.fromkeys(("land", "wedge"), "∧")
    | dict.fromkeys(("lor", "vee"), "∨")
    | dict.fromkeys(("neg", "lnot"), "¬")
    | {"downarrow": "↓", "emptyset": "∅", "varnothing": "∅"}
    | dict.fromkeys(("to", "rightarrow", "longrightarrow", "Rightarrow", "implies"), "->")
    | dict.fromkeys(("left", "right", "displaystyle", "quad", "qquad", "blacksquare", "square", "qed"), " ")
)
# Pictures; the arrows, check marks and crosses among them have been translated.
_PICTURE = "[\u2600-\u27bf\u2b00-\u2bff\u25a0-\u25ff\u220e\U0001f000-\U0001faff]"
# A tie between a number, which may be in a box, and its unit.
_TIE = re.compile(r"(?<=[0-9\ue000])(?P<opening>(?:\\[,;]| )*(?:\\(?:text|textrm|mathrm)\s*\{)?)~(?=\\?[a-zA-Z])")
_SPELLINGS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\\\\"), "\n"),
    (re.compile(_PICTURE), " "),
    (_TIE, r"\g<opening> "),
    # The columns of LaTeX's aligned equations.
    (re.compile(r"&(?= ?=)"), " "),
    (re.compile(r"\^ *(?:\\circ(?![a-zA-Z])|\{ *\\circ *\})"), "°"),
    (re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|operatorname)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:begin|end)\s*\{[a-z]*\*?\}"), " "),
    (re.compile(r"\\([a-zA-Z]+)"), lambda match: _COMMANDS.get(match[1], match[0])),
    # A negative space takes blanks away: 10,\!000 is how MATH writes thousands.
    (re.compile(r"\\! *"), ""),
    (re.compile(r"\\[,;: ()\[\]]"), " "),
    (re.compile(r"\\([{}*_#&%$+\-])"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<=[a-zA-Z]) +\^"), "^"),
    (re.compile(r"</?(?:b|i|u|em|strong|code|pre|p|div|span|br|center) ?/?>", re.IGNORECASE), " "),
    (re.compile(r"```(?:[a-zA-Z]+(?=\n))?"), " "),
    # A power stands between operands, with a blank on both sides or on neither; every other ** is bold type.
    (re.compile(r"(?<=[\d)}\]])(?:\*\*| \*\* )(?=[\d({\-])"), "^"),
    (re.compile(r"\*{2,}|__|[`$]"), " "),
    # Between operands a star is a product, also without a blank on one side.
    (
        re.compile(r"(?<![^\s:=(])(?<![\d)}\]])(?<![\d)}\]] )\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w(*])"),
        r" \1 ",
    ),
    (re.compile(r"(?<!\w)_|_(?!\w)"), " "),
    # Single quotation marks come in pairs: x' is a negation, and 1'000 a number.
    (re.compile(r"(?<!\w)'([^'\n]*)'(?!\w)"), r" \1 "),
)
_RULE = re.compile(r"[-=*~#\s]{3,}")
_EMPHASIS = re.compile(r"^\*(?! )(.*[^ *])\*$")
_OPERATORS = r"(?:and|or|not|nor|no)\b"
_WORD = rf"\b(?!{_OPERATORS})[a-z']{{2,}}"
_REMARKS = (
    re.compile(rf"\. +(?:i\b|{_WORD}).*", re.IGNORECASE),
    re.compile(r"[,;]? +(?:which|because|since|as|using|where)\b.*", re.IGNORECASE),
    re.compile(rf"[,;]? +\((?=[^()]*{_WORD})[^()]*\)[.]?$", re.IGNORECASE),
)
_LEAD = re.compile(
    r"[\W_]*(?:\d{1,2}[.)]\s+[\W_]*)?(?:(?:so|thus|hence|therefore)[\W_]+)?"
    r"(?:(?:(?:the|my|our)[\W_]+)?(?:final|correct|best)[\W_]+|(?:my|our)[\W_]+)?",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"[\s*_]*(?:not|wrong|incorrect|unknown)\b", re.IGNORECASE)
_DECORATED = re.compile(
    r"(?P<fence>```|~~~)(?:[\w+-]*[ \t\r]*\n)?(?P<text>(?:(?!(?P=fence)).)*)(?P=fence)|"
    r"(?P<mark>``?|\*\*)(?P<inside>(?:(?!(?P=mark)).)*)(?P=mark)",
    re.DOTALL,
)
_END_TAG = re.compile("</answer>", re.IGNORECASE)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# Of a box within a box, whose braces are its only ones but some pairs.
_NESTED = re.compile(
    r"\\(?:boxed|fbox)\s{0,9}\{\s{0,9}(\\(?:boxed|fbox)\s{0,9}\{(?:[^{}]|\{[^{}]{0,50}\}){0,100}\})\s{0,9}\}"
)
# Stands for a box in its sentence; private use.
_BOX = "\ue000"
# A line break beside an operator ends nothing; bold type, rules and the brackets of LaTeX are no operators.
_BREAK_IN_FORMULA = re.compile(
    r"(?:(?<![-*=\\])[-+*/×÷−·=^(\[{]|\\(?:times|cdot|div))\n|[\d)\]}]\n(?!\*\*)[-+*/×÷−·=^]"
)


def marker(*titles: str, signs: str = "") -> re.Pattern[str]:
    r"""The pattern of the places after which an answer stands.

    These are `<answer>`, `\boxed{`, and "answer" or one of the titles before a colon, an equals sign, "is" or the end
    of its line, in any case.

    Args:
      *titles: patterns of words beside "answer".
      signs: pattern of further markers, if any.
    """
    words = "|".join(("answer", *titles))
    return re.compile(
        rf"(?P<tag><answer>)|(?P<box>\\(?:boxed|fbox)\s{{0,9}}\{{){signs and f'|{signs}'}|"
        rf"(?:\b|(?<=\b_))(?:{words})\b(?: (?:to|for)(?: [a-z]{{1,15}}){{1,6}}(?= is\b|:))?"
        r"[ *_`})]{0,9}(?:[:：](?:[*_](?= ))?|=|is\b(?: *:)?|(?P<heading>(?=\n)))",
        re.IGNORECASE,
    )


def last_answer(
    marker: re.Pattern[str],
    goes_on: re.Pattern[str],
    read: Callable[[str], Any],
    text: str,
    withdrawn: re.Pattern[str] = WITHDRAWN,
) -> Any:
    """`read` of the answer after the last marker, None if there is none.

    Thoughts, between `<think>` and `</think>`, are not read. If no answer follows the last marker, there is none; but a
    marker behind other words on its line, unless it is a box or "not" follows, is then part of a sentence, and the
    marker before it counts. What a box holds counts if its sentence, with the box replaced by what it holds, gives the
    same answer, or if nothing in the sentence changes it.

    Args:
      marker: from `marker`.
      goes_on: of a line that belongs to the answer above it.
      read: parses a whole answer in plain spelling, whose lines are neither blank nor padded.
      text: of any length; an answer of more than 4000 characters is none.
      withdrawn: of the beginning of a line below the answer that leaves none.
    """
    text = _NESTED.sub(r"\1", without_thoughts(text))
    places = collections.deque(marker.finditer(text), maxlen=MOST_MARKERS + 1)
    ends_before = [0, *(place.end() for place in places)]
    for place, end_before in [*zip(places, ends_before, strict=False)][: -MOST_MARKERS - 1 : -1]:
        begins = _begins_line(text, place.start())
        if place["heading"] is not None and not begins:
            continue
        if place["box"] is not None:
            return _read_box(text, place, end_before, goes_on, withdrawn, read)
        rest = text[place.end() : place.end() + LONGEST_ANSWER + 1]
        answer = _read_after(rest, place["tag"], goes_on, withdrawn, read)
        if answer is not None or begins or _NEGATED.match(rest):
            return answer
    return None


OPENS_THOUGHT, CLOSES_THOUGHT = "<think>", "</think>"
TAGS = (OPENS_THOUGHT, CLOSES_THOUGHT, "<answer>", "</answer>")


def is_tag(text: str) -> bool:
    """Whether a text is a tag around thoughts or answers, which is read also where it ends an answer."""
    return text.strip().lower() in TAGS


def without_thoughts(text: str) -> str:
    """The text behind the last `</think>`, up to a `<think>` that is not closed."""
    return text.rpartition(CLOSES_THOUGHT)[2].partition(OPENS_THOUGHT)[0]


def ends_in_thought(text: str) -> bool:
    """Whether a `<think>` is not closed."""
    return OPENS_THOUGHT in text.rpartition(CLOSES_THOUGHT)[2]


def tagged_answer(read: Callable[[str], Any], text: str) -> Any:
    """`read` of the words between the last pair of answer tags, None if there are none or too many.

    Unlike `last_answer` it leaves their spelling alone: blanks, underscores and line breaks may be the answer. Only a
    fence, back-quotes and bold type around the whole of it are taken off.
    """
    before, closing, _ = without_thoughts(text).rpartition("</answer>")
    _, opening, answer = before.rpartition("<answer>")
    answer = _undecorated(answer.strip())
    return read(answer) if opening and closing and 0 < len(answer) <= LONGEST_ANSWER else None


def _undecorated(text: str) -> str:
    """The text without decoration that begins and ends it, and stands nowhere else in it."""
    while inner := _DECORATED.fullmatch(text):
        text = (inner["text"] or inner["inside"] or "").strip()
    return text


def plain_lines(text: str) -> list[str]:
    """The lines of a text in plain spelling, without decoration, blank lines and rules."""
    text = _MINUS.sub("-", text).translate(_CHARACTERS)
    for spelling, plain in _SPELLINGS:
        text = spelling.sub(plain, text)
    # An answer never begins with a closing bracket: it closes what stands before the marker.
    lines = [line.strip() for line in text.lstrip(" \n})]:").split("\n")]
    return [_EMPHASIS.sub(r"\1", line) for line in lines if line and not _RULE.fullmatch(line)]


def without_remark(line: str) -> str:
    """The line without a sentence, a clause or words in parentheses that follow an answer, and without a full stop."""
    for remark in _REMARKS:
        line = remark.sub("", line, count=1)
    return line.removesuffix(".").rstrip(" ,;")


def _begins_line(text: str, start: int) -> bool:
    """Whether nothing but decoration, or words such as "my final", stands before a marker on its line."""
    _, line_break, lead = text[max(0, start - LONGEST_LEAD) : start].rpartition("\n")
    return (bool(line_break) or start <= LONGEST_LEAD) and _LEAD.fullmatch(lead) is not None


def _read_box(
    text: str,
    place: re.Match[str],
    end_before: int,
    goes_on: re.Pattern[str],
    withdrawn: re.Pattern[str],
    read: Callable[[str], Any],
) -> Any:
    rest = text[place.end() : place.end() + 2 * LONGEST_ANSWER]
    end = _end_of_box(rest[:LONGEST_ANSWER])
    if end is None:
        return None
    answer = read_lines(plain_lines(rest[:end]), read)
    before = text[max(end_before, place.start() - LONGEST_ANSWER) : place.start()]
    before = _last_sentence(before if end_before else "\n" + before)
    before, behind = unwrapped(before, rest[end + 1 :])
    if answer is None or is_factorial(behind) or before.rstrip(" {").endswith(("^", "_")):
        return None

    def read_sentence(lines: str) -> Any:
        return read(without_ending(without_introduction(lines)))

    if answer == _read_after(before + rest[:end] + behind, None, goes_on, withdrawn, read_sentence):
        return answer
    lines = _extent(plain_lines(_BOX + _END_TAG.split(behind, maxsplit=1)[0]), goes_on, withdrawn)
    lead = "".join(plain_lines(before + _BOX)).removesuffix(_BOX)
    if lines is None or not leaves_box(lead, "\n".join(lines).removeprefix(_BOX), answer, read):
        return None
    return answer


def _last_sentence(text: str) -> str:
    """The sentence at the end of a text: of its last line, and of lines above it that end within a formula."""
    *above, line = text.split("\n")
    # A quotation; within a formula it is "greater than".
    if line.strip() == ">" and above and (not above[-1].strip() or above[-1].lstrip().startswith(">")):
        return ""
    lines = [line]
    above = [line for line in above if line.strip(" $")]
    while above and _BREAK_IN_FORMULA.search(f"{above[-1].rstrip(' $')[-9:]}\n{lines[-1].lstrip(' $&')[:2]}"):
        lines.append(above.pop())
    return last_sentence(" ".join(reversed(lines)))


def _read_after(
    text: str, tag: str | None, goes_on: re.Pattern[str], withdrawn: re.Pattern[str], read: Callable[[str], Any]
) -> Any:
    rest = text[:LONGEST_ANSWER]
    end_tag = _END_TAG.search(rest)
    is_cut = not end_tag and len(text) > LONGEST_ANSWER
    lines = plain_lines(rest[: end_tag.start()] if end_tag else rest)
    if not (end_tag and tag):
        lines = _extent(lines, goes_on, withdrawn, is_cut)
    return None if lines is None else read_lines(lines, read)


def _extent(
    lines: list[str], goes_on: re.Pattern[str], withdrawn: re.Pattern[str], is_cut: bool = False
) -> list[str] | None:
    """The first line and those below it that belong to it, None if one below withdraws it or its end is cut off."""
    below = [goes_on.fullmatch(without_remark(line)) is not None for line in lines[1:]]
    if is_cut and all(below):
        return None
    end = [*below, False].index(False) + 1
    return None if any(map(withdrawn.match, lines[end:])) else lines[:end]


def read_lines(lines: list[str], read: Callable[[str], Any]) -> Any:
    """`read` of the lines, None if there are none."""
    return read("\n".join(lines)) if lines else None


def checksum(text: str) -> int:
    """The CRC-32 of a text, which may have half a character, as the cut answers of models do."""
    return zlib.crc32(text.encode(errors="surrogatepass"))


def _end_of_box(rest: str) -> int | None:
    """Position of the brace that closes a box, None if it is not closed."""
    depth = 1
    for brace in _BRACE.finditer(rest):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return None
