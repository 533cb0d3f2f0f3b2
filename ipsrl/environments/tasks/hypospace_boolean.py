"""HypoSpace, Boolean interactions: which expressions of two variables explain some rows of a truth table?

Hypotheses differ by mechanism, not by truth table: x and x AND (x OR y) are two. Chen et al., arXiv 2510.15614.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence

import numpy as np

from ipsrl.checking.fields import between, one_of
from ipsrl.environments.listed_task import NO_OUTCOME
from ipsrl.environments.reading.answer_text import BULLET, SIGN, marker, without_remark
from ipsrl.environments.reading.arithmetic import BRACKETS, chain
from ipsrl.environments.reading.expressions import prefix
from ipsrl.environments.text import TextTask

VARIABLES = ("x", "y")
OPERATORS = {"basic": ("AND", "OR"), "extended": ("AND", "OR", "NOT"), "full": ("AND", "OR", "NOT", "NOR")}
ARITY = {"AND": 2, "OR": 2, "NOT": 1, "NOR": 2}
ROWS = tuple(itertools.product((0, 1), repeat=2))
# Far above what any expression within the depth limit needs, far below the recursion limit.
LONGEST_TEXT = 128

_SIGNS = (
    dict.fromkeys(("&", "&&", "∧"), "AND")
    | dict.fromkeys(("|", "||", "∨"), "OR")
    | dict.fromkeys("¬~!", "NOT")
    | {"↓": "NOR"}
)
# The name of what an expression defines: words, none of which may stand in an expression.
_NAME_WORD = rf"(?!(?:{'|'.join((*VARIABLES, *ARITY))})\b)[a-z]\w*"
_NAME = re.compile(rf"^{_NAME_WORD}(?: +{_NAME_WORD}){{0,2}} *(?:\( *x *, *y *\))? *[=:]", re.IGNORECASE)

# A variable, or an operator and its operands. In a mechanistic key AND and OR may have more than two operands.
Tree = str | tuple
Key = str | tuple
# Positions in `ROWS` with their outputs.
Rows = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class HypospaceBoolean(TextTask):
    """Hypotheses are expressions of x and y; one is valid if it agrees with every observed row.

    Two expressions are the same hypothesis if `mechanistic_key` is equal; the hypothesis space holds the keys of all
    expressions within the depth limit. Every choice of k rows, with the outputs of an expression, is a prompt.

    Compact answers are in Polish prefix notation ("AND NOT x y" is (NOT x) AND y); compact prompts hold one token for
    each observed row, "(x=0,y=1)->1". In text: "Expression: (NOT x) AND y". A random surface form is sampled uniformly
    from all expression trees of the hypothesis within the depth limit. Expressions that are too deep, or that use
    another operator, another variable or a constant, have no outcome, so every outcome is in the hypothesis space.

    Attributes:
      operators: "basic" (AND, OR), "extended" (and NOT) or "full" (and NOR).
      depth: maximum number of operators on a path from the root to a variable, 1 to 3.
      observations: k, or None for all of 1 .. 4.
    """

    operators: str = one_of(*OPERATORS, default="basic")
    depth: int = between(1, 3, 2)
    observations: int | None = between(1, len(ROWS), None)

    answer_marker = marker("expression", "formula", "function")
    answer_line = re.compile(rf"(?:\b(?:{'|'.join((*VARIABLES, *ARITY))})\b|{SIGN})+", re.IGNORECASE)

    @property
    def longest_answer(self) -> int:
        return 2 ** (self.depth + 1) - 1

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        rows = tuple(f"(x={x},y={y})->{output}" for x, y in ROWS for output in (0, 1))
        return (*VARIABLES, *OPERATORS[self.operators], *rows)

    @property
    def planning_symbols(self) -> tuple[str, ...]:
        """The operators: they determine the shape of the tree, whose leaves are variables."""
        return OPERATORS[self.operators]

    @functools.cached_property
    def productions(self) -> tuple[dict[Key, list[tuple]], ...]:
        """All productions of each key, for each depth limit 0 .. depth, from keys of the limit below.

        A production is `(variable,)` or `(operator, key, ...)`. Every tree within the limit has exactly one derivation.
        """
        levels = [{variable: [(variable,)] for variable in VARIABLES}]
        for _ in range(self.depth):
            level = {variable: [(variable,)] for variable in VARIABLES}
            for operator in OPERATORS[self.operators]:
                for operands in itertools.product(levels[-1], repeat=ARITY[operator]):
                    level.setdefault(joined_key(operator, *operands), []).append((operator, *operands))
            levels.append(level)
        return tuple(levels)

    @functools.cached_property
    def _canonical(self) -> tuple[dict[Key, tuple[int, str, Tree]], ...]:
        """Length, text and tree of each key for each depth limit: the shortest, of these the alphabetically first."""
        levels: list[dict] = []
        for level in self.productions:
            shortest = {}
            for key, ways in level.items():
                trees = (way[0] if len(way) == 1 else (way[0], *(levels[-1][k][2] for k in way[1:])) for way in ways)
                shortest[key] = min((len(prefix(tree)), infix(tree), tree) for tree in trees)
            levels.append(shortest)
        return tuple(levels)

    @functools.cached_property
    def _tree_counts(self) -> tuple[dict[Key, np.ndarray], ...]:
        """Cumulative numbers of trees of the productions of each key, for each depth limit."""
        levels: list[dict] = []
        for level in self.productions:
            counts = {
                key: np.cumsum([np.prod([levels[-1][k][-1] for k in way[1:]], dtype=np.int64) for way in ways])
                for key, ways in level.items()
            }
            levels.append(counts)
        return tuple(levels)

    @functools.cached_property
    def answers(self) -> tuple[Key, ...]:
        """The mechanistic keys: shortest canonical expression first."""
        canonical = self._canonical[-1]
        return tuple(sorted(canonical, key=lambda key: canonical[key][:2]))

    def name(self, answer: Key) -> str:
        return self._canonical[-1][answer][1]

    @functools.cached_property
    def truth_tables(self) -> np.ndarray:
        """`[K, 4]` int, the outputs of each hypothesis for the rows (0, 0), (0, 1), (1, 0), (1, 1)."""
        return np.array([[evaluate(key, x, y) for x, y in ROWS] for key in self.answers])

    @functools.cached_property
    def problem_table(self) -> dict[Rows, np.ndarray]:
        """The observed rows of each prompt -> `[K]` bool, which expressions agree with them."""
        table = self.truth_tables
        sizes = range(1, len(ROWS) + 1) if self.observations is None else (self.observations,)
        return {
            tuple(zip(rows, outputs, strict=True)): (table[:, rows] == outputs).all(axis=1)
            for size in sizes
            for rows in itertools.combinations(range(len(ROWS)), size)
            for outputs in np.unique(table[:, rows], axis=0).tolist()
        }

    def observation_symbols(self, problem: Rows) -> list[str]:
        return [f"(x={ROWS[row][0]},y={ROWS[row][1]})->{output}" for row, output in problem]

    def spell(self, answer: Key, rng: np.random.Generator | None) -> list[str]:
        return prefix(self._tree(answer, rng))

    def _tree(self, key: Key, rng: np.random.Generator | None) -> Tree:
        return self._canonical[-1][key][2] if rng is None else self._random_tree(key, self.depth, rng)

    def _random_tree(self, key: Key, level: int, rng: np.random.Generator) -> Tree:
        counts = self._tree_counts[level][key]
        way = self.productions[level][key][np.searchsorted(counts, rng.integers(counts[-1]), side="right")]
        return way[0] if len(way) == 1 else (way[0], *(self._random_tree(k, level - 1, rng) for k in way[1:]))

    def read_symbols(self, symbols: Sequence[str]) -> Tree | None:
        # Longer answers are too deep or malformed.
        if len(symbols) > self.longest_answer:
            return None
        stack: list[Tree] = []
        for symbol in reversed(symbols):
            if symbol in ARITY and len(stack) >= ARITY[symbol]:
                symbol = (symbol, *(stack.pop() for _ in range(ARITY[symbol])))
            elif symbol not in VARIABLES:
                return None
            stack.append(symbol)
        return stack[0] if len(stack) == 1 else None

    def read_text(self, text: str) -> Tree | None:
        """Infix or function notation, in words or signs, in any case, behind a name or not: `f(x, y) = x ∧ y`."""
        line = " ".join(map(without_remark, text.split("\n")))
        try:
            return read_infix(_NAME.sub("", BULLET.sub("", line, count=1), count=1))
        except ValueError:
            return None

    def outcome(self, answer: Tree) -> int:
        if depth_of(answer) > self.depth or not {*prefix(answer)} <= {*VARIABLES, *OPERATORS[self.operators]}:
            return NO_OUTCOME
        return super().outcome(mechanistic_key(answer))

    def answer_words(self, answer: Key, rng: np.random.Generator | None) -> str:
        return f"Expression: {infix(self._tree(answer, rng))}"

    def prompt_words(self, problem: Rows, earlier: str) -> str:
        observations = "\n".join(f"(x={ROWS[row][0]}, y={ROWS[row][1]}) -> {output}" for row, output in problem)
        return f"""\
