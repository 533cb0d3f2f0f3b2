"""One module for each claim or figure of a paper: `python -m experiments.<name> --preset=smoke|demo|paper`."""
