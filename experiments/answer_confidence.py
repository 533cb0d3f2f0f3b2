"""Answer confidence: does ARM (ProGRPO) keep several right answers, and is it the confidence that does it?

Claim     GRPO reinforces the likeliest right answer most. ARM, which subtracts the policy's confidence in each answer
          from its advantage, equalises right answers: pass@k and entropy above GRPO's, at equal pass@1. The prompt's
          confidence sets the level, so that hard prompts are treated otherwise than easy ones.
Paper     arXiv 2602.05281 (v2), by second-hand accounts: 7B models gain 5.7 points of pass@1 and 13.9 of pass@32 over
          GRPO. Our reading: weight 0.3, the fifth of an answer's tokens that is least likely, all answers shifted.
Arms      GRPO; ARM's loss without its shift (clip 0.2 / 0.28, mean over tokens); ARM; ARM with the shifts of a group's
          right answers permuted among them (placebo); AR-Lopti, which damps unlikely tokens; Lp-Reg, which protects
          them; IPS-GRPO. In text also ARM with the confidence of another prompt (placebo); tables have no prompt to be
          sure of, so that there the level is the mean confidence of the group's right answers. All sample equally much.
Command   python -m experiments.answer_confidence
Time      demo 8 minutes of CPU time (27 on two very busy cores), smoke under half a minute of CPU time.
Expected  Covered by 32 tries on bandit, trees, text (+- 0.05): GRPO 0.33, 0.39, 0.43, ARM 0.78, 0.71, 0.82, permuted
          0.36, 0.40, 0.67, IPS-GRPO 0.76, 0.79, 0.99, AR-Lopti below GRPO; pass@1 within 0.01. In text the loss alone
          has 0.66. Refuted: pass@32, which no arm raises (0.90, 0.93, 1.00): more tries help only where a prompt is
          neither solved nor lost. Undecided: ARM with another prompt's confidence has 0.82 as well, +- 0.06.
Doubt     A model that solves new problems by another of its strategies is not in these tasks; covered stands for it. In
          text all prompts are solved, so that the refutation rests on bandit and trees, whose prompts share nothing.
Smoke     python -m experiments.answer_confidence --preset=smoke

Bandit (nine arms) and trees (nine outcomes after 3 to 8 moves): eight prompts with four right answers, a biased prior,
exact numbers. Text: a small transformer on HypoSpace, estimates from 64 answers. Covered is the share of a prompt's
right answers that k samples contain: pass@k of a test that accepts only one of them, each in turn. pass@k itself is
that of the task that was trained on.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit, logit

from experiments import two_techniques
from experiments.two_techniques import RANKS, RIGHT, TREES
from ipsrl import objectives, study
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.state_graph import StateGraph
from ipsrl.environments.trees import prior_probs
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import LineOverNumbers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.coverage import exact_coverage
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.records.tidy import Records
from ipsrl.study import crossed, text_tasks
from ipsrl.study.tuning import at_best_rate
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.text_evaluation import PASS_AT
from ipsrl.training.trainer import Trainer

MARGIN, TEXT = 0.02, "text"
PRIOR = prior_probs(RIGHT, expit(logit(0.1) + np.linspace(-6, 6, len(RIGHT))), 0.4**RANKS)
EXACT = {"bandit": Bandit(TREES.rewards), "trees": TREES}
ARMS = {
    "GRPO": "grpo",
    "no_shift": "progrpo(reference={}, alpha=0.0)",
    "ARM": "progrpo(reference={})",
    "permuted": "progrpo(reference={}, shifted=permuted)",
    "other_prompt": "progrpo(reference=other_prompt)",
    "AR_Lopti": "ar_lopti",
    "Lp_Reg": "lp_reg",
    "IPS_GRPO": "ips_grpo",
}


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`arms` are names of ARMS, `tasks` are bandit, trees and text; `text_steps` is the number of batches in text."""

    arms: tuple[str, ...] = one_of(*ARMS, default=tuple(ARMS))
    tasks: tuple[str, ...] = one_of(*EXACT, TEXT, default=(*EXACT, TEXT))
    seeds: tuple[int, ...] = study.seeds(tuple(range(5)), least=2)
    learning_rates: tuple[float, ...] = positive((0.1,))
    tuning_seeds: tuple[int, ...] = study.seeds((1000, 1001))
    group_size: int = at_least(2, 8)
    steps: int = positive(400)
    record_every: int = positive(100)
    text_steps: int = positive(100)


