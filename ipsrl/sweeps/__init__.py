"""Sweeps: many runs of an experiment, wherever there are machines. The command is scripts/sweep.py.

sweep_runs.py        the runs: a grid or a Python file -> `SweepRun`s, each with an identity
sweep_folder.py      the state of the runs, read from files
sweep.py             one sweep: runs what is left by a launcher, with a progress line and a report
launcher.py          the launcher interface; launcher_catalog.py lists launchers by name
    local.py, ray_cluster.py, slurm.py, tpu_pod.py, vmap.py
attempt.py           one run as a child process, until it has finished or failed
forked.py            such a process without the time for imports, for `local`
places.py            at most one run at a time at each place, for `local` and `tpu_pod`
"""
