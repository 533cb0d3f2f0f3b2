r"""How many of the ways in which models give an answer does a reader read? `python scripts/answer_frames.py`.

    python scripts/answer_frames.py --parser=math_verify
    python scripts/answer_frames.py --parts=first --show

A frame is a text around a number, put together from parts that stand in lists: what was worked out before, the words
that lead to the answer, what holds it, what follows. A right frame gives the number as the answer. A wrong one holds it
where another number is meant, or none: with a factor, a doubt, an alternative, a correction below. Prints how many
right frames each parser reads as the number and how many wrong ones, for each form of answer.

The parts at even places of the lists are the first half: the readers were mended by what they made of it. The frames of
the second half have only parts at odd places, and "sentences" are whole sentences of `scripts/answer_sentences.py`,
written later; docs/answers.md says what was measured on both before any was looked at.

--parser=NAME of `math_answers`, both by default (math_verify needs the extra [math])
--parts=first, second or sentences, all by default
--show also prints each frame that is read wrongly
"""

import argparse
import collections
import dataclasses
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.answer_frames")
    # Where it runs as a module, Python does not put its folder on the path.
    sys.path.append(str(Path(__file__).parent))

from answer_sentences import ENDINGS, OPENINGS, RIGHT_SENTENCES, WRONG_SENTENCES
from ipsrl.command.ending import Ending
from ipsrl.environments.language.math_answers import MathAnswers
from ipsrl.text_table import aligned

HALVES = ("first", "second")
PARTS = (*HALVES, "sentences")
PARSERS = ("ours", "math_verify")
# Of each form, half and kind.
FRAMES = 250

# In the parts @a is the answer, @l is 3 less, and @o another number.
NUMBERS = ("5", "18", "72", "1,234", "160", "2.5", "40", "1200")

WORK = (
    *("", "We add both numbers. ", "We add both numbers.\n", "Let us begin.\n\nWe add both numbers.\n\n"),
    *("@l + 3 = @a. ", "@l + 3 = @a, ", "We add both numbers! ", "Adding gives @l + 3 = @a.\n\n"),
    *("Step 1: Add the numbers.\nStep 2: Check them.\n\n", "**Step 1:** Add the numbers.\n\n**Step 2:** Check.\n\n"),
    *("First, $@l + 3 = @a$. ", "$$@l + 3 = @a$$\n\n", "1. Add 3.\n2. Done.\n\n", "- Add 3.\n- Done.\n\n"),
    *(
        "Is that all? Yes. ",
        "Do we have all of them? We do.\n",
        "We have 4 bags of 7 apples each. ",
        "It is 3 km away; ",
    ),
    *("<think>\n\\boxed{@o}?\n</think>\n\n", "<think>Not @o, I believe.</think>The work is short. "),
    *("At first it seems to be @o, but one is counted twice. ", "That is not @o.\n\n"),
    *("The answer is @o. Wait, one is missing.\n\n", "\\boxed{@o}\n\nWait, I forgot one.\n\n"),
    *("#### @o\n\nNo, one is counted twice.\n\n", "<answer>@o</answer>\nI made a mistake, so again:\n"),
    *(
        "### Solution\n\nWe add.\n\n",
        "**Solution.** We add. ",
        "Let $x$ be the number of apples.\n",
        "Let x be the cost.  ",
    ),
    *(
        "The 1st costs \\$3.50 per kg. ",
        "She pays $3 for each.\n",
        "\\begin{align*}\nx &= 1 + 2 \\\\\n&= 3\n\\end{align*}\n",
    ),
    *("```python\nprint(@l + 3)\n```\n", "| bags | apples |\n|---|---|\n| 1 | @l |\n\n", "Hence $y = 3$. ", "Good. "),
)

