"""One drawing function for each figure."""
