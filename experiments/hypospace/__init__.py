"""HypoSpace: how many of the hypotheses that explain the observations does a trained policy still produce?

Claim     Trained by expected return (GRPO), a policy keeps few of many equally good hypotheses; inverse probability
          scaling (IPS-GRPO) keeps most of them at the same validity; answer re-weighting (ProGRPO) lies between.
Paper     Table 2 of arXiv 2601.21669 on the benchmark of arXiv 2510.15614: recovery of GRPO 9.50 / 16.02 / 31.61 % and
          of IPS-GRPO 60.74 / 43.91 / 90.00 % on Boolean, causal and voxel tasks, by Gemma-3 4B. Here: a transformer of
          100,000 parameters that starts from a prior which is competent and biased
          (`ipsrl.training.supervised.warm_start`).
Arms      GRPO, IPS-GRPO with a floor of 0.2, and ProGRPO, each with five seeds: 300 updates by Adam at 3e-4, of 40
          prompts with 16 answers each, from one prior of 1000 supervised steps, of whose training answers six in
          ten are admissible, and some far likelier than others. Beside them the prior, and the ceiling of
          independent uniform answers.
Command   python -m experiments.hypospace
Time      demo 7 minutes on two CPU cores (causal an estimated 8, voxels 16), smoke under one; paper, not run, hours.
Expected  On Boolean tasks the prior recovers 0.36, GRPO 0.20, IPS-GRPO 0.59 [0.57, 0.60] and ProGRPO 0.31 [0.30, 0.33],
          nearly all answers of the trained policies being valid; independent answers could recover 0.67.
Doubt     One transformer of 100,000 parameters and one prior, whose bias we made; hypotheses are short and in a compact
          language. One learning rate and 300 updates: GRPO may lose less when trained for less. All seeds share prior
          and evaluation, so that intervals cover training alone. No placebo is among the arms; `experiments.compare`
          has one. GRPO with as much recovery at another rate or size would refute the claim.
Smoke     python -m experiments.hypospace --preset=smoke

What is measured, and how: `ipsrl.study.text_tasks`.
"""

import dataclasses

from ipsrl import study
from ipsrl.study import text_tasks
from ipsrl.study.text_tasks import GRPO, IPS, SMOKE, TextTaskSettings

TASKS = {
    "Boolean": "hypospace_boolean(operators=full, depth=2)",
    "causal": "hypospace_causal(nodes=4, perturbations=2)",
    "voxels": "hypospace_voxels(blocks=2, fixed=True)",
}
SMALL = {
    "Boolean": "hypospace_boolean(operators=basic, depth=2)",
    "causal": "hypospace_causal(nodes=3, perturbations=1)",
    "voxels": "hypospace_voxels(blocks=1, fixed=True)",
}
PRESETS = {
    "smoke": dataclasses.replace(SMOKE, tasks=(SMALL["Boolean"],)),
    "demo": TextTaskSettings(),
    "paper": TextTaskSettings(tasks=tuple(TASKS.values()), steps=600),
}
MANY_HOSTS = TRACKERS = True
curves = text_tasks.curves
CLAIMS = text_tasks.CLAIMS
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "Of many equally good hypotheses inverse probability scaling keeps more "
        "than GRPO; both stay over 0.9 valid."
    ),
    scope="Boolean tasks of HypoSpace, a transformer of 100,000 parameters",
    decided_by=tuple(CLAIMS),
)
TABLE = text_tasks.TABLE
FIGURE = text_tasks.FIGURE
NUMBERS = {
    f"{label}, {name}": study.final("recovery", task=task, objective=objective)
    for name, task in TASKS.items()
    for label, objective in (("GRPO", GRPO), ("IPS-GRPO", IPS))
}
PAPER = {
    "GRPO, Boolean": 0.095,
    "IPS-GRPO, Boolean": 0.6074,
    "GRPO, causal": 0.1602,
    "IPS-GRPO, causal": 0.4391,
    "GRPO, voxels": 0.3161,
    "IPS-GRPO, voxels": 0.9,
}
ONE = {"objectives": "grpo"}
FEWER = {"Boolean": {}, "causal": ONE, "voxels": ONE}
"""Flags of smoke runs: one of them shows that all objectives run."""
VARIANTS = {
    f"hypospace_{name.lower()}": study.Variant(
        f"Table 2, {name}: recovery",
        {
            "smoke": {"tasks": SMALL[name]} | FEWER[name],
            "demo": {"tasks": task},
            "paper": {"tasks": task},
        },
    )
    for name, task in TASKS.items()
}