LEADS = (
    *("", "So the answer is ", "Therefore, the final answer is ", "The final answer is: ", "Thus, ", "Hence, we have "),
    *("Answer: ", "The answer: ", "**Final Answer:** ", "**Answer:** ", "**Final Answer**\n\n", "## Final Answer\n"),
    *("∴ ", "=> ", "$\\therefore$ ", "→ ", "So she has ", "He therefore needs "),
    *("In conclusion, the total number of apples is ", "This means that the number of boys is "),
    *("= ", "We get ", "This gives us ", "Our result is ", "Final result: ", "The result is therefore "),
    *("Altogether that makes ", "Adding these up yields ", "It follows that $n$ equals ", "So $x$ must be equal to "),
    *("Putting everything together, we arrive at ", "Summing all of it, she ends up with "),
    *("Final Answer: The final answer is ", "The answer to the question is ", "I get ", "So it's "),
    *("The number of students who do not swim is ", "The probability that at least one is red, in percent, is "),
    *("The value of $x + y$ is ", "The area of the triangle $ABC$ is ", "which is ", "and so the sum is "),
    *("Tom's age in 3 years will be ", "Natalia's clips in April and May: ", "So, in total, there are ", "Total: "),
    *("Without a doubt, the answer is ", "No more can be added, so the answer is ", "I am sure that it is ", "Sum = "),
)

BOXES = (
    *("\\boxed{@a}", "$\\boxed{@a}$", "\\(\\boxed{@a}\\)", "$$\\boxed{@a}$$", "\\[\\boxed{@a}\\]", "**\\boxed{@a}**"),
    *(
        "\\fbox{@a}",
        "$\\fbox{@a}$",
        "\\[\n\\boxed{@a}\n\\]",
        "$$\n\\boxed{@a}\n$$",
        "\\boxed{ @a }",
        "**$\\boxed{@a}$**",
    ),
    *("$\\boxed{\\text{@a}}$", "\\boxed{\\mathbf{@a}}", "$x = \\boxed{@a}$", "$@l + 3 = \\boxed{@a}$"),
    *("$a^2 + b^2 = \\boxed{@a}$", "$f(2) = \\boxed{@a}$", "\\[x = @l + 3 = \\boxed{@a}\\]", "$5! + 2 = \\boxed{@a}$"),
    *("$\\boxed{x = @a}$", "\\boxed{@a\\text{ apples}}", "$\\boxed{\\$@a}$", "$\\displaystyle\\boxed{@a}$"),
    *("\\boxed{@a.}", "$\\boxed{@a}.$", "\\textbf{\\boxed{@a}}", "*\\boxed{@a}*"),
)
BEHIND_BOXES = (
    *(
        "",
        ".",
        "!",
        " apples.",
        " apples in total.",
        " dollars!",
        " 🎉",
        " ✓",
        ". ✅",
        ", as required.",
        " as we wanted.",
    ),
    *("\n\nI hope this helps!", ". Let me know if you have any questions!", " is the answer.", " is the final answer!"),
    *(" minutes per day.", " (each).", " (rounded to the nearest whole number).", " (in dollars)", ".\n\n---\n"),
    *("\n\n**Check:** @l + 3 = @a. ✓", "\n\nCheck: $@a - 3 = @l$.", ", and we are done.", " ∎", " :)", " is correct."),
    *(
        " clips altogether in April and May.",
        " apples are left in the basket.",
        ", which is what was asked.",
        "; done.",
    ),
    *(
        " different ways to seat them.",
        " of them like tea.",
        "\n\nThis is the number of apples.",
        " km.",
        " $\\blacksquare$",
    ),
    *(" people at the party, including the host.", ".\n\nSo the shop sells that many.", "\\%", " for the whole trip."),
)

