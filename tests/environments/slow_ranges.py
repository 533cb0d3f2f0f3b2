"""Numbers behind a box that say of what: moduli and ranges, a second time, without patterns."""

from tests.environments.slow_spelling import DIGITS, LETTERS, all_in, is_word_sign, skip_space

COUNTED_NUMBERS = ("primes", "numbers", "integers", "divisors", "multiples", "factors", "palindromes")
RANGES = (
    *(" below", " under", " above", " up to", " less than", " greater than", " smaller than", " larger than"),
    " between",
)


def without_modulus(text):
    place = 0
    while place < len(text):
        inside, closing = None, ""
        if text.startswith("\\pmod", place):
            start = skip_space(text, place + 5)
            inside, closing = (start + 1, "}") if text[start : start + 1] == "{" else (start, "")
        elif text[place] == "(":
            start = skip_space(text, place + 1)
            command = next((c for c in ("\\bmod", "\\mod", "mod") if text.startswith(c, start)), None)
            if command and text[start + len(command) : start + len(command) + 1].isspace():
                inside, closing = skip_space(text, start + len(command)), ")"
        end = inside or 0
        while inside and text[end : end + 1] and is_word_sign(text[end]):
            end += 1
        close = skip_space(text, end) if closing == ")" else end
        if inside and end > inside and text[close : close + len(closing)] == closing:
            text = text[:place] + text[close + len(closing) :]
        else:
            place += 1
    return text


def without_bare_modulus(text):
    start = skip_space(text, 0)
    command = next((c for c in ("\\bmod", "\\mod") if text.startswith(c, start)), None)
    if not command or text[start + len(command) : start + len(command) + 1] in tuple(LETTERS[:26]):
        return text
    start = skip_space(text, start + len(command))
    braced = text[start : start + 1] == "{"
    end = start = start + braced
    while text[end : end + 1] and is_word_sign(text[end]):
        end += 1
    closed = not braced or text[end : end + 1] == "}"
    return text[end + braced :] if end > start and closed else text


def without_ranges(text):
    """The text without numbers such as "below 10" and "between 3 and 10" behind what is counted."""
    place = 0
    while place < len(text):
        noun = next((noun for noun in COUNTED_NUMBERS if text.startswith(noun, place)), None)
        if noun and text[place - 1 : place] not in tuple(LETTERS[:26]):
            end = start = place + len(noun)
            while (further := behind_range(text, end)) > end:
                end = further
            text = text[:start] + text[end:]
        place += 1
    return text


def behind_range(text, place):
    """The place behind one range at a place, the place itself if there is none."""
    for are in ("", " that are"):
        for preposition in (*((" of",) if not are else ()), *RANGES):
            if not text.startswith(are + preposition + " ", place):
                continue
            end = place + len(are + preposition)
            if preposition == " between":
                end = behind_whole(text, end)
                if not end or not text.startswith(" and", end):
                    continue
                end += 4
            end = behind_whole(text, end)
            after, next_one = text[end : end + 1], text[end + 1 : end + 2]
            beside = after and (is_word_sign(after) or after == "^" or (after in ".," and next_one in tuple(DIGITS)))
            if end and not beside:
                return end
    return place


def behind_whole(text, place):
    """The place behind a blank and a whole number, 0 if there is none."""
    end = place + 1
    while text[end : end + 1] in tuple(DIGITS):
        end += 1
    if text[place : place + 1] != " " or end == place + 1:
        return 0
    while text[end : end + 1] == "," and len(text[end + 1 : end + 4]) == 3 and all_in(text[end + 1 : end + 4], DIGITS):
        end += 4
    return end
