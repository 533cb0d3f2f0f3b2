"""WHO acts."""
