"""Where an answer stands: a second time, from docs/answers.md, without patterns.

Only the lists of words are those of ipsrl.
"""

from ipsrl.environments.answer_words import CHANGING, ENDINGS, INTRODUCING, INTRODUCING_PAIRS
from tests.environments.slow_boxes import (
    changes,
    harmless_before,
    harmless_behind,
    is_factorial,
    is_label,
    sentence_start,
    unwrapped,
    without_another,
)
from tests.environments.slow_ranges import without_bare_modulus
from tests.environments.slow_spelling import (
    DIGITS,
    LETTERS,
    NoAnswer,
    ends_word,
    first_name,
    is_word_sign,
    need,
    plain,
    skip_blanks,
    skip_space,
    without_bullet,
    without_remark,
)

# Stands for a box.
BOX = "\ue000"


def slow_answer(text, titles, line_belongs, read, hashes=False, whole_without_marker=None, withdraws=None):
    """What `read`, a function that raises NoAnswer, makes of the answer in a text."""

    def is_withdrawn(line):
        return first_name(without_bullet(line)) == "or" or (withdraws is not None and withdraws(line))

    if "</think>" in text:
        text = text[text.rindex("</think>") + len("</think>") :]
    if "<think>" in text:
        text = text[: text.index("<think>")]
    text = without_nested_boxes(text)
    found = markers(text, ("answer", *titles), hashes)
    if not found:
        return whole_without_marker(text) if whole_without_marker else None
    for i in range(len(found) - 1, max(-1, len(found) - 21), -1):
        kind, start, end = found[i]
        at_start = begins_line(text, start)
        if kind == "heading" and not at_start:
            continue
        try:
            if kind == "box":
                return read_box(text, found[i - 1][2] if i else 0, start, end, line_belongs, is_withdrawn, read)
            return read(extent(text[end:], kind, line_belongs, is_withdrawn))
        except NoAnswer:
            if at_start or kind == "box" or is_negated(text[end:]):
                return None
    return None


def without_nested_boxes(text):
    """The text with only the inner one of a box that holds nothing but a box."""
    place = 0
    while place < len(text):
        inner = behind_box(text, place)
        inside = inner and behind_box(text, inner)
        depth, end = 1, inside
        while inside and depth and end < len(text) and depth < 3:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        closing = end and skip_space(text, end)
        if inside and not depth and closing - end < 10 and text[closing : closing + 1] == "}":
            text = text[:place] + text[inner:end] + text[closing + 1 :]
            place += end - inner
        else:
            place += 1
    return text


def behind_box(text, place):
    r"""The place behind "\boxed{" and blanks, 0 if there is none."""
    for box in ("\\boxed", "\\fbox"):
        after = place + len(box)
        opening = skip_space(text, after)
        if text.startswith(box, place) and opening - after < 10 and text[opening : opening + 1] == "{":
            start = skip_space(text, opening + 1)
            return start if start - opening < 11 else 0
    return 0


def markers(text, words, hashes):
    found, small, place = [], text.lower(), 0
    while place < len(text):
        kind, end = marker_at(small, place, words, hashes)
        if kind:
            found.append((kind, place, end))
        place = max(place + 1, end)
    return found


def marker_at(small, place, words, hashes):
    rest = small[place:]
    if rest.startswith("<answer>"):
        return "tag", place + 8
    for box in ("\\boxed", "\\fbox"):
        after = rest[len(box) :]
        blanks = len(after) - len(after.lstrip())
        if rest.startswith(box) and blanks <= 9 and after.lstrip().startswith("{"):
            return "box", place + len(box) + blanks + 1
    if hashes and rest.startswith("####"):
        return "open", place + 4
    for word in words:
        stressed = small[place - 1 : place] == "_" and (place < 2 or not is_word_sign(small[place - 2]))
        if not rest.startswith(word) or (place and is_word_sign(small[place - 1]) and not stressed):
            continue
        end = place + len(word)
        if not ends_word(small, end):
            continue
        end = behind_question(small, end)
        decoration = 0
        while end < len(small) and small[end] in " *_`})" and decoration < 9:
            end, decoration = end + 1, decoration + 1
        if small[end : end + 1] in (":", "：", "="):
            closes = small[end] != "=" and small[end + 1 : end + 2] in ("*", "_") and small[end + 2 : end + 3] == " "
            return "open", end + 1 + closes
        if small[end : end + 2] == "is" and ends_word(small, end + 2):
            colon = end + 2
            while small[colon : colon + 1] == " ":
                colon += 1
            return "open", colon + 1 if small[colon : colon + 1] == ":" else end + 2
        if small[end : end + 1] == "\n":
            return "heading", end
    return "", place


def behind_question(small, end):
    """The place behind words such as "to the question" or "for the whole week", if "is" or a colon follows."""
    for word in (" to", " for"):
        place, words = end + len(word), 0
        if not small.startswith(word, end):
            continue
        found = None
        while words < 6 and small[place : place + 1] == " ":
            letters = place + 1
            while small[letters : letters + 1] and small[letters] in LETTERS:
                letters += 1
            if letters == place + 1:
                break
            # The pattern may stop within a word, but then neither "is" nor a colon follows.
            if letters - place - 1 > 15:
                break
            place, words = letters, words + 1
            if small[place : place + 1] == ":" or (small.startswith(" is", place) and ends_word(small, place + 3)):
                found = place
        if found:
            return found
    return end


