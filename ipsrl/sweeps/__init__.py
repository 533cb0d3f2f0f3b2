"""Sweeps: many runs of an experiment, wherever there are machines. The command is scripts/sweep.py.

runs.py        which runs: a grid or a Python file -> `SweepRun`s, each with an identity
folder.py      what has become of them, read from files
sweep.py       one sweep: what is to do, by a launcher, with a progress line and a report
launcher.py    what a launcher is; launchers.py has them by name
    local.py, ray_cluster.py, slurm.py, tpu_pod.py, vmap.py
attempt.py     one run as a child process, until it has finished or failed
forked.py      such a process without the time that imports take, for `local`
places.py      as many runs at a time as there are places, for `local` and `tpu_pod`
"""
