"""Exact numbers in text by the package `math-verify` (github.com/huggingface/Math-Verify), which an extra installs.

It reads LaTeX by a grammar of its own. Arithmetic outside of LaTeX goes through SymPy's `parse_expr`, which evaluates;
the pattern before it lets nothing but digits, blanks and the signs + - * / ^ ( ) . × ÷ through, so nothing can be
called. That was read in the version that the extra installs. Powers may be huge: read in processes with time limits.
"""

import logging
from fractions import Fraction
from typing import Any

from ipsrl import extras
from ipsrl.environments.reading.answer_text import LONGEST_ANSWER, without_thoughts

# Imported with this module: the seconds that they take are then no part of the time of an answer.
try:
    import sympy
    from math_verify import parse
except ImportError:
    extras.require("math_verify")
    raise

# It would warn that there is no alarm.
logging.getLogger("math_verify").setLevel(logging.ERROR)


def read_by_math_verify(text: str) -> Fraction | None:
    """The rational number that math-verify finds in a text, exactly, or None if there is none.

    Only the last 4,000 characters are read, and no thoughts. Of an equation the right side counts. 50% is 50.
    """
    try:
        # Without an alarm, as it may be in spite of its annotation: signals work in no thread but the main one.
        found = parse(without_thoughts(text)[-LONGEST_ANSWER:], parsing_timeout=None)  # ty: ignore[invalid-argument-type]
        return _exact(found[0]) if found else None
    # SymPy raises what its depths lead to, as of infinities or of a recursion that is too deep.
    except Exception:
        return None


def _exact(value: Any) -> Fraction | None:
    while isinstance(value, sympy.Eq):
        value = value.rhs
    if isinstance(value, sympy.Mul) and isinstance(value.args[-1], sympy.UnevaluatedExpr):
        value = value.args[0]
    value = value.doit() if isinstance(value, sympy.Expr) else None
    if isinstance(value, sympy.Float):
        return Fraction(str(value))
    return Fraction(int(value.p), int(value.q)) if isinstance(value, sympy.Rational) else None
