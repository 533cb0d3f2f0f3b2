"""A second reader of every task's answers, written from docs/answers.md, character by character and without patterns.

It shares no code with the readers of ipsrl.
"""

import itertools

from tests.environments.slow_arithmetic import arithmetic_tree, closing_of, depths, exact, sides_of, tokens_of
from tests.environments.slow_text import (
    DIGITS,
    LETTERS,
    NoAnswer,
    ends_word,
    is_word_sign,
    need,
    plain,
    skip_blanks,
    slow_answer,
    without_bullets,
    without_remark,
)

# Countdown.


def all_in(line, signs, pieces=()):
    for piece in pieces:
        line = line.replace(piece, "")
    return all(c in signs for c in line)


def slow_countdown(text):
    return slow_answer(
        text,
        ("equation", "expression", "solution"),
        lambda line: all_in(line, DIGITS + " +-*/^xX=()[]{}.,!", ("\\frac",)),
        countdown_tree,
    )


def countdown_tree(lines):
    line = without_bullets(" ".join(without_remark(line) for line in lines))
    for sign in "=:":
        name, found, rest = line.partition(sign)
        if found and name[:1] and name[0] in LETTERS and all(c in LETTERS + " " for c in name):
            line = rest
            break
    trees = [arithmetic_tree(tokens_of(side)) for side in sides_of(line)]
    if len(trees) > 1:
        need(len({exact(tree) for tree in trees}) == 1)
    chosen = [tree for tree in trees if isinstance(tree, tuple)] or trees
    leaves = [chosen[0]]
    for tree in leaves:
        if isinstance(tree, tuple):
            need(tree[0] != "^")
            leaves += tree[1:]
        else:
            need(isinstance(tree, int) and len(str(tree)) <= 10)
    return chosen[0]


# Boolean expressions.

BOOLEAN_SIGNS = {
    **dict.fromkeys(["&", "&&", "∧"], "AND"),
    **dict.fromkeys(["|", "||", "∨"], "OR"),
    **dict.fromkeys(["¬", "~", "!"], "NOT"),
    "↓": "NOR",
}


NO_NAMES = ("x", "y", "and", "or", "not", "nor")


def slow_boolean(text):
    return slow_answer(text, ("expression", "formula", "function"), boolean_line, boolean_tree)


def words_of(text):
    out, place = [], 0
    while place < len(text):
        end = place + 1
        if is_word_sign(text[place]):
            while end < len(text) and is_word_sign(text[end]):
                end += 1
        elif text[place : place + 2] in ("&&", "||"):
            end += 1
        if not text[place].isspace():
            out.append(text[place:end])
        place = end
    return out


def boolean_line(line):
    names = ("x", "y", "and", "or", "not", "nor")
    return all(
        w.lower() in names or (len(w) <= 2 and all(c in "&|∧∨¬↓~!(){}[],.;*+-" for c in w)) for w in words_of(line)
    )


def boolean_tree(lines):
    line = without_name(without_bullets(" ".join(without_remark(line) for line in lines)))
    words = []
    for word in words_of(line):
        word = BOOLEAN_SIGNS.get(word, word)
        words.append(word.upper() if word.upper() in ("AND", "OR", "NOT", "NOR") else word.lower())
    need(len(words) <= 128)
    return boolean_part(words)


def without_name(line):
    """The line without `f(x, y) =` and the like."""
    words = words_of(line)
    count = 0
    while count < 3 and count < len(words) and words[count][0] in LETTERS and words[count].lower() not in NO_NAMES:
        count += 1
    rest = words[count:]
    if [word.lower() for word in rest[:5]] == ["(", "x", ",", "y", ")"]:
        rest = rest[5:]
    if not count or rest[:1] not in (["="], [":"]):
        return line
    return line[line.index(rest[0]) + 1 :]


