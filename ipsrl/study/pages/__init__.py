"""Pages on a study for readers: tables, claims, and a test of what was published."""
