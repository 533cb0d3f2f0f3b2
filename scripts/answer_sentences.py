r"""Sentences around a number, of which `scripts/answer_frames.py` makes frames: @a is the answer, @o another number.

They were written after those parts, when the readers had been mended by both halves of them: the first of each list was
found by a reader of the program, the rest are their siblings. docs/answers.md says what was measured on them unseen.
"""

# Each ends a line.
OPENINGS = (
    *("", "We add both numbers.\n\n", "Step 1: Add the numbers.\nStep 2: Check them.\n\n", "$$@l + 3 = @a$$\n\n"),
    *("First, $@l + 3 = @a$.\n", "<think>Not @o, I believe.</think>", "Let $x$ be the number of apples.\n\n"),
)
ENDINGS = ("", "\n", "\n\nI hope this helps!", "\n\nThis is the number of apples.")

RIGHT_SENTENCES = (
    *(r"The difference between the two is $@l+3=\boxed{@a}$.", r"The distance between A and B is \boxed{@a}."),
    *(r"The ratio between them is \boxed{@a}", r"The area under the curve is \boxed{@a}.", r"\boxed{\boxed{@a}}"),
    *(r"The opposite side has length \boxed{@a}.", r"the inverse of 3 is \boxed{@a}", r"> \boxed{@a}", "*Answer:* @a"),
    *(r"Without the discount the price would be \boxed{@a}.", r"There are \boxed{@a} primes below 10000."),
    *(r"The students who do not swim number \boxed{@a}", r"$n \equiv \boxed{@a}\pmod 7$", r"(B) \boxed{@a}"),
    *(r"$n \equiv \boxed{@a}\bmod 7$", r"$\boxed{@a \mathrm{~cm}}$", r"$\boxed{@a~\text{cm}}$", r"1) \boxed{@a}"),
    *("The answer is @a, not @o.", r"\boxed{@a} (not @o)", r"The answer is \textbf{(C)}\ @a"),
    *(r"The gap between the two trains is \boxed{@a} km.", r"The area above the line is $\boxed{@a}$ square units."),
    *(r"The path around the lake has \boxed{@a} meters.", r"The negative root gives \boxed{@a}."),
    *(r"The angle opposite side $a$ is $\boxed{@a^\circ}$.", r"The children who did not come are \boxed{@a}."),
    *(r"Below the surface the temperature is \boxed{@a} degrees.", r"Without tax she pays \boxed{@a} dollars."),
    *(r"There are $\boxed{@a}$ positive integers less than 5000.", r"So there are \boxed{@a} even numbers up to 9000."),
    *(r"$x \equiv \boxed{@a} \pmod {11}$", r"$\boxed{@a}~\mathrm{km}$", r"\boxed{@a\,\mathrm{~kg}}", r"c) \boxed{@a}"),
    *(r"\boxed{\textbf{(D)}\ @a}", "_Answer:_ @a", "The final answer is @a (not @o).", r"**(A)** \boxed{@a}"),
    *(
        "#### (E) @a",
        r"The number of divisors of 5040 is \boxed{@a}",
        r"It has \boxed{@a} divisors between 1 and 8000.",
    ),
    *(r"The sum of all the numbers under 3 is \boxed{@a}.", r"The result is given by \boxed{@a}."),
    *(r"This simplifies to \boxed{@a}.", r"which is equivalent to \boxed{@a}", r"So we are left with \boxed{@a}."),
    # Written after the mend by those above.
    *(r"Between noon and six he sells \boxed{@a} tickets.", r"The inverse function at 2 has value \boxed{@a}."),
    *(r"The opposite angle is $\boxed{@a}$ degrees.", r"The people who had not paid were \boxed{@a}."),
    *(r"Without the tip, the bill was \boxed{@a} dollars.", r"The train under the bridge needs \boxed{@a} seconds."),
    *(r"There are exactly \boxed{@a} two-digit primes.",),
    *(r"There are \boxed{@a} integers between 1 and 100 that work.", r"$2^{10} \equiv \boxed{@a} \pmod{13}$"),
    *(r"$a \equiv \boxed{@a}\mod 13$", r"$\boxed{@a~\mathrm{m}}$", r"$\boxed{@a\ \text{kg}}$", r"\boxed{@a}~km"),
    *(r"2) $\boxed{@a}$", r"(a) $\boxed{@a}$", r"b) The area is \boxed{@a}.", "**Answer**: (B) @a"),
    *(r"Answer: \textbf{(E) }@a", r"The answer is \boxed{\text{(B) } @a}", "So the answer is @a, not @o."),
    *(r"We end up with \boxed{@a}.", r"The sum evaluates to $\boxed{@a}$.", r"It amounts to \boxed{@a} dollars."),
    *(r"The total came to \boxed{@a}.", r"The height above the ground is \boxed{@a} m."),
    *(r"Around the table sit \boxed{@a} guests.", r"The negative numbers have sum \boxed{@a}."),
    *(r"The line passes through $y = \boxed{@a}$", r"After 3 days there are \boxed{@a} left."),
    *(r"Before lunch she had \boxed{@a}.", r"> The answer is \boxed{@a}.", r">> \boxed{@a}", r"* \boxed{@a}"),
    *(r"The fewer of the two is \boxed{@a}.", r"Each of the friends gets \boxed{@a}"),
    *(r"The shorter side measures \boxed{@a} cm", r"They meet after \boxed{@a} hours.", r"Her age was \boxed{@a}"),
    *(r"It takes them \boxed{@a} days.", r"The price dropped by \boxed{@a} dollars."),
)