def boolean_part(words):
    need(words)
    levels = depths(words)
    operand_ends = [bool(w) and w not in ("AND", "OR", "NOT", "NOR", "(", "[", "{", ",") for w in words]
    for operators in (("OR", "NOR"), ("AND",)):
        for i in range(len(words) - 1, 0, -1):
            if levels[i] == 0 and words[i] in operators and operand_ends[i - 1]:
                return (words[i], boolean_part(words[:i]), boolean_part(words[i + 1 :]))
    if words[0] == "NOT":
        return ("NOT", boolean_part(words[1:]))
    if words[0] in ("(", "[", "{"):
        need(closing_of(words, 0) == len(words) - 1)
        return boolean_part(words[1:-1])
    if words[0] in ("AND", "OR", "NOR"):
        need(words[1:2] == ["("] and closing_of(words, 1) == len(words) - 1)
        inner = words[2:-1]
        commas = [i for i, level in enumerate(depths(inner)) if inner[i] == "," and level == 0]
        need(len(commas) == 1)
        return (words[0], boolean_part(inner[: commas[0]]), boolean_part(inner[commas[0] + 1 :]))
    need(len(words) == 1)
    word = words[0]
    need(word in ("0", "1", "true", "false") or (len(word) == 1 and word in LETTERS))
    return word


# Causal graphs.


def slow_causal(text):
    return slow_answer(text, ("graph", "edges", "dag"), causal_line, causal_edges)


def causal_words(text):
    """Names and signs, an arrow of any length being one sign."""
    out, place = [], 0
    while place < len(text):
        end = place
        while text[end : end + 1] in ("-", "="):
            end += 1
        if end > place and text[end : end + 1] == ">":
            out.append("->")
            place = end + 1
            continue
        end = place + 1
        while is_word_sign(text[place]) and end < len(text) and is_word_sign(text[end]):
            end += 1
        out += [text[place:end]] if text[place:end].strip() else []
        place = end
    return out


def causal_line(line):
    """Whether a line holds edges or brackets alone."""
    if line[:4].lower() == "and ":
        line = line[4:].lstrip(" ")
    words = causal_words(without_bullets(line))
    for end in range(len(words), -1, -1):
        for start in (0, 1):
            part, rest = words[start:end], words[end:]
            closed = rest[:1] and rest[0] in ("]", "}", ")")
            tail = rest[1:] if closed else rest
            if tail not in ([], [","], [";"], ["."]) or (start and words[:1] not in (["["], ["{"], ["("])):
                continue
            if (not part and start <= end) or [word.lower() for word in part] == ["no", "edges"]:
                return True
            try:
                edges_of(part)
                return True
            except NoAnswer:
                continue
    return False


def is_node(word):
    return is_word_sign(word[0]) and word.upper() != "AND"


def edges_of(words):
    """The edges of chains and pairs with separators between them."""
    need(words)
    edges, place = set(), 0
    while True:
        opening = words[place : place + 1]
        closing = {"(": ")", "[": "]"}.get(opening[0]) if opening else None
        place += closing is not None
        names = words[place : place + 1]
        need(names and is_node(names[0]))
        place += 1
        between = words[place : place + 1]
        pair = closing and between == [","]
        need(pair or (between == ["->"] and closing != "]"))
        while words[place : place + 1] == ([","] if pair else ["->"]) and not (pair and len(names) == 2):
            need(len(words) > place + 1 and is_node(words[place + 1]))
            names.append(words[place + 1])
            place += 2
        if closing:
            need(words[place : place + 1] == [closing])
            place += 1
        edges |= set(itertools.pairwise(names))
        if place == len(words):
            return frozenset(edges)
        need(words[place] in (",", ";", "&") or words[place].upper() == "AND")
        if words[place] in (",", ";") and words[place + 1 : place + 2] and words[place + 1].upper() in ("AND", "&"):
            place += 1
        place += 1


def causal_edges(lines):
    parts = [without_remark(without_bullets(line)) for line in lines]
    line = ", ".join(part for part in parts if part)
    end = 0
    while end < len(line) and line[end] in LETTERS:
        end += 1
    sign = skip_blanks(line, end)
    if end and line[sign : sign + 1] in ("=", ":") and line[sign + 1 : sign + 2] not in (">", "="):
        line = line[sign + 1 :].lstrip(" ")
    words = causal_words(line.upper())
    if line == "∅" or line.upper() == "NO EDGES":
        return frozenset()
    try:
        return edges_of(words)
    except NoAnswer:
        need(len(words) > 1 and words[0] + words[-1] in ("[]", "{}", "()"))
        words = words[1:-1]
    while words[:1] == [","]:
        words = words[1:]
    while words[-1:] == [","]:
        words = words[:-1]
    return frozenset() if words in ([], ["NO", "EDGES"]) else edges_of(words)


