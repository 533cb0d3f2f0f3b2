from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipsrl.environments.reading.numeric_answers import read_number
from tests.work import calls_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("6 * 7 = <<6*7=42>>42\n#### 42", "42"),
        ("7 apples. #### 1,234.50 dollars", "1234.5"),
        ("#### nothing; I got 7.", None),
        (r"Thus \boxed{\frac{3}{4}}, as 5 > 4.", "3/4"),
        (r"\boxed{\boxed{3}}", "3"),
        ("She has 1.  3 * 100", None),
        (r"\boxed{-\dfrac{3}{4}}", "-3/4"),
        (r"\boxed{\tfrac{-3}{4}}", "-3/4"),
        (r"\boxed{2\frac12}", "5/2"),
        (r"\boxed{x = 5}", "5"),
        (r"\boxed{1{,}234\text{ m}^2}", "1234"),
        ("The answer is $1,000,000. It took 3 steps.", "1000000"),
        ("answer = 5 of them", "5"),
        ("The answer is no\nWe count 8", None),
        ("it costs -$5", "-5"),
        ("it costs $-5", "-5"),
        ("it costs \\$.50", "0.5"),
        ("from 10-5", None),
        ("10-5", "5"),
        ("(3)-2", "1"),
        ("−7", "-7"),
        ("50%", "50"),
        ("2 1/2 hours", "5/2"),
        ("-2 1/2", "-5/2"),
        ("1.5e-3", "0.0015"),
        (r"3 \times 10^{5}", "300000"),
        ("3×10^-2", "0.03"),
        ("x2 = 3", "3"),
        ("1,2345", None),
        ("012", "12"),
        ("", None),
        ("1/0", None),
        ("0/5", "0"),
        ("9" * 100, "9" * 100),
        ("9" * 101, None),
        ("1e300", "1e300"),
        ("1e301", None),
        ("1e-999999999", None),
        ("1/" + "9" * 101, None),
    ],
)
def test_texts(text, number):
    assert read_number(text) == (None if number is None else Fraction(number))


SAME = st.sampled_from(["{}", "#### {}", "x = 3. #### {} units", r"\boxed{{{}}}", "the answer is {}.", "1 or 2 or\n{}"])


@settings(deadline=None)
@given(st.fractions(-(10**6), 10**6, max_denominator=1000), SAME)
def test_fractions_are_read_back(value, template):
    assert read_number(template.format(value)) == value
    sign = "-" if value < 0 else ""
    latex = rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert read_number(template.format(latex)) == value


@settings(deadline=None)
@given(st.decimals(-(10**9), 10**9, places=4), SAME)
def test_decimals_are_exact(value, template):
    for text in (f"{value:f}", f"{value:,f}", f"{value}", f"{value:.12E}"):
        assert read_number(template.format(text)) == Fraction(value)


@pytest.mark.parametrize("text", ["1e999999999", "10**10**10**" + "9" * 10_000], ids=["exponent", "powers"])
def test_huge_numbers_are_not_computed(text):
    calls, number = calls_of(read_number, text)
    assert number is None
    assert calls < 1000
