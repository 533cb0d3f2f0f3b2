"""Right and wrong outcomes: what studies of verifiers that err share."""
