"""Declarations of the rows in `catalog/low_probability.py`; in the rules n are counts, p the law, r the rewards."""

from rows import Row, standardised

ROWS = {
    # Both steps of Lopti at the same parameters add up to one.
    "ar_lopti": Row(True, 0, "equal rewards", lambda n, p, r: standardised(n, r) * (0.3 * p + 0.7)),
    "ar_lopti(lopti=False)": Row(True, 0, "equal rewards", lambda n, p, r: standardised(n, r) * (0.2 * p + 0.8)),
    # The bandit's law has no noise for kappa = 0.02 to take out, so that the proxy is the policy and pulls nowhere.
    "lp_reg": Row(True, 0, "equal rewards", lambda n, p, r: standardised(n, r)),
    "lp_reg(kappa=0.2, rho=0.5)": Row(True, 0, "equal rewards", lambda n, p, r: standardised(n, r)),
    "lp_reg(form=code)": Row(True, 0, "equal rewards", lambda n, p, r: standardised(n, r)),
}
