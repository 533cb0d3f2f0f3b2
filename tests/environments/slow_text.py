"""Where an answer stands, and its plain spelling: a second time, from docs/answers.md, without patterns.

Only the lists of words are those of ipsrl.
"""

from ipsrl.environments.answer_words import CHANGING, INTRODUCING

DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
REMARKS = ("which", "because", "since", "as", "using", "where")
SIGNS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻¼½¾⅓⅔√π±≤≥≈≠∧∨¬↓⊕"
OPERATOR_WORDS = ("and", "or", "not", "nor", "no")


class NoAnswer(Exception):
    """The text is none."""


def need(condition):
    if not condition:
        raise NoAnswer


def is_word_sign(sign):
    return sign.isalnum() or sign == "_"


def ends_word(text, place):
    return place >= len(text) or not is_word_sign(text[place])


def all_in(text, signs):
    return all(sign in signs for sign in text)


def is_wordless(line, letters=""):
    """Whether a line has no letters but those, and LaTeX commands."""
    place = 0
    while place < len(line):
        sign = line[place]
        place += 1
        if sign == "\\":
            while place < len(line) and line[place] in LETTERS:
                place += 1
        elif not (" " <= sign <= "~" and sign not in LETTERS) and sign not in letters + SIGNS:
            return False
    return line != ""


# Where an answer stands.


def slow_answer(text, titles, line_belongs, read, hashes=False, whole_without_marker=None):
    """What `read`, a function that raises NoAnswer, makes of the answer in a text."""
    if "</think>" in text:
        text = text[text.rindex("</think>") + len("</think>") :]
    if "<think>" in text:
        text = text[: text.index("<think>")]
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
                return read_box(text, found[i - 1][2] if i else 0, start, end, line_belongs, read)
            return read(extent(text[end:], kind, line_belongs))
        except NoAnswer:
            if at_start or kind == "box":
                return None
    return None


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
    for box in ("\\boxed", "\\fboxed"):
        after = rest[len(box) :]
        blanks = len(after) - len(after.lstrip())
        if rest.startswith(box) and blanks <= 9 and after.lstrip().startswith("{"):
            return "box", place + len(box) + blanks + 1
    if hashes and rest.startswith("####"):
        return "open", place + 4
    for word in words:
        if not rest.startswith(word) or (place and is_word_sign(small[place - 1])):
            continue
        end = place + len(word)
        if not ends_word(small, end):
            continue
        decoration = 0
        while end < len(small) and small[end] in " *_`})" and decoration < 9:
            end, decoration = end + 1, decoration + 1
        if small[end : end + 1] in (":", "：", "="):
            return "open", end + 1
        if small[end : end + 2] == "is" and ends_word(small, end + 2):
            colon = end + 2
            while small[colon : colon + 1] == " ":
                colon += 1
            return "open", colon + 1 if small[colon : colon + 1] == ":" else end + 2
        if small[end : end + 1] == "\n":
            return "heading", end
    return "", place


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


def extent(rest, kind, line_belongs):
    """The lines of an answer in plain spelling."""
    close = rest.lower().find("</answer>")
    lines = plain(rest[:close] if close >= 0 else rest)
    if kind == "tag" and close >= 0:
        return lines
    need(lines)
    kept = lines[:1]
    for line in lines[1:]:
        if line_belongs and not line_belongs(without_remark(line)):
            break
        kept.append(line)
    return kept


def read_box(text, first, start, end, line_belongs, read):
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
    line, *lines = extent(sentence_before(text[first:start]) + inside + behind, "box", line_belongs)
    answer = read(plain(inside))
    need(answer == read([without_introduction(line), *lines]))
    return answer


def sentence_before(text):
    *above, line = text.split("\n")
    above = [part for part in above if part.strip(" $")]
    while above and within_formula(above[-1].rstrip(" $"), line.lstrip(" $&")):
        line = above.pop() + " " + line
    first = 0
    for place, sign in enumerate(line):
        after = skip_blanks(line, place + 1)
        if after == place + 1:
            continue
        begins = line[after : after + 1].isupper() and line[after] in LETTERS
        clause = any(
            line.startswith(word, after) and ends_word(line, after + len(word))
            for word in ("so", "thus", "hence", "therefore")
        )
        if (sign in ".!?" and begins) or (sign in ",;" and clause):
            first = after
    return line[first:]


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


def is_changing(word):
    return word in CHANGING or word.endswith("n't")


