"""One HTML page about any number of runs: read (`recorded_runs`), arranged (`content`), written (`page`)."""
