"""Every declared row of the catalog."""

import rows_balance
import rows_clipping
import rows_diversity
import rows_entropy
import rows_expected_return
import rows_inverse_probability
import rows_preferences
import rows_regularised
import rows_structure
import rows_token_probability
import rows_trust_region

ROWS = {
    **rows_balance.ROWS,
    **rows_clipping.ROWS,
    **rows_diversity.ROWS,
    **rows_entropy.ROWS,
    **rows_expected_return.ROWS,
    **rows_inverse_probability.ROWS,
    **rows_preferences.ROWS,
    **rows_regularised.ROWS,
    **rows_structure.ROWS,
    **rows_token_probability.ROWS,
    **rows_trust_region.ROWS,
}
