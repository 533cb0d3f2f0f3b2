"""The plain spelling of a line of text: a second time, from docs/answers.md, without patterns."""

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
    **dict.fromkeys(["blacksquare", "square", "qed"], " "),
}
WRAPPERS = ("text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "operatorname")
TAGS = ("b", "i", "u", "em", "strong", "code", "pre", "p", "div", "span", "br", "center")


def plain(text):
    """The lines of a text without decoration."""
    for minus in "−﹣－":
        while minus + " " in text:
            text = text.replace(minus + " ", minus)
    text = "".join(chr(ord(c) - 0xFEE0) if 0xFF01 <= ord(c) <= 0xFF5E else CHARACTERS.get(c, c) for c in text)
    text = (
        "".join(" " if is_picture(sign) else sign for sign in text.replace("\\\\", "\n"))
        .replace("&=", " =")
        .replace("& =", "  =")
    )
    text = with_degrees(without_ties(text))
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
    out = without_stars(without_bold(out))
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


def without_ties(text):
    """The text with blanks in place of ties between a number, or a box, and its unit."""
    out = ""
    for place, sign in enumerate(text):
        before, behind = text[:place], text[place + 1 :].removeprefix("\\")
        if before.endswith("{"):
            command = before[:-1].rstrip()
            name = next((name for name in ("\\text", "\\textrm", "\\mathrm") if command.endswith(name)), None)
            before = command.removesuffix(name) if name else before
        while before.endswith((" ", "\\,", "\\;")):
            before = before[: -1 if before.endswith(" ") else -2]
        ties = sign == "~" and behind[:1] and behind[0] in LETTERS and before[-1:] in (*DIGITS, "\ue000")
        out += " " if ties else sign
    return out


def is_picture(sign):
    return sign in "\u220e" or any(
        first <= sign <= last
        for first, last in (
            ("\u2600", "\u27bf"),
            ("\u2b00", "\u2bff"),
            ("\u25a0", "\u25ff"),
            ("\U0001f000", "\U0001faff"),
        )
    )


def without_stars(text):
    """The text without single stars around words: emphasis, where no operand stands before the first."""
    place = 0
    while place < len(text):
        close = text.find("*", place + 1)
        before = text[place - 1 : place] if place else ""
        operand = before == " " and place > 1 and text[place - 2] in DIGITS + ")}]"
        opens = text[place] == "*" and (not before or before.isspace() or before in ":=(") and not operand
        inside = text[place + 1 : close]
        whole = inside and not inside[0].isspace() and not inside[-1].isspace() and "\n" not in inside
        if (
            opens
            and close > 0
            and whole
            and ends_word(text, close + 1)
            and text[close + 1 : close + 2] not in ("(", "*")
        ):
            text = f"{text[:place]} {inside} {text[close + 1 :]}"
            place = place + len(inside) + 2
        else:
            place += 1
    return text


def with_degrees(text):
    """The text with a sign in place of ^\\circ and ^{\\circ}."""
    place = text.find("^")
    while place >= 0:
        start = skip_blanks(text, place + 1)
        braced = text[start : start + 1] == "{"
        start = skip_blanks(text, start + 1) if braced else start
        end = start + len("\\circ")
        if text.startswith("\\circ", start):
            closing = skip_blanks(text, end) if braced else end
            if text[closing : closing + 1] == "}" if braced else text[end : end + 1] not in tuple(LETTERS):
                text = text[:place] + "°" + text[closing + braced :]
        place = text.find("^", place + 1)
    return text


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
            if all(c in LETTERS.lower()[:26] for c in text[end + 1 : closing].removesuffix("*")):
                out, place = out + " ", closing + 1
                continue
        if name:
            out, place = out + COMMANDS.get(name, "\\" + name), end
        else:
            sign = text[place + 1]
            if sign == "!":
                place = skip_blanks(text, place + 2)
                continue
            out += " " if sign in ",;: ()[]" else sign if sign in "{}*_#&%$+-" else "\\" + sign
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


def first_name(text):
    """The letters, digits and low lines at the beginning of a text, in small letters."""
    end = 0
    while end < len(text) and is_word_sign(text[end]):
        end += 1
    return text[:end].lower()


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


def without_bullet(line):
    first, blank, rest = line.partition(" ")
    rest = rest.lstrip(" ")
    numbered = first[:-1].isdecimal() and first[-1:] in (".", ")") and len(first) <= 3
    operand = numbered and rest[:1] in ("+", "-", "*", "/")
    found = first in ("-", "+", "*", ">") or (first and set(first) == {"#"}) or (numbered and not operand)
    return rest if blank and found else line


def skip_space(text, place):
    while text[place : place + 1].isspace():
        place += 1
    return place
