"""Every declared row of the catalog."""

import rows_balance
import rows_clipping
import rows_diversity
import rows_entropy
import rows_expected_return
import rows_inverse_probability
import rows_plans
import rows_preferences
import rows_refinements
import rows_regularised
import rows_strata
import rows_token_probability
import rows_trust_region


class Rows(dict):
    """Says what to do about a row that is not declared, where a KeyError would say that it is not."""

    def __missing__(self, text):
        raise LookupError(
            f"{text!r} is not declared: add it to ROWS of the module tests/objectives/rows_*.py which is named as its "
            "module of the catalog, as a Row (rows.py says what its fields are)"
        )


ROWS = Rows(
    {
        **rows_balance.ROWS,
        **rows_clipping.ROWS,
        **rows_diversity.ROWS,
        **rows_entropy.ROWS,
        **rows_expected_return.ROWS,
        **rows_inverse_probability.ROWS,
        **rows_preferences.ROWS,
        **rows_regularised.ROWS,
        **rows_strata.ROWS,
        **rows_refinements.ROWS,
        **rows_plans.ROWS,
        **rows_token_probability.ROWS,
        **rows_trust_region.ROWS,
    }
)
