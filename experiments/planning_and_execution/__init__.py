"""Plan, then execute: does training settle the execution first and the plans later, and does pushing plans help?

Claim     Training has two phases: execution settles first; then plans are what fails, and their entropy rises. HICRA,
          which adds alpha |A| to the advantages of plan tokens, ends higher than GRPO, and than a push of other tokens.
Paper     arXiv 2509.03646 (HICRA, alpha 0.2; Qwen3-4B AIME24 68.5 -> 73.1; no gain for Llama-3.1-8B, whose execution is
          weak), known at second hand. Alpha 1, measures and margins are ours, the latter set after a trial of one seed.
Arms      One plan token of six, of which two fit, then four digits to be computed: 32 prompts, small transformers, a
          prior for each seed, taught right plans 0.3 and execution 0.6; the same with a weak execution, 0.2; and with
          favourite plans, because where all are equally likely, entropy cannot rise. GRPO is HICRA with alpha 0, as
          centred rewards and a clip of 0.2 / 0.28 are HICRA's base; HICRA at 0.2, at 1, and at 1 without easing failed
          plans; an entropy bonus. Placebos: the push on a random token of each answer, and on that of highest entropy.
          All by Adam at a rate of 0.001, with equally many answers.
Command   python -m experiments.planning_and_execution
Time      demo eight CPU minutes, smoke 20 CPU seconds.
Expected  GRPO makes half of its gain in execution after 10 updates, in plans after 50; with favourite plans in both at
          once. The entropy of plans falls. Accuracy at the end: GRPO 0.82 [0.71, 0.92], HICRA 0.87 with the smaller and
          0.85 with the larger alpha; no difference is decided. HICRA chooses better and more various plans than GRPO
          then, but executes them worse.
Doubt     Five seeds vary by 0.07: most comparisons are undecided. A plan is one token, so that it is also the token of
          highest entropy in many answers; where plans are phrases among thousands of tokens this may differ.
Smoke     python -m experiments.planning_and_execution --preset=smoke
"""

import dataclasses

from experiments.planning_and_execution.plan_mistakes import PlanMistakes
from experiments.planning_and_execution.planners import Planners, at_half, half_gain
from ipsrl import study
from ipsrl.checking.fields import any_of, between, positive
from ipsrl.environments.tasks.plan_and_execute import PlanAndExecute
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels

USUAL, WEAK, FAVOURITES = "usual", "weak", "favourites"
TAUGHT = {
    USUAL: PlanMistakes(right_plans=0.3, right_execution=0.6),
    WEAK: PlanMistakes(right_plans=0.3, right_execution=0.2),
    FAVOURITES: PlanMistakes(right_plans=0.3, right_execution=0.6, favour=3.0),
}
NAMES = {
    "hicra(alpha=0)": "GRPO",
    "hicra": "HICRA at alpha 0.2",
    "hicra(alpha=1)": "HICRA at alpha 1",
    "hicra(alpha=1, failures=kept)": "HICRA at alpha 1 on successes only",
    "hicra(planned=random)": "alpha 0.2 on random tokens",
    "hicra(alpha=1, planned=random)": "alpha 1 on random tokens",
    "hicra(alpha=1, planned=high_entropy)": "alpha 1 on tokens of highest entropy",
    "hicra(alpha=0, entropy=0.03)": "an entropy bonus of 0.03",
}
GRPO, PAPERS, STRONG, SUCCESSES, RANDOM, RANDOM_STRONG, UNCERTAIN, BONUS = NAMES
WITH = {
    USUAL: "with an execution of 0.6",
    WEAK: "with a weak execution of 0.2",
    FAVOURITES: "with an execution of 0.6 and favourite plans",
}
OF_FAVOURITES = (GRPO, STRONG, RANDOM_STRONG)
"""The objectives that are tried from the prior with favourite plans."""


@dataclasses.dataclass(frozen=True)
class Settings(study.SmallTransformers):
    """The task has `problems`, whose answers have so many `digits` behind a plan."""

    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    priors: tuple[str, ...] = any_of(TAUGHT)
    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
    digits: int = between(4, 12, 4)
    problems: int = between(2, 1024, 32)
    hidden_size: int = positive(32)
    num_layers: int = positive(2)
    prior_steps: int = positive(500)
    steps: int = positive(150)
    record_every: int = positive(10)
    prompts_per_step: int = positive(16)
    group_size: int = between(2, 1024, 16)
    learning_rate: float = positive(1e-3)


