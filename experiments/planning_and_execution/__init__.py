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
          One step size; equally many answers.
Command   python -m experiments.planning_and_execution
Time      demo eight CPU minutes, smoke 20 CPU seconds; paper, not run, hours.
Expected  Five seeds: GRPO makes half of its gain in execution after 10 updates, in plans after 50 (8 and 8 with
          favourite plans). Their entropy falls. Accuracy: GRPO 0.82 [0.74, 0.88], HICRA 0.87 at 0.2, 0.85 at 1, 0.89
          on successes only, random tokens 0.81 and 0.84, highest entropy 0.92. HICRA at 1 chooses better (right plans
          0.96, GRPO 0.84) and more variously (1.42 nats over all prompts, 1.12), but executes worse (0.88, 0.97).
Doubt     Five seeds vary by 0.07: most comparisons are undecided. A plan is one token, so that it is also the token of
          highest entropy in many answers; where plans are phrases among thousands of tokens this may differ.
Smoke     python -m experiments.planning_and_execution --preset=smoke
"""

import dataclasses
import itertools
from collections.abc import Iterator

from experiments.planning_and_execution.planners import Planners, half_gain, later_rise, lead, of
from ipsrl import study
from ipsrl.environments.plan_and_execute import PlanAndExecute
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.policies.transformer import Transformer
from ipsrl.study.claims import above, below
from ipsrl.training.settings import TrainSettings

USUAL, WEAK, FAVOURITES = "usual", "weak", "favourites"
TAUGHT = {
    USUAL: (0.3, 0.6, 0.0),
    WEAK: (0.3, 0.2, 0.0),
    FAVOURITES: (0.3, 0.6, 3.0),
}  # Fields of `PlanMistakes`.
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
SKILLS = {USUAL: "with an execution of 0.6,", WEAK: "with a weak execution of 0.2,"}
SKILLS |= {FAVOURITES: "with an execution of 0.6 and favourite plans,"}
FEW = (GRPO, STRONG, RANDOM_STRONG)  # Of the prior with favourite plans.
MARGIN, RISE, UPDATES = 0.02, 0.05, 10


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`steps` are updates, each of `prompts_per_step` groups."""

    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    priors: tuple[str, ...] = one_of(*TAUGHT, default=tuple(TAUGHT))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
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
        (RANDOM,),
        (USUAL,),
        (0, 1),
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
    "paper": Settings(
        seeds=tuple(range(20)),
        digits=8,
        problems=256,
        hidden_size=128,
        prior_steps=5000,
        steps=1000,
    ),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    names = ("steps", "prompts_per_step", "group_size", "learning_rate")
    training = TrainSettings(**{name: getattr(settings, name) for name in names})
    task = PlanAndExecute(length=settings.digits, problems=settings.problems)
    policy = Transformer(
        task.vocabulary_size, hidden_size=settings.hidden_size, num_layers=settings.num_layers
    )
    for prior in settings.priors:
        how = (*TAUGHT[prior], settings.prior_steps, training, settings.record_every)
        planners = Planners(task, policy, *how)
        for objective in settings.objectives:
            if prior != FAVOURITES or objective in FEW:
                yield planners.curve(objective, settings.seeds, prior)


AFTER = "when GRPO had made half of its gain in execution"
KINDS = {"entropy": "plan_entropy", "semantic entropy": "semantic_entropy"}
RIVALS = {PAPERS: (GRPO, RANDOM), STRONG: (GRPO, RANDOM_STRONG, UNCERTAIN, BONUS, SUCCESSES)}
CLAIMS = (
    {
        f"{skill} GRPO makes half of its gain in execution over {UPDATES} updates before that in plans": above(
            lead("execution", "right_plan", **of(GRPO, prior)), UPDATES
        )
        for prior, skill in SKILLS.items()
    }
    | {
        f"{SKILLS[prior]} the {kind} of plans is at the end over {RISE} nats above its value {AFTER}": above(
            later_rise(value, "execution", **of(GRPO, prior)), RISE
        )
        for prior in (USUAL, FAVOURITES)
        for kind, value in KINDS.items()
    }
    | {
        f"{SKILLS[prior]} {NAMES[arm]} ends over {MARGIN} in accuracy above {NAMES[rival]}": above(
            study.difference("accuracy", of(arm, prior), of(rival, prior)), MARGIN
        )
        for prior, rivals_of in {USUAL: RIVALS, FAVOURITES: {STRONG: (GRPO, RANDOM_STRONG)}}.items()
        for arm, rivals in rivals_of.items()
        for rival in rivals
    }
    | {
        f"{SKILLS[prior]} {NAMES[STRONG]} ends with a semantic entropy over {RISE} nats above GRPO's": above(
            study.difference("semantic_entropy", of(STRONG, prior), of(GRPO, prior)), RISE
        )
        for prior in (USUAL, FAVOURITES)
    }
    | {
        f"{what}{SKILLS[prior]} {NAMES[arm]} ends at most {MARGIN} in accuracy above GRPO": below(
            study.difference("accuracy", of(arm, prior), of(GRPO, prior)), MARGIN
        )
        for what, prior, arms in (
            ("placebo: ", USUAL, (RANDOM, RANDOM_STRONG)),
            ("", WEAK, (PAPERS, STRONG)),
        )
        for arm in arms
    }
)
MEASURES = {"right plans": "right_plan", **KINDS}
NUMBERS = (
    {
        f"accuracy, {SKILLS[prior]} {NAMES[arm]}": study.final("accuracy", **of(arm, prior))
        for prior, arms in {USUAL: NAMES, WEAK: NAMES, FAVOURITES: FEW}.items()
        for arm in arms
    }
    | {
        f"{what}, {SKILLS[USUAL]} {NAMES[arm]}": study.final(MEASURES[what], **of(arm, USUAL))
        for arm, what in itertools.product((GRPO, STRONG, UNCERTAIN), MEASURES)
    }
    | {
        f"updates until half of GRPO's gain in {what}, {skill.rstrip(',')}": half_gain(
            value, **of(GRPO, prior)
        )
        for prior, skill in SKILLS.items()
        for what, value in {"execution": "execution", "plans": "right_plan"}.items()
    }
    | {
        f"recall of plan tokens by strategic grams, {when} GRPO": study.final(
            f"mined_{when}", **of(GRPO, USUAL)
        )
        for when in ("before", "after")
    }
)
COLUMNS = (
    "accuracy",
    "right_plan",
    "execution",
    "plan_entropy",
    "execution_entropy",
    "semantic_entropy",
)
TABLE = study.Table(COLUMNS, "{prior}", each="prior")
LINES = {
    "right_plan": "right plans",
    "execution": "execution of right plans",
    "plan_entropy": "entropy of plans, nats",
}
PHASES = [
    Panel(
        [Line(value, by="objective", without=(RANDOM, SUCCESSES, BONUS))],
        f"{title}, {{prior}}",
        "updates",
    )
    for value, title in LINES.items()
]
FIGURE = Panels(
    [*PHASES, Panel([Bars("accuracy", by="objective")], "accuracy, {prior}")], (22, 5), each="prior"
)
