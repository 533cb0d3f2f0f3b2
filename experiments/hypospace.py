"""HypoSpace: how many of the hypotheses that explain the observations does a trained policy still produce?

Claim     Trained by expected return (GRPO), a policy keeps few of many equally good hypotheses; inverse probability
          scaling (IPS-GRPO) keeps most of them at the same validity; answer re-weighting (ProGRPO) lies between.
Paper     Table 2 of arXiv 2601.21669 on the benchmark of arXiv 2510.15614: recovery of GRPO 9.50 / 16.02 / 31.61 % and
          of IPS-GRPO 60.74 / 43.91 / 90.00 % on Boolean, causal and voxel tasks, by Gemma-3 4B. Here: a transformer of
          100,000 parameters that starts from a prior which is competent and biased (`ipsrl.training.warm_start`).
Command   python -m experiments.hypospace
Time      demo six minutes on two CPU cores, smoke under one; paper, not run, hours.
Expected  Boolean, recovery / validity +- 0.05: prior 0.35 / 0.55, GRPO 0.20 / 0.99, IPS-GRPO 0.57 / 0.97,
          ProGRPO 0.33 / 0.99; ceiling of independent answers 0.67.
Smoke     python -m experiments.hypospace --preset=smoke
Figure    OUT/hypospace.png, .pdf and .csv, drawn by the same command; --resume draws them again from what is there.

What is measured, and how: `experiments.text_tasks`.
"""

import dataclasses
import functools

from experiments.launch import launch
from experiments.text_tasks import SMOKE, Settings, run

PRESETS = {
    "smoke": dataclasses.replace(SMOKE, tasks="hypospace_boolean(operators=basic, depth=2)"),
    "demo": Settings(),
    "paper": Settings(
        tasks="hypospace_boolean(operators=full, depth=2),hypospace_causal(nodes=4, perturbations=2),"
        "hypospace_voxels(blocks=2, fixed=True)",
        seeds="0:5",
        steps=600,
    ),
}

MANY_HOSTS = MIRRORS = True

if __name__ == "__main__":
    launch("hypospace", PRESETS, functools.partial(run, "hypospace"), many_hosts=MANY_HOSTS, mirrors=MIRRORS)
