"""A second reader of numbers, written from docs/answers.md without patterns."""

from tests.environments.slow_arithmetic import arithmetic_tree, exact, sides_of, tokens_of
from tests.environments.slow_text import (
    DIGITS,
    LETTERS,
    NoAnswer,
    all_in,
    is_word_sign,
    is_wordless,
    need,
    plain,
    skip_blanks,
    slow_answer,
    without_remark,
)

NEGATIONS = ("not", "no", "never", "cannot", "isn't", "aren't", "don't", "doesn't", "wasn't", "unknown")
CHANGING_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety dozen dozens score gross lakh lakhs crore hundred
hundreds thousand thousands million millions billion billions trillion trillions bn mn mio mil half halves third thirds
quarter quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths
hundredth hundredths thousandth thousandths st nd rd th plus minus times divided multiplied over or and nor than point
squared cubed factorial power root mod modulo pi double doubled twice thrice triple tripled remainder recurring
repeating about approximately roughly wrong incorrect false but except unless if maybe perhaps
"""
CHANGING = (*NEGATIONS, *CHANGING_WORDS.split())
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
VERB_WORDS = """
had has have are was were make makes made cost costs need needs take takes get gets earn earns pay pays sold
"""
VERBS = VERB_WORDS.split()


def slow_number(text):
    def last_line(text):
        line = text.rstrip().split("\n")[-1]
        try:
            lines = plain(line)
            need(lines and len(line) <= 4000)
            return number_of(lines)
        except NoAnswer:
            return None

    return slow_answer(
        text,
        ("result",),
        is_wordless,
        number_of,
        hashes=True,
        whole_without_marker=last_line,
    )


def number_of(lines):
    line = " ".join(lines)
    answer = without_remark(line)
    removed = line[len(answer) :].lstrip(" ,;")
    need(not (removed.startswith("(") and changes(removed)))
    for sign in "€£¥₹":
        answer = answer.replace(sign, " ")
    answer = without_codes(answer)
    answer = names_closed(answer)
    *sides, last = sides_of(answer)
    for i, side in enumerate(sides):
        if (i or side.strip()) and not is_name(side.strip()):
            quantity(side.strip())
    return quantity(without_verb(last.strip()))


def without_codes(text):
    for code in ("USD", "EUR", "GBP", "US"):
        place = text.find(code)
        while place >= 0:
            after = text[place + len(code) : place + len(code) + 1]
            if (not place or not is_word_sign(text[place - 1])) and after and after in " .-" + DIGITS:
                text = text[:place] + " " + text[place + len(code) :]
            place = text.find(code, place + 1)
    return text


def names_closed(text):
    """A colon behind a letter or a bracket as an equals sign."""
    out = ""
    for sign in text:
        before = out.rstrip(" ")[-1:]
        out = out.rstrip(" ") + "=" if sign == ":" and before and before in LETTERS + ")" else out + sign
    return out


def is_name(text):
    words = text.split()
    need_letters = [w.removesuffix(",") for w in words[:-1]]
    if not words or not all(w and w[0] in LETTERS and all(c in LETTERS + "'-" for c in w) for w in need_letters):
        return False
    last = words[-1]
    if len(last) in (2, 3) and last[-1] in DIGITS:
        last = last[0] if last[1:-1] in ("", "_") else last
    good = last[0] in LETTERS and all(c in LETTERS + "'-" for c in last)
    return good and not any(w.lower() in NEGATIONS for w in text.replace(",", " ").split())


def without_verb(text):
    """The text behind words that end with a verb."""
    words, place, found = 0, 0, 0
    while place < len(text) and text[place] in LETTERS:
        end = place
        while end < len(text) and text[end] in LETTERS + "'-":
            end += 1
        word, comma = text[place:end], text[end : end + 1] == ","
        after = skip_blanks(text, end + comma)
        if after == end + comma:
            break
        if word.lower() in VERBS and words and not comma:
            found = after
        words, place = words + 1, after
    return text[found:] if found and is_name(text[:found].strip()) else text


def changes(text):
    word, words = "", []
    for sign in text.lower() + " ":
        if sign in LETTERS + "'":
            word += sign
        else:
            words, word = [*words, word], ""
    return any(w in CHANGING for w in words)


def quantity(text):
    """The value of arithmetic and a unit."""
    start = 0
    while start < len(text):
        if text.startswith("\\frac", start):
            start += 5
        elif text[start] in DIGITS and exponent_length(text, start + 1):
            start += 1 + exponent_length(text, start + 1)
        elif (
            text[start] in "xX"
            and start
            and text[start - 1] in DIGITS + ")}] "
            and text[start + 1 : start + 2]
            in (
                " ",
                *DIGITS,
                "(",
                "\\",
            )
        ):
            start += 1
        elif text[start] in LETTERS + "%°¢":
            break
        else:
            start += 1
    before, unit = text[:start], text[start:]
    number = exact(arithmetic_tree(tokens_of(before.rstrip(" /") if unit else before)))
    if unit[:1] in ("%", "¢"):
        unit = unit[1:]
    elif unit[:1] == "°":
        unit = unit[1:].removeprefix("C").removeprefix("F")
    elif unit and (len(unit) == 1 or unit[1] not in LETTERS):
        need(before[-1] in " /")
    words = unit.replace("/", " ").replace("-", " ").split(" ")
    words = [word for word in words if word]
    while words and words[0].lower() in SCALES:
        number *= 10 ** SCALES[words.pop(0).lower()]
    for word in words:
        need(not changes(word))
        for power in ("^2", "^3", "^{2}", "^{3}", "²", "³"):
            word = word.removesuffix(power) if word.endswith(power) else word
        letters = word.removesuffix(".") if len(word) > 2 else word
        need(
            word.lower() in tuple("amgshl")
            or (len(letters) > 1 and letters[0] != "'" and all_in(letters, LETTERS + "'"))
        )
    return number


def exponent_length(text, place):
    if text[place : place + 1] not in ("e", "E"):
        return 0
    signed = text[place + 1 : place + 2] in ("+", "-")
    digits = 0
    while text[place + 1 + signed + digits : place + 2 + signed + digits] in tuple(DIGITS):
        digits += 1
    return 1 + signed + digits if digits else 0
