"""What stands around a box: a second time, from docs/answers.md, without patterns. Only lists of words are ipsrl's."""

import itertools

from ipsrl.environments.answer_words import (
    ADDING_BEHIND_BOX,
    ALONE,
    AUXILIARIES,
    CHANGING,
    CHANGING_BEFORE_BOX,
    CHANGING_BEHIND_BOX,
    CHANGING_PAIRS,
    COPULAS,
    COUNTED,
    GIVING_PAIRS,
    HARMLESS_IN_SUBJECTS,
    LINKING_BEHIND_BOX,
    LINKING_TO_BOX,
    MISTAKES,
    NO_PLURALS,
    NUMBER_WORDS,
    OWN_WORDS,
    RATES,
    TOTALS,
    UNIT_SIGNS,
    UNITS,
    VERBS,
)
from tests.environments.slow_ranges import without_modulus, without_ranges
from tests.environments.slow_spelling import (
    DIGITS,
    LETTERS,
    NoAnswer,
    all_in,
    ends_word,
    is_word_sign,
    skip_blanks,
    skip_space,
)

ABBREVIATIONS = ("approx", "max", "min", "est", "ca", "vs", "resp")
WRAPPERS = ("text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "boldsymbol")
STARS = DIGITS + ")}]"


def is_free(text, place):
    """Whether no letter, digit or low line stands before a place."""
    return not place or not is_word_sign(text[place - 1])


def sentence_start(line):
    """Where the last sentence of a line begins: its end if a sentence is finished there."""
    start = 0
    for place, sign in enumerate(line):
        if sign in ".!?" and not is_abbreviated(line[:place]):
            after = place + 1
            while line[after : after + 1] in (")", "*", "_", "$"):
                after += 1
            begin = skip_space(line, after)
            if begin > after and may_begin_sentence(line[begin:]):
                start = begin
        after = skip_blanks(line, place + 1)
        if sign in ",;" and after > place + 1:
            behind = skip_blanks(line, after + 3)
            clause = behind if line.startswith("and", after) and behind > after + 3 else after
            for first in {after, clause}:
                for word in ("so", "thus", "hence", "therefore"):
                    if line.startswith(word, first) and ends_word(line, first + len(word)):
                        start = after
    return start


def is_abbreviated(text):
    return any(text.endswith(word) and is_free(text, len(text) - len(word)) for word in ABBREVIATIONS)


def may_begin_sentence(text):
    while text and (text[0].isspace() or text[0] in "$*_`" or text[:2] in ("\\(", "\\[")):
        text = text[1 if text[0] != "\\" else 2 :]
    return not text or text[0] in LETTERS + "∴=→⇒\\"


def unwrapped(before, behind):
    while behind.lstrip().startswith("}") and before.rstrip().endswith("{"):
        opening = before.rstrip()[:-1]
        command = opening.rstrip()
        wrapper = next((word for word in WRAPPERS if command.endswith("\\" + word)), None)
        if wrapper:
            opening = command.removesuffix("\\" + wrapper)
        elif opening and (is_word_sign(opening[-1]) or opening[-1] == "}"):
            break
        before, behind = opening, behind.lstrip()[1:]
    starred = before.endswith("*") and behind.startswith("*") and before[-2:] != "**" and behind[1:2] != "*"
    lead = before[:-1]
    operand = lead[-1:] in tuple(STARS) or (lead[-1:] == " " and lead[-2:-1] in (*STARS, "*"))
    follows = behind[1:].lstrip(" ")[:1]
    if starred and not operand and follows not in (*DIGITS, "(", "\\"):
        return lead, behind[1:]
    return before, behind


def is_factorial(behind):
    after = behind[1:].lstrip()
    return behind.startswith("!") and (after.startswith("$") or after[:2] in ("\\)", "\\]"))


def words_in(text):
    """The words, with apostrophes and hyphens, and the numbers of a text in small letters."""
    small, found, place = "abcdefghijklmnopqrstuvwxyz", [], 0
    while place < len(text):
        end = place
        if text[place].isdecimal():
            while text[end : end + 1].isdecimal():
                end += 1
        elif text[place] in small and is_free(text, place) and text[place - 1 : place] != "\\":
            while text[end : end + 1] and (
                text[end] in small or (text[end] in "'-" and text[end + 1 : end + 2] in tuple(small))
            ):
                end += 1
        found += [text[place:end]] if end > place else []
        place = max(end, place + 1)
    return found


def relation_at_end(text):
    """The equals sign, colon or arrow at the end of a text, with what stands before it."""
    stripped = text.rstrip()
    if stripped.endswith(">"):
        lead = stripped[:-1].rstrip("=-")
        return (">", lead) if len(lead) < len(stripped) - 1 else None
    for sign in ("∴", "\\therefore", "\\equiv", "≡"):
        if stripped.endswith(sign):
            return sign, stripped.removesuffix(sign)
    before = stripped[-2:-1]
    if stripped.endswith("=") and before not in (*"<>≤≥≠!=",):
        return "=", stripped[:-1]
    if stripped.endswith(":") and (stripped != text or not before.isdecimal()):
        return ":", stripped[:-1]
    return None


def harmless_before(text, answer, read):
    def read_or_none(side):
        try:
            return read(side.split("\n"))
        except NoAnswer:
            return None

    if text.rstrip().endswith(",") and "=" in text:
        return read_or_none(text.rstrip(" ,").split("=")[-1].strip()) == answer
    relation = relation_at_end(text)
    lead = relation[1] if relation else text.rstrip(" ,")
    side = lead.split("=")[-1].strip()
    if relation and relation[0] == "=":
        given = read_or_none(side)
        if given is not None and not (given == answer and any(sign.isdecimal() for sign in side)):
            return False
    small = lead.lower()
    if small and not relation:
        letters = len(small)
        while letters and small[letters - 1] in LETTERS:
            letters -= 1
        before = small[letters - 1 : letters] if letters else ""
        if letters == len(small) or (before and (is_word_sign(before) or before == "\\")):
            return False
    words = words_in(small)
    if any(word.startswith(MISTAKES) for word in words) or words[:1] == ["had"]:
        return False
    clause = words_in(small.replace(";", ",").replace(":", ",").split(",")[-1])
    chosen = clause if len(clause) > 1 else words
    return harmless_words_before(chosen + (["is"] if relation and words else []))


def changes(words, changing):
    pairs = [f"{words[i]} {words[i + 1]}" for i in range(len(words) - 1)]
    changed = any(word in changing or word.endswith("n't") or word.startswith(MISTAKES) for word in words)
    return changed or bool({*pairs} & {*CHANGING_PAIRS})


def counts(words):
    """Whether words say what is counted, without a word at their end that changes it."""
    counted = any(words[i] in COUNTED and words[i + 1] in ("of", "that") for i in range(len(words) - 1))
    return counted and not changes(words[-1:], CHANGING) and " ".join(words[-2:]) not in CHANGING_PAIRS


def harmless_words_before(words):
    if len(words) > 1 and words[-1] == "of" and words[-2] in TOTALS:
        words = words[:-2]
    if not words:
        return True
    if len(words) == 1 and words[0] not in ALONE and not words[0].endswith("'s"):
        return False
    pair = " ".join(words[-2:])
    if words[-1].endswith("fold") or pair == "to the" or (words[-1] in LINKING_TO_BOX and pair not in GIVING_PAIRS):
        return False
    if words[-1] in COPULAS and counts(words[:-1]):
        return True
    verb = max([i for i in range(len(words)) if words[i] in VERBS], default=0)
    for i in range(verb - 1):
        negated = words[i] == "not" and i > 1 and words[i - 2] == "who" and words[i - 1] in AUXILIARIES
        if words[i + 1] == "of" and not words[i + 2].isdecimal():
            continue
        divided = words[i] == "divided" and "when" in words[:i]
        if negated or divided or words[i] in HARMLESS_IN_SUBJECTS:
            words = [*words[:i], "", *words[i + 1 :]]
    words = [word for word in words if word]
    return not changes(words, CHANGING_BEFORE_BOX)


def harmless_words_behind(words):
    if words and words[0] in LINKING_BEHIND_BOX:
        return False
    if len(words) > 1 and words[1] in NUMBER_WORDS and (words[0] in RATES or is_unit_word(words[0])):
        return False
    if len(words) > 2 and words[:2] == ["is", "what"] and words[2] not in OWN_WORDS:
        return False
    for first, second in itertools.pairwise(words):
        if first in ("and", "times") and (second in ADDING_BEHIND_BOX or second.isdecimal()):
            return False
    return not changes(words, CHANGING_BEHIND_BOX)


def is_unit_word(word):
    small = word.lower()
    plural = len(small) > 3 and all_in(small, LETTERS) and small[-1] == "s" and small[-2] not in "isu"
    return word in UNIT_SIGNS or small in UNITS or (plural and small not in NO_PLURALS)


def behind_unit(text):
    place = skip_space(text, 0)
    if text[place : place + 1] == "%":
        return text[place + 1 :]
    if text[place : place + 1] != "°":
        return text
    after = skip_space(text, place + 1)
    if text[after : after + 1] in ("C", "F") and ends_word(text, after + 1):
        return text[after + 1 :]
    if ends_word(text, after):
        return text[after:]
    return text[place + 1 :] if after > place + 1 else text


def without_powers(text):
    out, place = "", 0
    while place < len(text):
        end = place
        if out[-1:] and out[-1] in LETTERS[:26]:
            if text[place] in "²³":
                end = place + 1
            elif text[place] == "^":
                braced = text[place + 1 : place + 2] == "{"
                digit = place + 1 + braced
                if text[digit : digit + 1] in ("2", "3"):
                    end = digit + 1 + (text[digit + 1 : digit + 2] == "}")
        if end > place and ends_word(text, end):
            place = end
            out += "\ue001"
        else:
            out, place = out + text[place], place + 1
    return out.replace("\ue001", "")


def end_of_sentence(text):
    for place, sign in enumerate(text):
        ends = sign in ".!?" and (place + 1 == len(text) or text[place + 1].isspace())
        if ends or (sign.isspace() and text[place + 1 :].startswith((":)", ";)", ":-)", ";-)"))):
            return place
    return len(text)


def is_label(lead):
    """Whether what stands before a box is only the letter or number of a question or choice."""
    while lead and (lead[0].isspace() or lead[0] in "*_"):
        lead = lead[1:]
    label = lead.rstrip()
    name = label[:-1]
    if lead == label or not label.endswith(")"):
        return False
    letter = name.removeprefix("(")
    return letter in tuple("ABCDEFGHabcdefgh") or (len(name) in (1, 2) and all_in(name, DIGITS))


def without_another(text, answer, read):
    """The text behind an answer without another number that it is not."""
    for opening, closing in ((", not ", ""), (" (not ", ")"), ("(not ", ")")):
        end = start = len(opening)
        while text[end : end + 1] and text[end] in DIGITS + ".,/-":
            end += 1
        while end > start and text[end - 1] not in DIGITS:
            end -= 1
        number = text[start:end]
        rest = text[end + len(closing) :]
        stops = not rest or rest[0].isspace() or (rest[0] in ".!" and (len(rest) == 1 or rest[1].isspace()))
        formed = number.removeprefix("-")[:1] in tuple(DIGITS) and "-" not in number[1:]
        if text.startswith(opening) and formed and text[end : end + len(closing)] == closing and stops:
            try:
                return rest if read([number]) != answer else text
            except NoAnswer:
                return text
    return text


def harmless_behind(text):
    if "\n" in text:
        return all(sign.isspace() or sign in ".,;:!)" for sign in text)
    text = behind_unit(text)
    if text[:1].isalnum() or text[:1] in ("-", "/") or (text[:1] in (".", ",", ":") and text[1:2].isdecimal()):
        return False
    if text[end_of_sentence(text) :].startswith("?"):
        return False
    text = without_ranges(without_modulus(text))
    text = text[: end_of_sentence(text)]
    text = without_powers(text)
    first = skip_space(text, 0)
    letter = text[first : first + 1]
    if letter and letter in LETTERS and ends_word(text, first + 1) and letter not in {*UNIT_SIGNS, "a"}:
        return False
    clause = text
    for place in range(len(text)):
        behind = text[place + 2 : place + 4]
        if text.startswith(", ", place) and len(behind) == 2 and all_in(behind, LETTERS):
            clause = text[:place]
            break
    allowed = all_in(clause, LETTERS + "' ,;:()/-") and not clause.startswith("'")
    return allowed and harmless_words_behind(words_in(text.lower()))