A trait of the offspring (0 or 1) follows from the traits x and y of its two parents by an unknown Boolean expression.

Operators that the expression may use: {", ".join(OPERATORS[self.operators])}.
Operators may be nested at most {self.depth} deep; the constants 0 and 1 may not appear.

Crosses seen so far:
{observations}
{earlier}
These changes do not make an expression a different one: swapping the operands of AND, OR and NOR; repeating an \
operand of AND or OR; regrouping a chain of the same operator; writing NOT (a OR b) as NOR(a, b). Every other change \
of form does, even where the truth table stays the same.

Give one expression that agrees with all crosses. Among those that do, look for one that was not given before.

Answer with a single line, operators in capitals and variables in small letters, and nothing after it, for instance:
Expression: (x OR y) AND x"""


def joined_key(operator: str, *operands: Key) -> Key:
    """The mechanistic key of an operator over operands that are keys themselves.

    AND and OR: nested operands of the same operator are flattened, equal ones merged, the rest sorted; a single operand
    is returned as it is. NOT (a OR b) is NOR(a, b). Nothing else is simplified.
    """
    if operator == "NOT":
        (operand,) = operands
        return ("NOR", *operand[1:]) if operand[0] == "OR" else ("NOT", operand)
    if operator == "NOR":
        return joined_key("NOT", joined_key("OR", *operands))
    flat = {part for key in operands for part in (key[1:] if key[0] == operator else (key,))}
    return flat.pop() if len(flat) == 1 else (operator, *sorted(flat, key=str))


def mechanistic_key(tree: Tree) -> Key:
    """The common key of all expressions with the same mechanism."""
    return tree if isinstance(tree, str) else joined_key(tree[0], *map(mechanistic_key, tree[1:]))


def depth_of(tree: Tree) -> int:
    """0 for a variable, else 1 plus the depth of the deepest operand."""
    return 0 if isinstance(tree, str) else 1 + max(map(depth_of, tree[1:]))


def evaluate(tree: Tree, x: int, y: int) -> int:
    """The output 0 or 1 of an expression or of a key."""
    if isinstance(tree, str):
        return {"x": x, "y": y}[tree]
    values = [evaluate(operand, x, y) for operand in tree[1:]]
    return {"AND": min(values), "OR": max(values), "NOT": 1 - values[0], "NOR": 1 - max(values)}[tree[0]]


def infix(tree: Tree) -> str:
    """The expression in infix notation: `(x OR y) AND NOT x`, `NOR(x, y)`."""
    if isinstance(tree, str):
        return tree
    if tree[0] == "NOR":
        return f"NOR({infix(tree[1])}, {infix(tree[2])})"
    operands = [f"({infix(o)})" if o[0] in ("AND", "OR") else infix(o) for o in tree[1:]]
    return f"NOT {operands[0]}" if tree[0] == "NOT" else f" {tree[0]} ".join(operands)


def read_infix(text: str) -> Tree:
    """The tree of an infix expression; NOT binds closer than AND, AND closer than OR and NOR, chains from the left.

    Operators are words in any case or signs: & && ∧, | || ∨, ¬ ~ !, ↓. Binary ones may also be written as functions,
    `NOR(x, y)`. Groups stand in brackets of three kinds. An operand may be any letter or a constant 0, 1, true, false.

    Raises:
      ValueError: the text is not an expression, or has more than 128 words and signs.
    """
    words = re.findall(r"\w+|&&|\|\||\S", text)
    if len(words) > LONGEST_TEXT:
        raise ValueError("the expression is too long")
    words = [_SIGNS.get(word) or (word.upper() if word.upper() in ARITY else word.lower()) for word in words][::-1]

    def take(expected: str) -> None:
        if not words or words.pop() != expected:
            raise ValueError(f"{expected!r} is missing")

    def expression() -> Tree:
        return chain(words, ("OR", "NOR"), lambda: chain(words, ("AND",), factor))

    def factor() -> Tree:
        word = words.pop() if words else "nothing"
        if word == "NOT":
            return ("NOT", factor())
        if word in BRACKETS:
            tree = expression()
            take(BRACKETS[word])
            return tree
        if word in ARITY:
            take("(")
            first = expression()
            take(",")
            second = expression()
            take(")")
            return (word, first, second)
        if re.fullmatch("[a-z01]|true|false", word):
            return word
        raise ValueError(f"{word!r} cannot stand here")

    tree = expression()
    if words:
        raise ValueError(f"{words[-1]!r} cannot stand here")
    return tree
