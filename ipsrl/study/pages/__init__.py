"""What readers see of a study: tables, pages of claims, and a test of what was published."""
