"""Arithmetic in text a second time: divided at the operator that binds least, where ipsrl builds from the left."""

from fractions import Fraction

from tests.environments.slow_spelling import DIGITS, LETTERS, NoAnswer, ends_word, is_word_sign, need, skip_blanks

PARTS = {"¼": Fraction(1, 4), "½": Fraction(1, 2), "¾": Fraction(3, 4), "⅓": Fraction(1, 3), "⅔": Fraction(2, 3)}


def tokens_of(text):
    """Numbers (int or Fraction) and signs."""
    text = short_fractions(multiplied(text))
    out, place = [], 0
    while place < len(text):
        sign = text[place]
        if sign.isspace():
            place += 1
        elif sign in DIGITS or (sign == "." and text[place + 1 : place + 2] in tuple(DIGITS)):
            number, place = number_at(text, place)
            out.append(int(number) if number.denominator == 1 else number)
        elif sign in "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹":
            end = place + 1
            while text[end : end + 1] and text[end] in "⁰¹²³⁴⁵⁶⁷⁸⁹":
                end += 1
            run = "".join("0123456789+-"["⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻".index(c)] for c in text[place:end])
            need(run not in ("+", "-"))
            out += ["^", int(run)]
            place = end
        elif sign in PARTS:
            out.append(
                {"¼": Fraction(1, 4), "½": Fraction(1, 2), "¾": Fraction(3, 4)}.get(sign)
                or Fraction("⅓⅔".index(sign) + 1, 3)
            )
            place += 1
        elif text.startswith("\\frac", place) and text[place + 5 : place + 6] not in tuple(LETTERS):
            out.append("\\frac")
            place += 5
        else:
            out.append(sign)
            place += 1
    need(0 < len(out) <= 64)
    return out


def multiplied(text):
    """An x between operands as a sign."""
    return "".join("*" if is_times(text, i) else sign for i, sign in enumerate(text))


def is_times(text, place):
    """Whether an x stands between operands, and not in a number such as 0x10."""
    if text[place] not in "xX" or not place or text[place - 1] not in DIGITS + ")}] ":
        return False
    before = text[place - 2 : place - 1] if place > 1 else ""
    hexadecimal = text[place - 1] == "0" and (not before or before not in DIGITS + ".")
    return not hexadecimal and text[place + 1 : place + 2] in (" ", *DIGITS, "(", "\\")


def short_fractions(text):
    """\\frac12, \\frac{1}2 and \\frac1{2} as \\frac{1}{2}."""
    place = text.find("\\frac")
    while place >= 0:
        start = skip_blanks(text, place + 5)
        end = start + 1 if text[start : start + 1] in tuple(DIGITS) else closing_without_braces(text, start)
        below = skip_blanks(text, end)
        top, bottom = text[start:end].strip("{}"), text[below : below + 1]
        if end > start and bottom == "{":
            text = f"{text[: place + 5]}{{{top}}}{text[below:]}"
        elif end > start and bottom in tuple(DIGITS) and text[below + 1 : below + 2] not in tuple(DIGITS):
            text = f"{text[: place + 5]}{{{top}}}{{{bottom}}}{text[below + 1 :]}"
        place = text.find("\\frac", place + 1)
    return text


def closing_without_braces(text, start):
    """The end of a group in braces that holds no others and no commands; the start if there is none."""
    end = text.find("}", start)
    inside = text[start + 1 : end]
    return end + 1 if text[start : start + 1] == "{" and end > 0 and not {"{", "\\"} & set(inside) else start


def run_of_digits(text, place):
    end = place
    while end < len(text) and text[end] in DIGITS:
        end += 1
    return text[place:end]


def number_at(text, start):
    whole = run_of_digits(text, start)
    if mixed := mixed_at(text, start, whole):
        return mixed
    place, digits = start + len(whole), whole
    separator = text[place : place + 1]
    if separator and separator in ", '_" and 1 <= len(whole) <= 3:
        while text[place : place + 1] == separator and len(run_of_digits(text, place + 1)) == 3:
            digits, place = digits + text[place + 1 : place + 4], place + 4
    if text[place : place + 1] == "." and run_of_digits(text, place + 1):
        digits += "." + run_of_digits(text, place + 1)
        place = start + (len(text[start:place])) + 1 + len(run_of_digits(text, place + 1))
    power = 0
    if text[place : place + 1] in ("e", "E"):
        signed = text[place + 1 : place + 2] in ("+", "-")
        exponent = run_of_digits(text, place + 1 + signed)
        need(0 < len(exponent) <= 4)
        power = int(text[place + 1 : place + 1 + signed] + exponent)
        place += 1 + signed + len(exponent)
    after = text[place : place + 1]
    need(not after or after not in LETTERS + DIGITS + "_'")
    need(len(digits) <= 100 and abs(power) <= 300)
    return Fraction(digits) * Fraction(10) ** power, place