HASHES = (
    *("#### ", "####", "####\n", "#### Answer: ", "#### The answer is ", "#### **Answer:** ", "#### Total: "),
    *("#### Final answer: ", "#### x = ", "#### @l + 3 = ", "#### So she has ", "#### The total is "),
)
VALUES = (
    *("@a", "**@a**", "$@a$", "$@a", "\\(@a\\)", "`@a`", "\\$@a", "*@a*", '"@a"', "@a apples", "@a dollars"),
    *("\\boxed{@a}", "$\\boxed{@a}$", "**@a apples**", "__@a__", "€@a", "@a km/h", "$@a$ km", "@a%", "@a cm²"),
)
BEHIND_VALUES = (
    *(
        "",
        ".",
        " 👍",
        "\n",
        " ✓",
        ". ✅",
        " 🎉",
        " (rounded to the nearest whole number)",
        " (@l + 3)",
        " (@l + 3 = @a)",
    ),
    *("\n\nI hope this helps!", ". I hope it is correct.", ", as required.", " (in total)", "\n\n---\n", " in total."),
    *(
        ", which is what was asked.",
        "\n\nThis is the number of apples.",
        " (since @l + 3 is @a)",
        " because 3 are added.",
    ),
)

TAGGED = (
    *("<answer>@v</answer>", "<answer> @v </answer>", "<answer>\n@v\n</answer>", "<ANSWER>@v</ANSWER>"),
    *("<answer>The answer is @v.</answer>", "<answer>Answer: @v</answer>", "<answer>x = @v</answer>", "<answer>@v."),
    *(
        "<answer>```\n@v\n```</answer>",
        "<answer>\n#### @v\n</answer>",
        "<answer>So she has @v</answer>",
        "<answer>We have @v</answer>",
    ),
)
BEHIND_TAGS = (
    "",
    ".",
    "\n",
    "\n\nI hope this helps!",
    " ✓",
    "\nThe work above has 3 steps.",
    " Done.",
    "\n\n---",
    "</s>",
    " 🎉",
)

SAID = (
    *("The answer is ", "So the answer is ", "Answer: ", "The final answer is: ", "**Answer:** ", "**Answer**: "),
    *("### Answer\n", "**Final Answer**\n\n", "Therefore, the correct answer is ", "ANSWER: ", "My answer is "),
    *("Thus our final answer is ", "Result: ", "**Result:** ", "Final answer = ", "Hence the answer is simply "),
    *("So the answer to the question is ", "The answer for the whole week is ", "Final Answer: The final answer is "),
)
# Of texts without a marker, whose last sentence is the answer.
LAST = (
    *(
        "So there are ",
        "In total she has ",
        "Therefore, Tom pays ",
        "The total cost is ",
        "Her profit was ",
        "x = ",
        "A: ",
    ),
    *(
        "This means that the number of boys is ",
        "The number of students who do not swim is ",
        "That makes ",
        "",
        "Total: ",
    ),
)
BEHIND_LAST = ("", ".", " in total.", " ✓", " altogether in April and May.", " for the whole trip.", "\n", " left.")