PRESETS = {
    "smoke": Settings(("GRPO", "ARM"), ("bandit",), seeds=(0, 1), steps=4, record_every=2),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10)), steps=4000, text_steps=600),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    training = TrainSettings(settings.steps, 8, settings.group_size, max_gradient_norm=None, batching=Batching(1, 4))
    for task in settings.tasks:
        arms = [arm for arm in settings.arms if task == TEXT or arm != "other_prompt"]
        names = {ARMS[arm].format("prompt" if task == TEXT else "correct"): arm for arm in arms}
        if task == TEXT:
            steps = {"steps": settings.text_steps, "evaluate_every": settings.text_steps}
            flags = dataclasses.replace(two_techniques.TEXT, objectives=tuple(names), seeds=settings.seeds, **steps)
            for run in text_tasks.training_grid(flags.tasks[0], flags).curves({"task": TEXT}):
                yield study.TrainingRun({**run.labels, "objective": names[run.labels["objective"]]}, run.train)
            continue
        logits = np.log(PRIOR, dtype=np.float32) if task == "bandit" else TREES.logits_for(PRIOR)
        environment, start = EXACT[task], {"logits": logits[None]}
        policy = Tabular(environment.num_observations, environment.vocabulary_size)
        record = functools.partial(measures, environment, policy)
        for name, arm in names.items():
            trainer = Trainer(environment, policy, objectives.make(name), training)
            trained = functools.partial(at_best_rate, trainer, record, "pass_at_1", start, settings)
            yield study.Curve({"task": task, "objective": arm}, lambda trained=trained: trained()[0])


def measures(environment: StateGraph, policy: Policy, parameters: Parameters) -> dict[str, jax.Array]:
    probs = jax.vmap(functools.partial(outcome_probs, environment, policy, parameters))(jnp.arange(len(RIGHT)))
    return exact_coverage(probs, RIGHT, PASS_AT)


def above(value: str, other: str, margin: float = MARGIN) -> Callable[[Records], bool | None]:
    """Whether ARM ends above another arm by a margin, on every task that has both."""

    def decide(records: Records) -> bool | None:
        tasks = [TEXT] if other == "other_prompt" else records.distinct("task")
        parts = [crossed.gain(value, "ARM", other, task=task)(records).exceeds(margin) for task in tasks]
        return study.all_of(parts)

    return decide


CLAIMS = {
    "ARM's pass@1 is GRPO's or better: at most 0.02 below, on every task": above("pass_at_1", "GRPO", -MARGIN),
    "ARM's pass@32 is more than 0.02 above GRPO's, on every task": above("pass_at_32", "GRPO"),
    "so is the share of right answers that 32 tries contain": above("covered_at_32", "GRPO"),
    "ARM keeps more effective right answers than GRPO": above("effective_outcomes", "GRPO", 0),
    "it is the answer's confidence: the same against permuted shifts": above("covered_at_32", "permuted"),
    "and the prompt's: the same against that of other prompts": above("covered_at_32", "other_prompt"),
}
NUMBERS = {
    f"{value.replace('_at_', '@')}, ARM - {other}, {task}": crossed.gain(value, "ARM", other, task=task)
    for value, other in itertools.product(("pass_at_1", "pass_at_32", "covered_at_32"), ARMS)
    for task in (*EXACT, TEXT)
    if other in ("GRPO", "permuted", "IPS_GRPO") or (other == "other_prompt" and task == TEXT)
}
COLUMNS = [f"{value}_at_{k}" for value in ("pass", "covered") for k in (1, 32, 64)] + ["effective_outcomes"]
TABLE = study.Table(COLUMNS, rows=("objective",), each="task", title="{task}", decimals=3)
PANELS = [
    Panel(
        [LineOverNumbers(value, "k", where={"task": task}, numbers=PASS_AT)], task, "k", f"{value} at k", xscale="log2"
    )
    for value, task in itertools.product(("pass", "covered"), (*EXACT, TEXT))
]
FIGURE = Panels(PANELS, columns=3)

if __name__ == "__main__":
    study.main(__name__)
