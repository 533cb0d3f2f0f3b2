"""One HTML page about any number of runs: read (`folders`), arranged (`content`), written (`page`)."""