WRONG_SENTENCES = (
    *(r"10 decreased by \boxed{@a}", r"Subtract \boxed{@a}", r"Multiply this by \boxed{@a}", r"twofold \boxed{@a}"),
    *(r"10 to the power \boxed{@a}", r"two point \boxed{@a}", r"after \boxed{@a}", r"before \boxed{@a}"),
    *(r"It exceeds \boxed{@a}", r"this contradicts \boxed{@a}", r"Is it \boxed{@a}?", r"\boxed{@a} doubled"),
    *(r"If we forget the first, we get \boxed{@a}", r"\boxed{@a} multiplied by itself", r"\boxed{@a} point two"),
    *(r"\boxed{@a} dollars fifty", r"\boxed{@a} times", r"\boxed{@a} in ten", "Answer: @a (times 2)"),
    *(r"\boxed{@a} is what a careless solver writes", "Answer: @a (doubled)", "#### @a (add 2)"),
    *("#### @a (minutes past 3)", r"$12 \bmod \boxed{@a}$", r"$\boxed{@a} \bmod 2$", r"The opposite of \boxed{@a}"),
    *(r"Divide by \boxed{@a}", r"the total increased by \boxed{@a}", r"Add \boxed{@a}", r"Multiply \boxed{@a}"),
    *(
        r"x raised to \boxed{@a}",
        r"one comma \boxed{@a}",
        r"the number following \boxed{@a}",
        r"It precedes \boxed{@a}",
    ),
    *(r"It is greater than \boxed{@a}", r"Take it from \boxed{@a}", r"Could the answer be $\boxed{@a}$?"),
    *(r"\boxed{@a} tripled", r"\boxed{@a} halved", r"\boxed{@a} increased by one", r"\boxed{@a} raised to the third"),
    *(r"A careless student would get \boxed{@a}", r"If we forgot to carry, the sum would be \boxed{@a}"),
    *(r"\boxed{@a} euros twenty", r"\boxed{@a} hours thirty", r"\boxed{@a} per ten", r"\boxed{@a} every two days"),
    *("Answer: @a (halved)", "#### @a (subtract 3)", "Answer: @a (plus 2)", "#### @a (3 less)", "Answer: @a (per 100)"),
    *(r"\boxed{@a} is what you get if you forget one", r"\boxed{@a} is a common mistake", r"threefold \boxed{@a}"),
    *(r"We exclude \boxed{@a}", r"reject \boxed{@a}", r"It surpasses \boxed{@a}", r"\boxed{@a} added to itself"),
    *("The answer is not @a, but @o or more.", r"\boxed{@a} (not @a)", r"\boxed{@a} degrees below 90000"),
    # Written after the mend by those above.
    *(r"ten lowered by \boxed{@a}", r"Deduct \boxed{@a}", r"Increase it by \boxed{@a}", r"tenfold of \boxed{@a}"),
    *(r"ten to the \boxed{@a}", r"three dot \boxed{@a}", r"since \boxed{@a}", r"until \boxed{@a}"),
    *(r"It falls short of \boxed{@a}", r"this rules out \boxed{@a}", r"Would it be \boxed{@a}?"),
    *(r"\boxed{@a} quadrupled", r"\boxed{@a} by itself twice", r"\boxed{@a} dot two", r"\boxed{@a} pounds ten"),
    *(r"\boxed{@a} times over", r"\boxed{@a} of ten", r"\boxed{@a} is the trap", "Answer: @a (tripled)"),
    *("#### @a (take away 2)", "#### @a (hours before 3)", "Answer: @a (to the power 2)", r"Square \boxed{@a}"),
    *(r"Double \boxed{@a}", r"Half \boxed{@a}", r"Take \boxed{@a} away", r"Remove \boxed{@a}"),
    *(r"Suppose it were \boxed{@a}", r"Had we missed one, we would get \boxed{@a}", r"Some would say \boxed{@a}"),
    *(r"We can discard \boxed{@a}", r"\boxed{@a} is impossible", r"\boxed{@a} is the wrong answer"),
    *(r"\boxed{@a} seems too big", r"\boxed{@a} squared", r"\boxed{@a} to the fourth", r"\boxed{@a} per cent of 20"),
    *(r"\boxed{@a} less two", r"\boxed{@a} cubed", r"\boxed{@a} in a hundred", r"guess: \boxed{@a}"),
    *(r"It lies between two and \boxed{@a}", r"one over \boxed{@a}", r"The square of \boxed{@a}"),
    *(r"The log of \boxed{@a}", r"the remainder by \boxed{@a}"),
)
