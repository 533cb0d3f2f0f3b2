"""Sweeps: many runs of an experiment, wherever there are machines. The command is scripts/sweep.py.

runs.py       which runs: a grid or a Python file -> `SweepRun`s, each with an identity
folder.py     what has become of them, read from files
attempt.py    one run as a child process
sweep.py      one sweep: what is to do, by a launcher, with a progress line and a summary
launchers.py  the launchers by name; each has a file of its own
"""
