"""Countdown: of all expressions that reach the target, how many does a trained policy still write?

Claim     Where a problem has several solutions, expected return (GRPO) keeps few of them, inverse probability scaling
          (IPS-GRPO) most, at the same validity: what HypoSpace shows holds for arithmetic as well.
Paper     The task of TinyZero (github.com/Jiayi-Pan/TinyZero), which rewards any solution and counts none. The claim is
          that of arXiv 2601.21669; it has no numbers for this task.
Command   python -m experiments.countdown
Time      demo a quarter of an hour on two CPU cores beside other work, smoke under one minute; paper, not run, hours.
Expected  recovery / validity +- 0.05 (three seeds): prior 0.24 / 0.33, GRPO 0.20 / 1.00, IPS-GRPO 0.47 / 0.97, ProGRPO
          0.23 / 0.99; ceiling of independent answers 0.67.
Smoke     python -m experiments.countdown --preset=smoke
Figure    OUT/countdown.png, .pdf and .csv, drawn by the same command; --resume draws them again from what is there.

What is measured, and how: `experiments.text_tasks`. The policy is a small transformer in a compact language; a language
model from a folder of Hugging Face takes its place by --policy=hf --model_dir=DIR.
"""

import dataclasses
import functools

from experiments.launch import launch
from experiments.text_tasks import SMOKE, Settings, run

DEMO = "countdown(numbers=4, problems=64, largest_number=12, largest_target=40, least_solutions=4)"

PRESETS = {
    "smoke": dataclasses.replace(
        SMOKE, tasks="countdown(numbers=3, problems=16, largest_number=9, largest_target=30, least_solutions=2)"
    ),
    "demo": Settings(tasks=DEMO, prompts_per_step=32, micro_batches=4),
    "paper": Settings(tasks=DEMO, prompts_per_step=32, micro_batches=4, seeds="0:5", steps=600),
}

MANY_HOSTS = MIRRORS = True

if __name__ == "__main__":
    launch("countdown", PRESETS, functools.partial(run, "countdown"), many_hosts=MANY_HOSTS, mirrors=MIRRORS)
