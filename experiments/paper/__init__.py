"""The figures and tables of the paper, arXiv 2601.21669, and of our own; `scripts/reproduce_figures.py` makes them."""
