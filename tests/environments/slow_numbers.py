"""A second reader of numbers, written from docs/answers.md without patterns."""

from ipsrl.environments.answer_words import BEFORE_VARIABLES, PREPOSITIONS, SCALE_WORDS
from tests.environments.slow_arithmetic import arithmetic_tree, exact, is_times, sides_of, tokens_of
from tests.environments.slow_boxes import counts, harmless_words_behind, is_unit_word, without_another
from tests.environments.slow_spelling import (
    DIGITS,
    LETTERS,
    NoAnswer,
    ends_word,
    first_name,
    is_word_sign,
    is_wordless,
    need,
    plain,
    skip_blanks,
    without_remark,
)
from tests.environments.slow_text import are_changing, first_word, slow_answer, without_introduction

REASONS = ("since", "because", "as", "using", "where", "which", "check", "rounded", "at", "on", "for", "from")
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}


def slow_number(text):
    def last_line(text):
        line = text.rstrip().split("\n")[-1]
        sentence = line[last_sentence(line) :]
        try:
            lines = plain(sentence if any(sign in DIGITS for sign in sentence) else line)
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
        withdraws=lambda line: first_name(line).removesuffix("s") in SCALE_WORDS,
    )


def last_sentence(line):
    """Where the last sentence of a line without a marker begins."""
    start = 0
    for place, sign in enumerate(line):
        after = skip_blanks(line, place + 1)
        if after == place + 1:
            continue
        before, behind = line[place - 1 : place] if place else "", line[after:]
        if sign in ".!?" and before:
            decoration = behind.lstrip('$*_`"(\\')
            if before in LETTERS + ")*$" or (before.isdecimal() and decoration[:1] and decoration[0] in LETTERS):
                start = after
        if sign in ",;":
            word = 0
            while behind[word : word + 1] and behind[word] in LETTERS:
                word += 1
            clause = behind[:word] in ("so", "thus", "hence", "therefore") and ends_word(behind, word)
            named = word > 1 and behind[:word].istitle() and behind[word : word + 1] in (" ", ":")
            if clause or named or (sign == ";" and word > 1 and behind[:2].islower()):
                start = after
    return start


def number_of(lines):
    line = " ".join(lines)
    for place in range(len(line)):
        rest = line[place:].removesuffix(".") if line.endswith(".") else line[place:].removesuffix("!")
        if rest.startswith((", not ", " (not ", "(not ")) and not without_another(rest, None, with_remark):
            number = with_remark([line[:place]])
            need(not without_another(rest, number, with_remark))
            return number
    return with_remark([line])


def with_remark(lines):
    line = " ".join(lines)
    answer = without_remark(line)
    removed = line[len(answer) :].lstrip(" ,;")
    inside, closing, _ = removed[1:].partition(")")
    if removed.startswith("(") and closing and "(" not in inside:
        number = value_of(answer)
        need(leaves(number, inside))
        return number
    opening = answer.rfind("(")
    before = answer[:opening].rstrip(" ,;")
    if answer.endswith(")") and opening > len(before) and ")" not in answer[opening:-1]:
        try:
            number = value_of(before)
        except NoAnswer:
            return value_of(answer)
        need(leaves(number, answer[opening + 1 : -1]))
        return number
    return value_of(answer)


def leaves(number, remark):
    """Whether parentheses leave the number before them as it is."""
    words = []
    place = 0
    while place < len(remark):
        end = place
        while remark[end : end + 1] and (
            (remark[end] in LETTERS and (end > place or remark[place - 1 : place] not in ("\\", *LETTERS)))
            or (end > place + 1 and remark[end] in "'-" and remark[end + 1 : end + 2] in tuple(LETTERS))
        ):
            end += 1
        words += [remark[place:end].lower()] if end > place + 1 else []
        place = max(end, place + 1)
    if is_unit(unit_words(remark)):
        return True
    if words:
        return (words[0] in REASONS or not set(remark) & set(DIGITS)) and harmless_words_behind(words)
    try:
        return number_of([remark]) == number
    except NoAnswer:
        return False


def value_of(answer):
    for sign in "€£¥₹":
        answer = answer.replace(sign, " ")
    answer = without_codes(answer)
    answer = names_closed(answer)
    *sides, last = [without_introduction(side.strip()) for side in sides_of(answer)]
    for i, side in enumerate(sides):
        if (i or side) and not is_name(side):
            quantity(side)
    if last[:1] == "(" and last[1:2] in tuple("ABCDEFGH") and last[2:4] == ") ":
        last = last[4:].lstrip(" ")
    return quantity(last)


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
    words = text.lower().split()
    if not words or (len(words) == 1 and words[0] in SCALE_WORDS):
        return False
    bare = [word.removesuffix(",") for word in words[:-1]] + words[-1:]
    if are_changing(bare) and not counts(bare):
        return False
    before, last = [word.removesuffix(",") for word in words[:-1]], words[-1]
    if not all(word and first_word(word) == word for word in before):
        return False
    index = last[1:].removeprefix("_") if len(last) > 2 else last[1:]
    if last[0] in LETTERS and (len(last) == 1 or index in tuple(DIGITS)):
        return all(word in BEFORE_VARIABLES for word in before)
    return first_word(last) == last


def unit_words(text):
    return [word for word in text.replace("/", " ").replace("-", " ").split(" ") if word]


def is_unit(words):
    for i, word in enumerate(words):
        for power in ("^2", "^3", "^{2}", "^{3}", "²", "³", "."):
            if word.endswith(power):
                word = word.removesuffix(power)
                break
        small = word.lower()
        if (small in ("square", "cubic") and i == len(words) - 1) or not is_unit_word(word):
            return False
    return True


def quantity(text):
    """The value of arithmetic and a unit."""
    start = 0
    while start < len(text):
        if text.startswith("\\frac", start):
            start += 5
        elif text[start] in DIGITS and exponent_length(text, start + 1):
            start += 1 + exponent_length(text, start + 1)
        elif is_times(text, start):
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
        unit = unit[1:].lstrip().removeprefix("C").removeprefix("F")
    elif unit and (len(unit) == 1 or unit[1] not in LETTERS):
        need(before[-1] in " /")
    words = unit_words(unit)
    while words and words[0].lower() in SCALES:
        number *= 10 ** SCALES[words.pop(0).lower()]
    end = 0
    while end < len(words) and words[end].lower() not in PREPOSITIONS:
        end += 1
    behind = [word.lower().rstrip(".,") for word in words[end:]]
    harmless = all(word and first_word(word) == word for word in behind) and harmless_words_behind(behind)
    need(is_unit(words) or (is_unit(words[:end]) and harmless))
    return number


def exponent_length(text, place):
    if text[place : place + 1] not in ("e", "E"):
        return 0
    signed = text[place + 1 : place + 2] in ("+", "-")
    digits = 0
    while text[place + 1 + signed + digits : place + 2 + signed + digits] in tuple(DIGITS):
        digits += 1
    return 1 + signed + digits if digits else 0
