"""Tasks of reasoning-gym: of all right answers, how many does a trained policy still write?

Claim     Where a task of reasoning-gym has several right answers, expected return (GRPO) keeps few of them, inverse
          probability scaling (IPS-GRPO) more, at the same validity.
Paper     The tasks graph_color and n_queens of reasoning-gym (arXiv 2505.24760), which rewards any right answer and
          counts none. The claim is that of arXiv 2601.21669; it has no numbers for these tasks.
Arms      GRPO, IPS-GRPO with a floor of 0.2, and ProGRPO, each with five seeds: 300 updates by Adam at 3e-4, of 32
          prompts with 16 answers each, from one prior of 1000 supervised steps, of whose training answers six in
          ten are admissible, and some far likelier than others. Beside them the prior, and the ceiling of
          independent uniform answers.
Command   python -m experiments.reasoning_gym
Time      demo nine minutes on two CPU cores (estimated from processor time), smoke under one; paper, not run, hours.
Expected  Of queens GRPO recovers 0.12 and IPS-GRPO 0.38 [0.36, 0.40], of colourings 0.07 and 0.30 [0.30, 0.31]. Nearly
          all answers are valid; ProGRPO lies between, and independent answers could recover 0.65 of both.
Doubt     One transformer of 100,000 parameters and one prior, whose bias we made; 64 problems of each task with many
          right answers, asked again at the evaluation. One learning rate and 300 updates: GRPO may lose less when
          trained for less. All seeds share prior and evaluation, so that intervals cover training alone. No placebo is
          among the arms; `experiments.compare` has one. GRPO with as much recovery at another rate or size would refute
          the claim.
Smoke     python -m experiments.reasoning_gym --preset=smoke

The problems are those that reasoning-gym 0.1.25 makes of the same seeds; the package itself is not needed. What is
measured, and how: `ipsrl.study.text_tasks`. The policy is a small transformer in a compact language; a language model
from a folder of Hugging Face takes its place by --policy=hf --model_dir=DIR.
"""

import dataclasses

from ipsrl import study
from ipsrl.study import text_tasks
from ipsrl.study.text_tasks import SMOKE, TextTaskSettings

TASKS = {
    "graph colouring": "graph_coloring(vertices=6, edge_probability=0.6, problems=64, least_solutions=6)",
    "queens": "n_queens(n=8, min_remove=7, max_remove=7, problems=64)",
}
SMALL = {
    "graph colouring": "graph_coloring(vertices=4, problems=16)",
    "queens": "n_queens(n=7, min_remove=6, max_remove=6, problems=16)",
}
DEMO = TextTaskSettings(tasks=tuple(TASKS.values()), prompts_per_step=32, micro_batches=4)
PRESETS = {
    "smoke": dataclasses.replace(
        SMOKE, tasks=(SMALL["queens"],), objectives=("ips_grpo(floor=0.2)",)
    ),
    "demo": DEMO,
    "paper": dataclasses.replace(DEMO, steps=600),
}
MANY_HOSTS = TRACKERS = True
curves = text_tasks.curves
CLAIMS = text_tasks.CLAIMS
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "Where a task has several right answers, inverse probability scaling keeps more "
        "than GRPO; both stay over 0.9 valid."
    ),
    scope="graph colouring of reasoning-gym, a transformer of 100,000 parameters",
    decided_by=tuple(CLAIMS),
)
TABLE = text_tasks.TABLE
FIGURE = text_tasks.FIGURE
VARIANTS = {
    name.replace(" ", "_"): study.Variant(
        f"recovery on {name} of reasoning-gym",
        {"smoke": {"tasks": SMALL[name]}, "demo": {"tasks": task}, "paper": {"tasks": task}},
    )
    for name, task in TASKS.items()
}