# Each leaves another number, or none, of the right answer.
BEFORE_BOXES = (
    *("-", "minus ", "not ", "about ", "approximately ", "3 \\times ", "half of ", "less than ", "at most ", "1"),
    *("\\approx ", "≈ ", "at least ", "@o or ", "either @o or ", "twice ", "more than ", "$2 + ", "± ", "almost "),
    *("\\sqrt", "1.", "nearly ", "roughly ", "not equal to ", "the square root of ", "@o - ", "definitely not "),
    *(
        "the opposite of ",
        "−",
        "anything but ",
        "between @o and ",
        "a third of ",
        "\\geq ",
        "$x \\ge ",
        "neither @o nor ",
    ),
)
AFTER_BOXES = (
    *(" thousand", " or \\boxed{@o}", "^2", "\\pi", ".5", ",000", " dozen", " million apples.", " + 1", " is wrong."),
    *(" is not the answer.", " hundred", "\\times 10^3", " \\pm 1", "/2", "k", " squared", " or @o", " to @o", "-@o"),
    *(" and a half", " is incorrect.", " isn't right.", " percent of @o", "x", "% of @o", " times 2", "e3", " or so"),
    *(" minus 1", " (thousand)", " (negative)", " cannot be right.", "9", " plus tax", " or maybe @o apples."),
)
WRONG_BOXES = (
    *("\\boxed{@a + 1}", "\\boxed{-@a}", "\\boxed{@a, @o}", "\\boxed{(@a, @o)}", "\\boxed{@a!}", "\\boxed{\\sqrt{@a}}"),
    *("\\boxed{@a\\pi}", "\\boxed{@a \\text{ or } @o}", "\\boxed{@a \\times 10}", "\\boxed{2^{@a}}", "\\boxed{@a"),
    *("\\boxed{@ax}", "\\boxed{\\approx @a}", "\\boxed{> @a}", "\\boxed{@a/7}", "\\boxed{\\frac{@a}{7}}", "\\boxed{}"),
    *(
        "\\boxed{@a\\text{ thousand}}",
        "\\boxed{\\text{not } @a}",
        "\\boxed{x \\ne @a}",
        "\\boxed{@a \\pm 1}",
        "\\fbox{-@a}",
    ),
)
WRONG_VALUES = (
    *("-@a", "@a thousand", "about @a", "@a or @o", "not @a", "@a!", "@a^2", "@a²", "@a + 1", "@a/7", "@a dozen"),
    *("$-@a$", "**not @a**", "@a million", "> @a", "≈ @a", "less than @a", "@a to @o", "@a, @o", "@a and a half"),
    *("half of @a", "@a\\pi", "@a (thousand)", "@a (negative)", "@a hundred", "−@a", "2^@a", "@a grand", "twice @a"),
    *("@a (or @o)", "@a (+ 1)", "@a squared", "\\sqrt{@a}", "@ak", "√@a", "@a:30", "1 @a/7", "@a9", "minus @a", "@a?"),
)
# Below an answer; the last one counts, or none if it is no number.
CORRECTIONS = (
    *("\n\nWait, no: the answer is @o.", "\n\\boxed{@o}", "\n#### @o", "\n<answer>@o</answer>", "\n\n**Answer:** @o"),
    *("\n\nWait, one is missing. So it is $\\boxed{@o}$.", "\n\nCorrection: \\boxed{@o}", "\n\nFinal answer: unknown"),
    *("\n\nHmm, let me check. The final answer is @o apples.", "\nor \\boxed{@o}", "\nOr @o", "\n\n#### not known"),
    *(
        "\n\nAnswer: @o. I counted one twice before.",
        "\n\n<answer>-@a</answer>",
        "\n\nSo the answer is not @a.",
        "\n\\boxed{}",
    ),
)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A text around a number: `right` if it gives the number as the answer."""

    form: str
    right: bool
    text: str
    number: Fraction


def _forms() -> dict[tuple[str, bool], tuple[Sequence[str], ...]]:
    """Form of answer, and whether its frames are right -> the lists of its parts, in their order in a text."""
    boxes = BOXES[:6]
    unmarked = [work for work in WORK if not any(sign in work for sign in ("answer", "boxed", "####"))]
    return {
        ("box", True): (WORK, LEADS, BOXES, BEHIND_BOXES),
        ("hashes", True): (WORK, HASHES, VALUES, BEHIND_VALUES),
        ("tag", True): (WORK, TAGGED, VALUES, BEHIND_TAGS),
        ("words", True): (WORK, SAID, VALUES, BEHIND_VALUES),
        ("last sentence", True): (unmarked, LAST, VALUES, BEHIND_LAST),
        ("before a box", False): (WORK, LEADS, BEFORE_BOXES, boxes, BEHIND_BOXES),
        ("in a box", False): (WORK, LEADS, WRONG_BOXES, BEHIND_BOXES),
        ("behind a box", False): (WORK, LEADS, boxes, AFTER_BOXES),
        ("below a box", False): (WORK, LEADS, BOXES, BEHIND_BOXES, CORRECTIONS),
        ("hashes", False): (WORK, HASHES, WRONG_VALUES),
        ("below hashes", False): (WORK, HASHES, VALUES, CORRECTIONS),
        ("tag", False): (WORK, TAGGED, WRONG_VALUES, BEHIND_TAGS),
        ("words", False): (WORK, SAID, WRONG_VALUES),
        ("last sentence", False): (unmarked, LAST, WRONG_VALUES),
    }


def _chosen_forms(parts: str) -> dict[tuple[str, bool], tuple[Sequence[str], ...]]:
    if parts == "sentences":
        return {
            ("sentence", True): (OPENINGS, RIGHT_SENTENCES, ENDINGS),
            ("sentence", False): (OPENINGS, WRONG_SENTENCES, ENDINGS),
        }
    start = HALVES.index(parts)
    return {kind: tuple(part[start::2] for part in lists) for kind, lists in _forms().items()}


def frames(parts: str) -> Iterator[Frame]:
    """250 frames of each form, of the parts of one half of the lists or of "sentences", the same at every call."""
    random_numbers = random.Random(0)
    for (form, right), lists in _chosen_forms(parts).items():
        texts: dict[str, None] = {}
        while len(texts) < FRAMES:
            texts[_joined([random_numbers.choice(part) for part in lists])] = None
        for text, number in zip(texts, itertools.cycle(NUMBERS), strict=False):
            yield Frame(form, right, _filled(text, number), Fraction(number.replace(",", "")))


def _joined(parts: Sequence[str]) -> str:
    """The parts one behind the other, or in the place that a part has left; headings begin a line."""
    text = ""
    for part in parts:
        if text and part.startswith(("## ", "### ", "**Final Answer**\n")) and not text.endswith("\n"):
            text += "\n\n"
        text = text.replace("@v", part) if "@v" in text else text + part
    return text


def _filled(text: str, number: str) -> str:
    less = Fraction(number.replace(",", "")) - 3
    written = str(less) if less.denominator == 1 else f"{float(less)}"
    return text.replace("@a", number).replace("@l", written).replace("@o", "9")


def measured(read: Callable[[str], Fraction | None], tried: Sequence[Frame]) -> dict[tuple[str, bool], list[Frame]]:
    """Form of answer, and whether its frames are right -> those that are read wrongly: right ones as another number or
    none, wrong ones as the number. A wrong one that is read as another number, which may be its right one, is not."""
    failed: dict[tuple[str, bool], list[Frame]] = {(frame.form, frame.right): [] for frame in tried}
    for frame in tried:
        if (read(frame.text) == frame.number) != frame.right:
            failed[frame.form, frame.right].append(frame)
    return failed


def report(chosen_parts: Sequence[str], parsers: Sequence[str], show: bool = False) -> str:
    """A table with a line for each form, and the frames that are read wrongly."""
    readers = {name: MathAnswers(parser=name).reader for name in parsers}
    parts = []
    for name_of_parts in chosen_parts:
        tried = [*frames(name_of_parts)]
        failed = {name: measured(read, tried) for name, read in readers.items()}
        counts = collections.Counter((frame.form, frame.right) for frame in tried)
        table = [("frames", "form", "number", *(f"read by {name}" for name in parsers))]
        for right in (True, False):
            kinds = [kind for kind in counts if kind[1] == right]
            for chosen, form in [*(([kind], kind[0]) for kind in kinds), (kinds, "all")]:
                tries = sum(counts[kind] for kind in chosen)
                errors = [sum(len(failed[name][kind]) for kind in chosen) for name in parsers]
                read = [str(tries - number if right else number) for number in errors]
                table.append(("right" if right else "wrong", form, str(tries), *read))
        parts += [f"{name_of_parts} half" if name_of_parts in HALVES else name_of_parts, aligned(table)]
        if show:
            parts += [
                f"{name}: {frame.form}, {'right' if frame.right else 'wrong'}, {frame.number}: {frame.text!r}"
                for name in parsers
                for kind in failed[name].values()
                for frame in kind
            ]
    return "\n".join(parts)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--parser", choices=PARSERS, help="of math_answers, both by default")
    made.add_argument("--parts", choices=PARTS, help="a half of the lists or whole sentences, all by default")
    made.add_argument("--show", action="store_true", help="the frames that are read wrongly, too")
    return made


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(command_line)
    with Ending():
        chosen_parts = (arguments.parts,) if arguments.parts else PARTS
        print(report(chosen_parts, (arguments.parser,) if arguments.parser else PARSERS, arguments.show))


if __name__ == "__main__":
    main()
