"""An exam: what studies of batches and group sizes share."""
