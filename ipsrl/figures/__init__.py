"""One drawing function for each figure, and beside it one that gives the numbers that it draws."""