def is_negated(rest):
    rest = rest.lstrip()
    while rest and (rest[0].isspace() or rest[0] in "*_"):
        rest = rest[1:]
    return any(rest.lower().startswith(w) and ends_word(rest, len(w)) for w in ("not", "wrong", "incorrect", "unknown"))


def begins_line(text, start):
    """Whether the line before a marker holds no words but a few."""
    lead = text[:start].split("\n")[-1].lower()
    words = "".join(sign if sign.isalnum() else " " for sign in lead).split()
    if words and words[0].isdecimal() and len(words[0]) < 3:
        behind = lead[lead.index(words[0]) + len(words[0]) :]
        words = words[1:] if behind[:1] in (".", ")") and behind[1:2].isspace() else words
    if words and words[0] in ("so", "thus", "hence", "therefore"):
        words = words[1:]
    if len(words) == 2 and words[0] in ("the", "my", "our"):
        return words[1] in ("final", "correct", "best")
    return not words or (len(words) == 1 and words[0] in ("final", "correct", "best", "my", "our"))


def extent(rest, kind, line_belongs, is_withdrawn):
    """The lines of an answer in plain spelling."""
    close = rest.lower().find("</answer>")
    lines = plain(rest[:close] if close >= 0 else rest)
    if kind == "tag" and close >= 0:
        return lines
    need(lines)
    count = 1
    while count < len(lines) and (not line_belongs or line_belongs(without_remark(lines[count]))):
        count += 1
    need(not any(map(is_withdrawn, lines[count:])))
    return lines[:count]


def read_box(text, first, start, end, line_belongs, is_withdrawn, read):
    """The answer in a box, if the sentence around it gives the same one."""
    rest, depth, place = text[end:], 1, 0
    while depth:
        need(place < len(rest))
        if rest[place] == "\\":
            place += 1
        else:
            depth += {"{": 1, "}": -1}.get(rest[place], 0)
        place += 1
    inside, behind = rest[: place - 1], rest[place:]
    before, behind = unwrapped(sentence_before(text[first:start] if first else "\n" + text[:start]), behind)
    answer = read(plain(inside))
    need(not is_factorial(behind) and before.rstrip(" {")[-1:] not in ("^", "_"))
    try:
        lines = extent(before + inside + behind, "box", line_belongs, is_withdrawn)
        lines = without_introduction("\n".join(lines)).split("\n")
        lines[-1] = without_ending(lines[-1])
        need(answer == read(lines))
    except NoAnswer:
        lines = extent(BOX + behind, "box", line_belongs, is_withdrawn)
        lead = "".join(plain(before + BOX)).removesuffix(BOX)
        behind = "\n".join(lines).removeprefix(BOX)
        if lead.rstrip().endswith(("\\equiv", "≡")):
            behind = without_bare_modulus(behind)
        need(harmless_behind(without_another(behind, answer, read)))
        need(is_label(lead) or harmless_before(lead, answer, read))
    return answer


def sentence_before(text):
    *above, line = text.split("\n")
    if line.strip() == ">" and above and (not above[-1].strip() or above[-1].lstrip().startswith(">")):
        return ""
    above = [part for part in above if part.strip(" $")]
    while above and within_formula(above[-1].rstrip(" $"), line.lstrip(" $&")):
        line = above.pop() + " " + line
    return line[sentence_start(line) :]


def within_formula(above, below):
    """Whether a line break stands beside an operator."""
    if above.endswith(("\\times", "\\cdot", "\\div")):
        return True
    if above[-1] in "-+*/×÷−·=^([{" and above[-2:-1] not in ("-", "*", "=", "\\"):
        return True
    first = below[:1]
    return above[-1] in DIGITS + ")]}" and first != "" and first in "-+*/×÷−·=^" and not below.startswith("**")


def first_word(text):
    """The word at the beginning of a text: letters, with apostrophes and hyphens between them."""
    end = 0
    while text[end : end + 1] and text[end] in LETTERS:
        end += 1
    if end == 1:
        return text[:1] if text[0] in "aAiI" else ""
    while end and text[end : end + 1] in ("'", "-"):
        letters = end + 1
        while text[letters : letters + 1] and text[letters] in LETTERS:
            letters += 1
        if letters - end < (2 if text[end] == "'" else 3):
            break
        end = letters
    return text[: end + (end > 0 and text[end : end + 1] == "'")]


def are_changing(words):
    return changes(words, CHANGING)


def without_ending(line):
    """The line without words such as "is the answer" before a full stop or its end."""
    for place, sign in enumerate(line):
        for ending in ENDINGS:
            rest = line[place + 1 + len(ending) :]
            stops = rest in ("", ".") or rest.startswith(". ")
            if sign == " " and line[place + 1 :].lower().startswith(ending) and stops:
                return line[:place] + rest
    return line


def without_introduction(text):
    """The text behind words that end with a verb or "so"."""
    words, place, found, pair = [], 0, (0, []), ""
    while word := first_word(text[place:]):
        words.append(word.lower())
        pair = f"{pair} {words[-1]}"
        introduces = words[-1] in INTRODUCING or pair in INTRODUCING_PAIRS
        pair = words[-1] if text[place + len(word) : place + len(word) + 1] == " " else ""
        place += len(word)
        after = skip_blanks(text, place + (text[place : place + 1] == ","))
        apart = after > place and text[after - 1] == " "
        sign = text[place : place + 1]
        if introduces and (apart or (sign and not is_word_sign(sign) and sign not in ",' ")):
            found = (after if apart else place, [*words])
        if not apart:
            break
        place = after
    return text[found[0] :] if found[1][:1] != ["had"] and not are_changing(found[1]) else text