# Voxels.


def slow_voxels(grid):
    def whole(text):
        try:
            return voxel_stack(plain(text), grid) if len(text) <= 4000 else None
        except NoAnswer:
            return None

    return lambda text: slow_answer(
        text, ("structure",), lambda line: True, lambda lines: voxel_stack(lines, grid), whole_without_marker=whole
    )


def layer_header(line):
    """The number of a header and what stands behind it, or None."""
    start = 0
    while start < len(line) and not line[start].isalnum():
        start += 1
    if line[start : start + 5].lower() != "layer":
        return None
    place = skip_blanks(line, start + 5)
    place = skip_blanks(line, place + (line[place : place + 1] == "#"))
    digits = ""
    while line[place : place + 1] and line[place] in DIGITS:
        digits, place = digits + line[place], place + 1
    if not 1 <= len(digits) <= 3 or not ends_word(line, place):
        return None
    place = skip_blanks(line, place)
    rest = line[place:]
    if rest.startswith("(") and ")" in rest and "(" not in rest[1 : rest.index(")")] and rest.index(")") <= 41:
        rest = rest[rest.index(")") + 1 :].lstrip(" ")
    elif rest[:1] in ("-", ","):
        ends = [i for i in range(min(42, len(rest) + 1)) if i == len(rest) or rest[i] in ":.="]
        clean = [i for i in ends if not set(rest[1:i]) & {*DIGITS, ":"}]
        if not clean:
            return None
        # The longest comment counts.
        rest = rest[clean[-1] :]
    if rest and rest[0] not in ":.=":
        return None
    return int(digits), rest[1:]


def voxel_stack(lines, grid):
    layers, number, open_layer = {}, None, False
    for line in lines:
        header = layer_header(line)
        if header:
            number, line = header
            layers = {} if number in layers else layers
            layers[number], open_layer = [], True
        elif is_comment(line):
            open_layer = bool(layers) and not layers[number]
            continue
        if number is None:
            continue
        rows = rows_on(line)
        if rows is not None and not rows:
            continue
        need(rows is not None and all(len(row) <= grid and set(row) <= {"0", "1"} for row in rows))
        if open_layer:
            layers[number] += [row.ljust(grid, "0") for row in rows]
        else:
            need(len(layers[number]) >= grid)
    need(layers and set(layers) == {*range(1, len(layers) + 1)})
    need(all(1 <= len(rows) <= grid for rows in layers.values()))
    stack = ["".join(layers[i]).ljust(grid * grid, "0") for i in range(1, len(layers) + 1)]
    while stack and "1" not in stack[-1]:
        stack.pop()
    return tuple(stack)


def unlabelled(line):
    start = 0
    while start < len(line) and not line[start].isalnum():
        start += 1
    if line[start : start + 3].lower() != "row":
        return line
    rest = line[start + 3 :].lstrip(" ").lstrip(DIGITS).lstrip(" ")
    return rest[1:] if rest.startswith(":") else line


def is_comment(line):
    start = 0
    while start < len(line) and not is_word_sign(line[start]):
        start += 1
    end = start
    while end < len(line) and line[end] in LETTERS + "'":
        end += 1
    if unlabelled(line) != line or end == start or line[start] == "'":
        return False
    alone = line[start] in "iIaA" and ends_word(line, start + 1)
    return alone or end - start >= 2


def rows_on(line):
    parts, part = [], ""
    line = unlabelled(line)
    place = 0
    while place < len(line):
        after = skip_blanks(line, place + 1)
        after = skip_blanks(line, after + 1) if line[after : after + 1] == "," else after
        if line[place] == "]" and line[after : after + 1] == "[":
            parts, part, place = [*parts, part], "", after + 1
        elif line[place] in ";/":
            parts, part, place = [*parts, part], "", place + 1
        else:
            part, place = part + line[place], place + 1
    rows = ["".join(c for c in p if c not in " ,|()[]{}&*`") for p in [*parts, part]]
    return [row for row in (row.removesuffix(".") for row in rows) if row]


# Numbers.

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
        lambda line: all_in(line, DIGITS + " .,'_+-*/^=()[]{}%⁰¹²³⁴⁵⁶⁷⁸⁹⁻", ("\\frac",)),
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