def without_introduction(text):
    """The text behind words that end with a verb or "so"."""
    words, place, found = [], 0, (0, [])
    while word := first_word(text[place:]):
        words.append(word.lower())
        place += len(word)
        after = skip_blanks(text, place + (text[place : place + 1] == ","))
        apart = after > place and text[after - 1] == " "
        sign = text[place : place + 1]
        if words[-1] in INTRODUCING and (apart or (sign and not is_word_sign(sign) and sign not in ",' ")):
            found = (after if apart else place, [*words])
        if not apart:
            break
        place = after
    return text[found[0] :] if not any(map(is_changing, found[1])) else text


# One spelling.

CHARACTERS = {}
for signs, sign in (
    ("−–—‒‐‑﹣", "-"),
    ("×⋅·∗✕✖", "*"),
    ("÷∕⁄", "/"),
    ("→⟶⇒➔➜⟹↦", "->"),
    ("\t\r\xa0\u2009\u202f", " "),
    ('“”„‟«»‹›"´✓✔✅•‣◦▪●', " "),
    ("‘’", "'"),
    ("\u200b\ufeff", ""),
):
    CHARACTERS |= dict.fromkeys(signs, sign)
COMMANDS = {
    **dict.fromkeys(["times", "cdot", "ast"], "*"),
    **dict.fromkeys(["dfrac", "tfrac", "cfrac"], "\\frac"),
    **dict.fromkeys(["land", "wedge"], "∧"),
    **dict.fromkeys(["lor", "vee"], "∨"),
    **dict.fromkeys(["neg", "lnot"], "¬"),
    **dict.fromkeys(["to", "rightarrow", "longrightarrow", "Rightarrow", "implies"], "->"),
    **dict.fromkeys(["left", "right", "displaystyle", "quad", "qquad"], " "),
    **dict.fromkeys(["emptyset", "varnothing"], "∅"),
    "div": "/",
    "downarrow": "↓",
}
WRAPPERS = ("text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "operatorname")
TAGS = ("b", "i", "u", "em", "strong", "code", "pre", "p", "div", "span", "br", "center")


def plain(text):
    """The lines of a text without decoration."""
    for minus in "−﹣－":
        while minus + " " in text:
            text = text.replace(minus + " ", minus)
    text = "".join(chr(ord(c) - 0xFEE0) if 0xFF01 <= ord(c) <= 0xFF5E else CHARACTERS.get(c, c) for c in text)
    text = text.replace("\\\\", "\n").replace("&=", " =").replace("& =", "  =")
    text = without_tags(without_commands(text).replace("{,}", ","))
    text = without_fences(text)
    out = ""
    for sign in text:
        if sign == "^":
            stripped = out.rstrip(" ")
            out = stripped if stripped[-1:] and stripped[-1] in LETTERS else out
        if sign in "`$":
            sign = " "
        out += sign
    out = without_bold(out)
    out = "".join(
        " " if c == "_" and (ends_word(out[i - 1 : i] if i else "", 0) or ends_word(out, i + 1)) else c
        for i, c in enumerate(out)
    )
    out = without_quotes(out)
    while out[:1] and out[0] in " \n})]:":
        out = out[1:]
    lines = [line.strip() for line in out.split("\n")]
    lines = [line for line in lines if line and not (len(line) >= 3 and all(c in "-=*~# " for c in line))]
    return [unwrapped(line) for line in lines]


def without_quotes(text):
    """The text without single quotation marks that open and close."""
    out, place = "", 0
    while place < len(text):
        close = text.find("'", place + 1)
        opens = text[place] == "'" and (not place or not is_word_sign(text[place - 1]))
        if opens and close > 0 and "\n" not in text[place:close] and ends_word(text, close + 1):
            out, place = f"{out} {text[place + 1 : close]} ", close + 1
        else:
            out, place = out + text[place], place + 1
    return out


def unwrapped(line):
    emphasised = len(line) > 2 and line[0] == "*" == line[-1] and line[1] != " " and line[-2] not in " *"
    return line[1:-1] if emphasised else line


def without_commands(text):
    for wrapper in WRAPPERS:
        place = text.find("\\" + wrapper)
        while place >= 0:
            opening = place + len(wrapper) + 1
            while text[opening : opening + 1].isspace():
                opening += 1
            closing = text.find("}", opening)
            inside = text[opening + 1 : closing]
            if text[opening : opening + 1] == "{" and closing > 0 and "{" not in inside:
                text = text[:place] + " " + inside + " " + text[closing + 1 :]
            place = text.find("\\" + wrapper, place + 1)
    out, place = "", 0
    while place < len(text):
        if text[place] != "\\" or place + 1 == len(text):
            out, place = out + text[place], place + 1
            continue
        end = place + 1
        while end < len(text) and text[end] in LETTERS:
            end += 1
        name = text[place + 1 : end]
        if name in ("begin", "end") and text[end : end + 1] == "{" and "}" in text[end:]:
            closing = text.index("}", end)
            if all(c in LETTERS.lower()[:26] for c in text[end + 1 : closing]):
                out, place = out + " ", closing + 1
                continue
        if name:
            out, place = out + COMMANDS.get(name, "\\" + name), end
        else:
            sign = text[place + 1]
            out += " " if sign in ",;:! ()[]" else sign if sign in "{}*_#&%$+-" else "\\" + sign
            place += 2
    return out


def without_tags(text):
    for name in TAGS:
        for case in {name, name.upper(), name.title()}:
            for tag in (f"<{case}>", f"</{case}>", f"<{case}/>", f"<{case} />", f"<{case} >", f"</{case} >"):
                text = text.replace(tag, " ")
    return text


def without_fences(text):
    parts = text.split("```")
    out = parts[0]
    for part in parts[1:]:
        name = part.partition("\n")[0]
        named = name and "\n" in part and all(c in LETTERS for c in name)
        out += " " + (part[len(name) :] if named else part)
    return out


def powers(before, after):
    """Whether ** between two signs is a power."""
    return before in (*DIGITS, ")", "}", "]") and after in (*DIGITS, "(", "{", "-")


def without_bold(text):
    out, place = "", 0
    while place < len(text):
        if text[place : place + 2] == "**":
            before, after = out[-1:], text[place + 2 : place + 3]
            out += "^" if powers(before, after) else " "
            place += 2
            while out[-1] == " " and text[place : place + 1] == "*":
                place += 1
        elif (
            text[place : place + 4] == " ** "
            and out[-1:]
            and out[-1] in DIGITS + ")}]"
            and text[place + 4 : place + 5]
            and text[place + 4] in DIGITS + "({-"
        ):
            out, place = out + "^", place + 4
        elif text[place : place + 2] == "__":
            out, place = out + " ", place + 2
        else:
            out, place = out + text[place], place + 1
    return out


# Remarks and bullets.


def word_at(text, place):
    """The run of letters and apostrophes at a place, in small letters."""
    end = place
    while end < len(text) and (text[end] in LETTERS or text[end] == "'"):
        end += 1
    return text[place:end].lower()


def is_remark_word(text, place):
    """Whether a word of two letters or more, which is no operator, begins at a place."""
    if (place and is_word_sign(text[place - 1])) or not text[place : place + 1] or text[place] == "'":
        return False
    word = word_at(text, place)
    plain_word = word.split("'")[0]
    operator = plain_word in OPERATOR_WORDS and ends_word(text, place + len(plain_word))
    return len(word) >= 2 and not operator


def skip_blanks(text, place):
    while text[place : place + 1] == " ":
        place += 1
    return place


def without_remark(line):
    for place, sign in enumerate(line):
        after = skip_blanks(line, place + 1)
        if sign == "." and after > place + 1:
            alone = line[after : after + 1] in ("i", "I") and ends_word(line, after + 1)
            if alone or is_remark_word(line, after):
                line = line[:place]
                break
    for place in range(len(line)):
        start = place + (line[place] in ",;")
        after = skip_blanks(line, start)
        if after > start and any(
            line[after:].lower().startswith(w) and ends_word(line, after + len(w)) for w in REMARKS
        ):
            line = line[:place]
            break
    for place in range(len(line)):
        start = place + (line[place] in ",;")
        after = skip_blanks(line, start)
        if after > start and line[after : after + 1] == "(":
            inside = line[after + 1 :].removesuffix(".")
            if inside.endswith(")") and not {"(", ")"} & set(inside[:-1]):
                inside = "(" + inside
                if any(is_remark_word(inside, i) for i in range(1, len(inside))):
                    line = line[:place]
                    break
    return line.removesuffix(".").rstrip(" ,;")


def without_bullets(line):
    while True:
        first, blank, rest = line.partition(" ")
        numbered = first[:-1].isdecimal() and first[-1:] in (".", ")") and len(first) <= 3
        if not blank or not (first in ("-", "+", "*", ">") or (first and set(first) == {"#"}) or numbered):
            return line
        line = rest.lstrip(" ")
