"""Text tasks whose answers are listed or counted: HypoSpace, countdown, addition, queens, colouring, factors, plans."""