PRESETS = {
    "smoke": Settings(
        objectives=(RANDOM,),
        priors=(USUAL,),
        seeds=(0, 1),
        problems=8,
        hidden_size=16,
        num_layers=1,
        prior_steps=4,
        steps=2,
        record_every=1,
        prompts_per_step=4,
        group_size=4,
    ),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    task = PlanAndExecute(length=settings.digits, problems=settings.problems)
    policy = settings.transformer(task)
    for prior in settings.priors:
        planners = Planners(
            task,
            policy,
            TAUGHT[prior],
            settings.prior_steps,
            training=settings.training(),
            record_every=settings.record_every,
        )
        for objective in settings.objectives:
            if prior != FAVOURITES or objective in OF_FAVOURITES:
                yield planners.curve(objective, settings.seeds, prior)


def end(value: str, objective: str, prior: str) -> study.Number:
    return study.final(value, prior=prior, objective=objective)


def half(value: str, prior: str) -> study.Number:
    """The update at which GRPO has made half of its gain."""
    return half_gain(value, prior=prior, objective=GRPO)


def above(value: str, prior: str, arm: str, rival: str, by: float) -> study.Claim:
    return study.above(end(value, arm, prior), end(value, rival, prior), by)


RIVALS = [
    (USUAL, PAPERS, GRPO),
    (USUAL, PAPERS, RANDOM),
    (USUAL, STRONG, GRPO),
    (USUAL, STRONG, RANDOM_STRONG),
    (USUAL, STRONG, UNCERTAIN),
    (USUAL, STRONG, BONUS),
    (USUAL, STRONG, SUCCESSES),
    (FAVOURITES, STRONG, GRPO),
    (FAVOURITES, STRONG, RANDOM_STRONG),
]
CLAIMS = {
    **{
        f"{WITH[prior]}, GRPO makes half of its gain in execution over 10 updates before that in"
        " plans": study.above(half("right_plan", prior), half("execution", prior), 10)
        for prior in TAUGHT
    },
    **{
        f"{WITH[prior]}, the {kind} of plans is at the end over 0.05 nats above its value when GRPO"
        " had made half of its gain in execution": study.above(
            end(value, GRPO, prior),
            at_half(value, "execution", prior=prior, objective=GRPO),
            0.05,
        )
        for prior in (USUAL, FAVOURITES)
        for kind, value in {
            "entropy": "plan_entropy",
            "semantic entropy": "semantic_entropy",
        }.items()
    },
    **{
        f"{WITH[prior]}, {NAMES[arm]} ends over 0.02 in accuracy above {NAMES[rival]}": above(
            "accuracy", prior, arm, rival, 0.02
        )
        for prior, arm, rival in RIVALS
    },
    **{
        f"{WITH[prior]}, HICRA at alpha 1 ends with a semantic entropy over 0.05 nats above"
        " GRPO's": above("semantic_entropy", prior, STRONG, GRPO, 0.05)
        for prior in (USUAL, FAVOURITES)
    },
    **{
        f"{on}, {NAMES[arm]} ends at most 0.02 in accuracy above GRPO": study.below(
            end("accuracy", arm, prior), end("accuracy", GRPO, prior) + 0.02
        )
        for on, prior, arms in (
            (f"placebo: {WITH[USUAL]}", USUAL, (RANDOM, RANDOM_STRONG)),
            (WITH[WEAK], WEAK, (PAPERS, STRONG)),
        )
        for arm in arms
    },
}
HEADLINE = study.Headline(
    subject="Thinking, planning and computation at test time",
    claim=(
        "Execution settles first, then plans; pushing plan tokens (HICRA) ends higher than "
        "GRPO and than pushing others."
    ),
    scope="sums behind one of six plans, small transformers",
    decided_by=(
        (
            "with an execution of 0.6, GRPO makes half of its gain in execution over 10 updates "
            "before that in plans"
        ),
        "with an execution of 0.6, HICRA at alpha 0.2 ends over 0.02 in accuracy above GRPO",
        (
            "with an execution of 0.6, HICRA at alpha 0.2 ends over 0.02 in accuracy above alpha "
            "0.2 on random tokens"
        ),
    ),
)
NUMBERS = {
    **{
        f"updates until half of GRPO's gain in {what}, {WITH[prior]}": half(value, prior)
        for prior in TAUGHT
        for what, value in {"execution": "execution", "plans": "right_plan"}.items()
    },
    "recall of plan tokens by strategic grams, before GRPO": end("mined_before", GRPO, USUAL),
    "recall of plan tokens by strategic grams, after GRPO": end("mined_after", GRPO, USUAL),
}
COLUMNS = (
    "accuracy",
    "right_plan",
    "execution",
    "plan_entropy",
    "execution_entropy",
    "semantic_entropy",
)
TABLE = study.Table(COLUMNS, "{prior}", each="prior")
PHASES = {
    "right_plan": "right plans, {prior}",
    "execution": "execution of right plans, {prior}",
    "plan_entropy": "entropy of plans, nats, {prior}",
}
PANELS = [
    Panel([Line(value, by="objective", without=(RANDOM, SUCCESSES, BONUS))], title, "updates")
    for value, title in PHASES.items()
]
PANELS += [Panel([Bars("accuracy", by="objective")], "accuracy, {prior}")]
FIGURE = Panels(PANELS, (22, 5), each="prior")
