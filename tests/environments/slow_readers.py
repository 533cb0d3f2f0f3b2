"""A second reader of every task's answers, written from docs/answers.md, character by character and without patterns.

It shares no code with the readers of ipsrl.
"""

import itertools

from tests.environments.slow_arithmetic import arithmetic_tree, closing_of, depths, exact, sides_of, tokens_of
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
    without_bullet,
    without_remark,
)
from tests.environments.slow_text import slow_answer

# Countdown.


def slow_countdown(text):
    return slow_answer(
        text,
        ("equation", "expression", "solution"),
        lambda line: is_wordless(line, "xX"),
        countdown_tree,
    )


def countdown_tree(lines):
    line = without_bullet(" ".join(without_remark(line) for line in lines))
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
    words = [" " if word.lower() in NO_NAMES else word for word in words_of(without_latex(line))]
    return line != "" and is_wordless(" ".join(words) or " ")


def boolean_tree(lines):
    line = without_name(without_bullet(" ".join(without_remark(line) for line in lines)))
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
    return slow_answer(text, ("graph", "edges", "dag"), causal_line, causal_edges, withdraws=withdraws_graph)


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


def without_latex(line):
    first, *commands = line.split("\\")
    return " ".join([first, *(command.lstrip(LETTERS) for command in commands)])


def causal_line(line):
    """Whether a line begins with an edge, or has no words."""
    words = [" " if len(word) == 1 and word in LETTERS else word for word in words_of(without_latex(line))]
    if line and is_wordless(" ".join(words) or " "):
        return True
    if line[:4].lower() == "and ":
        line = line[4:].lstrip(" ")
    words = causal_words(without_bullet(line))
    no_edges = any([word.lower() for word in part[:2]] == ["no", "edges"] for part in with_brackets(words))
    return no_edges or has_edge(words)


def with_brackets(words):
    """Words with and without an opening bracket."""
    return words, words[1:] if words[:1] in (["["], ["{"], ["("]) else []


def has_edge(words):
    return any(map(begins_with_edge, with_brackets(words)))


def withdraws_graph(line):
    """Whether a line begins with an edge, behind other words or not."""
    line = without_bullet(line)
    while not has_edge(causal_words(line)):
        word = first_name(line)
        rest = line[len(word) :].lstrip(" ,:")
        if word not in ("and", "not", "also", "but") or len(rest) == len(line) - len(word):
            return False
        line = rest
    return True


def begins_with_edge(words):
    for length in (3, 5):
        try:
            edges_of(words[:length])
            return len(words) >= length
        except NoAnswer:
            continue
    # The bracket around a longer chain.
    return words[:1] == ["("] and begins_with_chain(words[1:])


def begins_with_chain(words):
    place = 0
    while words[place + 1 : place + 2] == ["->"] and len(words) > place + 2 and is_node(words[place]):
        place += 2
    return place > 0 and is_node(words[place]) and words[place + 1 : place + 2] == [")"]


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
    parts = [without_remark(without_bullet(line)) for line in lines]
    line = ", ".join(part for part in parts if part)
    end = 0
    while end < len(line) and line[end] in LETTERS:
        end += 1
    sign = skip_blanks(line, end)
    if end and line[sign : sign + 1] in ("=", ":") and line[sign + 1 : sign + 2] not in (">", "="):
        line = line[sign + 1 :].lstrip(" ")
    words = causal_words(line.upper())
    if line == "∅" or words == ["NO", "EDGES"]:
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
        text, ("structure",), None, lambda lines: voxel_stack(lines, grid), whole_without_marker=whole
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
            rows = rows_on(line.split(":")[-1])
            need(not layers or len(rows) < grid or not are_rows(rows, grid))
            continue
        if number is None:
            continue
        rows = rows_on(line)
        need(are_rows(rows, grid) and (open_layer or not rows))
        layers[number] += [row.ljust(grid, "0") for row in rows]
    need(layers and set(layers) == {*range(1, len(layers) + 1)})
    need(all(1 <= len(rows) <= grid for rows in layers.values()))
    stack = ["".join(layers[i]).ljust(grid * grid, "0") for i in range(1, len(layers) + 1)]
    while stack and "1" not in stack[-1]:
        stack.pop()
    return tuple(stack)


def are_rows(rows, grid):
    return all(len(row) <= grid and set(row) <= {"0", "1"} for row in rows)


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
