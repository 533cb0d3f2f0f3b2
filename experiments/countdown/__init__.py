"""Countdown: of all expressions that reach the target, how many does a trained policy still write?

Claim     Where a problem has several solutions, expected return (GRPO) keeps few of them, inverse probability scaling
          (IPS-GRPO) most, at the same validity: what HypoSpace shows holds for arithmetic as well.
Paper     The task of TinyZero (github.com/Jiayi-Pan/TinyZero), which rewards any solution and counts none. The claim is
          that of arXiv 2601.21669; it has no numbers for this task.
Arms      GRPO, IPS-GRPO with a floor of 0.2, and ProGRPO, each with five seeds: 300 updates by Adam at 3e-4, of 32
          prompts with 16 answers each, from one prior of 1000 supervised steps, of whose training answers six in
          ten are admissible, and some far likelier than others. Beside them the prior, and the ceiling of
          independent uniform answers.
Command   python -m experiments.countdown
Time      demo eight minutes on two CPU cores, smoke under one; paper, not run, hours.
Expected  Over five seeds IPS-GRPO recovers 0.46 [0.43, 0.49] and GRPO 0.20, nearly all answers of both being valid; the
          prior and ProGRPO recover 0.24, and independent answers could recover 0.67.
Doubt     One transformer of 100,000 parameters and one prior, whose bias we made; 64 problems, chosen to have at least
          four solutions, and asked again at the evaluation. One learning rate and 300 updates: GRPO may lose less when
          trained for less. All seeds share prior and evaluation, so that intervals cover training alone. No placebo is
          among the arms; `experiments.compare` has one. GRPO with as much recovery at another rate or size would refute
          the claim.
Smoke     python -m experiments.countdown --preset=smoke

What is measured, and how: `ipsrl.study.text_tasks`. The policy is a small transformer in a compact language; a language
model from a folder of Hugging Face takes its place by --policy=hf --model_dir=DIR.
"""

import dataclasses

from ipsrl import study
from ipsrl.study import text_tasks
from ipsrl.study.text_tasks import SMOKE, TextTaskSettings

TASK = "countdown(numbers=4, problems=64, largest_number=12, largest_target=40, least_solutions=4)"
SMALL = "countdown(numbers=3, problems=16, largest_number=9, largest_target=30, least_solutions=2)"
DEMO = TextTaskSettings(tasks=(TASK,), prompts_per_step=32, micro_batches=4)
PRESETS = {
    "smoke": dataclasses.replace(SMOKE, tasks=(SMALL,), objectives=("grpo",)),
    "demo": DEMO,
    "paper": dataclasses.replace(DEMO, steps=600),
}
MANY_HOSTS = TRACKERS = True
curves = text_tasks.curves
CLAIMS = text_tasks.CLAIMS
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "Where arithmetic has several solutions, inverse probability scaling keeps more "
        "than GRPO; both stay over 0.9 valid."
    ),
    scope="countdown with four numbers, a transformer of 100,000 parameters",
    decided_by=tuple(CLAIMS),
)
TABLE = text_tasks.TABLE
FIGURE = text_tasks.FIGURE
VARIANTS = {"countdown": study.Variant("recovery on countdown")}