def mixed_at(text, start, whole):
    """2 1/2, or None."""
    place = skip_blanks(text, start + len(whole))
    top = run_of_digits(text, place)
    if not whole or place == start + len(whole) or not 1 <= len(top) <= 2:
        return None
    place += len(top)
    place += text[place : place + 1] == " "
    if text[place : place + 1] != "/":
        return None
    place += 1
    place += text[place : place + 1] == " "
    bottom = run_of_digits(text, place)
    place += len(bottom)
    behind = text[place + (text[place : place + 1] == " ") :][:1]
    close = text[place : place + 1]
    if not bottom or any(sign and sign in LETTERS + DIGITS + "_/^.,'" for sign in (behind, close)):
        return None
    need(0 < int(top) < int(bottom))
    return int(whole) + Fraction(int(top), int(bottom)), place


def depths(tokens):
    """The number of open brackets before each token; brackets must match."""
    stack, out = [], []
    for token in tokens:
        if token in (")", "]", "}"):
            need(stack and stack.pop() + token in ("()", "[]", "{}"))
        out.append(len(stack))
        if token in ("(", "[", "{"):
            stack.append(token)
    need(not stack)
    return out


def arithmetic_tree(tokens):
    need(tokens)
    levels = depths(tokens)
    for operators in ("+-", "*/"):
        for i in range(len(tokens) - 1, 0, -1):
            before = tokens[i - 1]
            binary = not isinstance(before, str) or before in ")]}"
            if levels[i] == 0 and isinstance(tokens[i], str) and tokens[i] in operators and binary:
                return (tokens[i], arithmetic_tree(tokens[:i]), arithmetic_tree(tokens[i + 1 :]))
    if tokens[0] in ("+", "-"):
        inner = arithmetic_tree(tokens[1:])
        return ("-", inner) if tokens[0] == "-" else inner
    for i, token in enumerate(tokens):
        if levels[i] == 0 and token == "^":
            return ("^", arithmetic_operand(tokens[:i]), arithmetic_tree(tokens[i + 1 :]))
    return arithmetic_operand(tokens)


def closing_of(tokens, start):
    need(start < len(tokens) and tokens[start] in ("(", "[", "{"))
    level = 0
    for i in range(start, len(tokens)):
        level += (tokens[i] in ("(", "[", "{")) - (tokens[i] in (")", "]", "}"))
        if not level:
            return i
    raise NoAnswer


def arithmetic_operand(tokens):
    need(tokens)
    if tokens[0] == "\\frac":
        middle = closing_of(tokens, 1)
        need(closing_of(tokens, middle + 1) == len(tokens) - 1)
        return ("/", arithmetic_tree(tokens[2:middle]), arithmetic_tree(tokens[middle + 2 : -1]))
    if tokens[0] in ("(", "[", "{"):
        need(closing_of(tokens, 0) == len(tokens) - 1)
        return arithmetic_tree(tokens[1:-1])
    need(not isinstance(tokens[0], str))
    if len(tokens) == 1:
        return tokens[0]
    need(isinstance(tokens[0], int) and (isinstance(tokens[1], Fraction) or tokens[1] == "\\frac"))
    part = exact(arithmetic_operand(tokens[1:]))
    need(0 < part < 1)
    return tokens[0] + part


def exact(tree):
    if not isinstance(tree, tuple):
        return Fraction(tree)
    if len(tree) == 2:
        return -exact(tree[1])
    left, right = exact(tree[1]), exact(tree[2])
    if tree[0] == "^":
        need(right.denominator == 1 and abs(right) <= 300 and (left or right > 0))
        bits = max(left.numerator.bit_length(), left.denominator.bit_length())
        need(bits * abs(right) <= 5000)
        return left ** int(right)
    need(tree[0] != "/" or right)
    return {"+": left + right, "-": left - right, "*": left * right, "/": left / right if right else 0}[tree[0]]


def sides_of(text):
    """The sides of an equation."""
    out, place, side = [], 0, ""
    while place < len(text):
        for sign in ("==", "="):
            if text.startswith(sign, place):
                break
        else:
            for sign in ("is equal to", "equals", "is"):
                free = not place or not is_word_sign(text[place - 1])
                if text.startswith(sign, place) and free and ends_word(text, place + len(sign)):
                    break
            else:
                side, place = side + text[place], place + 1
                continue
        out, side, place = [*out, side], "", place + len(sign)
    return [*out, side]
