"""Think, or answer at once, in a small transformer: does what the mode bandit shows hold where modes share parameters?

Claim     As in `hybrid_modes`: vanilla GRPO settles on thinking before the short mode has learned; a small weight of
          its own for the control token (DeGRPO), forced modes (HGPO), advantages without std, an entropy bonus or
          inverse probability leave that mode, earn more, and then the mode fits the difficulty.
Paper     Thinkless, arXiv 2505.13379, with alpha 0.001; HGPO, 2505.14631; both of language models. Ours: the sentences
          with their margins, set after a trial of one prior; right and wrong are worth 1 and 0, not 1 and -1.
Arms      Sums of 1 to 4 steps (digits and carries). A short answer states the sum; a thinking one writes the carries
          first, and is worth half. Two layers, from priors of demonstrations: short answers are right with 0.12, in the
          negative control and placebo with 0.79, thinking ones with 0.91. 150 updates of 64 answers, Adam; where none
          is named, the learning rate of two that is best for the other half of the seeds. For what modes share: GRPO
          that is forced to think.
Command   python -m experiments.hybrid_addition
Time      demo eight CPU minutes, smoke 20 CPU seconds; paper, not run, hours.
Expected  Some runs of GRPO still think at the end, some have turned short: at the larger rate the share of thinking is
          0.63 [0.08, 1.17], and much the same under Dr. GRPO, the entropy bonus and HGPO with forced halves. Under
          DeGRPO, IPS-GRPO and GRPO with forced halves no run keeps to thinking; the reward is highest under DeGRPO at
          the middle alpha, 0.82, and with forced halves, 0.86. The mode hardly fits the difficulty. GRPO that is forced
          to think gains 0.05 of short skill or less: sharing parameters does not save it.
Doubt     All prompts are trained on and short answers can learn them, so a short mode alone is no failure here; longer
          runs may turn later. Five seeds leave mixtures undecided. First-order MAML is in `hybrid_modes` only.
Smoke     python -m experiments.hybrid_addition --preset=smoke
"""

import dataclasses
import itertools

from experiments.hybrid_addition.mode_adders import ModeAdders
from experiments.hybrid_addition.mode_mistakes import ModeMistakes
from ipsrl import study
from ipsrl.checking.fields import between, one_of, positive
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below, every, some
from ipsrl.study.tuning import of_best

WEAK = "weak"
COMPETENT = "competent"
RIGHT_STEPS = {WEAK: 0.3, COMPETENT: 0.9}
"""Prior -> probability that a step of a short demonstration is right; it has 1 to 4."""

GRPO = "grpo"
TOKENS = "grpo(aggregation=token_mean)"
PAPERS = "degrpo(alpha=0.001)"
BETTER_ALPHA = "degrpo(alpha=0.01)"
FORCED_GRPO = "forced_grpo"
FORCED_HGPO = "forced_hgpo"
THINKING = "thinking_grpo"
FORCED = {
    FORCED_GRPO: (GRPO, "half"),
    FORCED_HGPO: ("hgpo(think_token=5)", "half"),
    THINKING: (GRPO, "think"),
}
"""Arms with forced modes -> the objective, and what is forced."""
DEGRPO = {
    PAPERS: "DeGRPO at alpha 0.001",
    BETTER_ALPHA: "DeGRPO at alpha 0.01",
    "degrpo(alpha=0.1)": "DeGRPO at alpha 0.1",
}
REMEDIES = {
    "dr_grpo": "Dr. GRPO",
    **DEGRPO,
    "grpo(entropy=0.1)": "an entropy bonus of 0.1",
    "ips_grpo": "IPS-GRPO",
    FORCED_GRPO: "GRPO with forced halves",
    FORCED_HGPO: "HGPO with forced halves",
}
NAMES = {GRPO: "GRPO", TOKENS: "GRPO with the mean over tokens"} | REMEDIES
CONTROLLED = (GRPO, BETTER_ALPHA)
"""Arms that also begin with a competent short mode."""


@dataclasses.dataclass(frozen=True)
class Settings(study.SmallTransformers):
    """`priors` are by their short mode; `answers` that think are sampled for each prompt to measure their skill."""

    arms: tuple[str, ...] = study.selecting(
        study.objectives((*NAMES, THINKING), also=tuple(FORCED))
    )
    priors: tuple[str, ...] = study.selecting(one_of(*RIGHT_STEPS, default=(WEAK, COMPETENT)))
    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
    learning_rates: tuple[float, ...] = positive((3e-4, 1e-3))
    problems: int = between(4, 144, 32)
    hidden_size: int = positive(32)
    num_layers: int = positive(2)
    prior_steps: int = positive(400)
    updates: int = positive(150)
    prompts_per_step: int = positive(8)
    group_size: int = positive(8)
    answers: int = positive(8)


PRESETS = {
    # Training and measuring sample alike, so that there is one sampler to compile.
    "smoke": Settings(
        arms=(THINKING,),
        priors=(WEAK,),
        seeds=(0, 1),
        learning_rates=(1e-3,),
        problems=4,
        hidden_size=8,
        num_layers=1,
        prior_steps=4,
        updates=1,
        prompts_per_step=4,
        group_size=4,
        answers=4,
    ),
    "demo": Settings(),
    "paper": Settings(
        seeds=tuple(range(20)), problems=144, hidden_size=64, prior_steps=2000, updates=3000
    ),
}


def curves(settings: Settings) -> study.Curves:
    task = AdditionModes(problems=settings.problems)
    policy = settings.transformer(task)
    for prior in settings.priors:
        adders = ModeAdders(
            task,
            policy,
            ModeMistakes(right_short=RIGHT_STEPS[prior], answers=8),
            settings.prior_steps,
            tables=8,
            training=settings.training(steps=settings.updates),
            answers=settings.answers,
        )
        for arm, rate in itertools.product(settings.arms, settings.learning_rates):
            if prior == WEAK or arm in CONTROLLED:
                objective, forced = FORCED.get(arm, (arm, "none"))
                labels = {"prior": prior, "arm": arm, "learning_rate": rate}
                yield adders.curve(objective, forced, rate, settings.seeds, labels)


RATES = Settings().learning_rates


def final(value: str, arm: str, prior: str = WEAK) -> study.Number:
    """A value at the end, at the best learning rate."""
    return study.Best(study.final(value, prior=prior, arm=arm), "reward")


def gain(arm: str, than: str = GRPO, prior: str = WEAK) -> study.Number:
    """The reward of one arm at the end less that of another, paired by seed."""
    return final("reward", arm, prior) - final("reward", than, prior)


CLAIMS = {
    **{
        f"{NAMES[arm]} at a rate of {rate:g} ends with over 99 % of its answers thinking": above(
            study.final("thinking", prior=WEAK, arm=arm, learning_rate=rate), 0.99
        )
        for arm in (GRPO, TOKENS)
        for rate in RATES
    },
    "when GRPO at a rate of 0.001 first has over 99 % in one mode, or ends,"
    " the short skill is below 0.45": below(
        study.final("short_then", prior=WEAK, arm=GRPO, learning_rate=1e-3), 0.45
    ),
    **{
        f"{name} ends with under 90 % of its answers thinking": below(final("thinking", arm), 0.9)
        for arm, name in REMEDIES.items()
    },
    **{
        f"{name} ends with a reward over 0.02 above GRPO's": above(gain(arm), 0.02)
        for arm, name in REMEDIES.items()
    },
    "DeGRPO with some alpha from 0.001 to 0.1 thinks more often at the hardest than at the easiest,"
    " by over 0.1": some(above(final("fits", arm), 0.1) for arm in DEGRPO),
    "DeGRPO at alpha 0.001 ends at most 0.02 in reward below each alpha from 0.001 to 0.1": every(
        above(gain(PAPERS, than), -0.02) for than in DEGRPO if than != PAPERS
    ),
    "HGPO with forced halves ends with a reward over 0.02 above GRPO with forced halves": above(
        gain(FORCED_HGPO, FORCED_GRPO), 0.02
    ),
    "control: with a competent short mode, GRPO ends with under 50 % of its answers thinking": below(
        final("thinking", GRPO, COMPETENT), 0.5
    ),
    "placebo: with a competent short mode, DeGRPO at alpha 0.01 ends with a reward at most 0.02"
    " above GRPO's": below(gain(BETTER_ALPHA, prior=COMPETENT), 0.02),
    "shared parameters: GRPO that is forced to think raises the short skill by over 0.05,"
    " at each learning rate": study.at_each(
        "learning_rate", above(study.final("short_gain"), 0.05), prior=WEAK, arm=THINKING
    ),
    "shared parameters: DeGRPO at alpha 0.01 ends with a thinking skill over 0.05 below that of"
    " the prior": below(final("think_gain", BETTER_ALPHA), -0.05),
}
HEADLINE = study.Headline(
    subject="Thinking, planning and computation at test time",
    claim=(
        "GRPO settles on thinking; forced modes or a smaller weight of the control token "
        "keep both modes."
    ),
    scope="sums, small transformers that think or answer at once",
    decided_by=(
        "GRPO at a rate of 0.001 ends with over 99 % of its answers thinking",
        "DeGRPO at alpha 0.001 ends with under 90 % of its answers thinking",
        "HGPO with forced halves ends with under 90 % of its answers thinking",
        "DeGRPO at alpha 0.001 ends with a reward over 0.02 above GRPO's",
        "HGPO with forced halves ends with a reward over 0.02 above GRPO's",
    ),
)
COLUMNS = (
    "reward",
    "thinking",
    "until",
    "short_then",
    *(f"{name}_{level}" for name in ("thinking", "short", "think") for level in (1, 2, 3, 4)),
    "short_gain",
    "think_gain",
    "learning_rate",
)
TABLE = of_best(study.Table(COLUMNS, "{prior} short mode", rows=("arm",), each="prior"), "reward")
LINES = {"thinking": "share of thinking", "short": "short skill", "think": "thinking skill"}
BARS = {
    "thinking": "share of thinking at the end",
    "fits": "thinking, hardest less easiest",
    "reward": "reward",
}
LIKE_GRPO = (TOKENS, "dr_grpo", "grpo(entropy=0.1)", FORCED_HGPO)
PANELS = [
    Panel([Line(value, by="arm", where={"prior": WEAK}, without=LIKE_GRPO)], title, "updates")
    for value, title in LINES.items()
]
PANELS += [
    Panel([Bars(value, by="arm", where={"prior": WEAK})], title) for value, title in BARS.items()
]
FIGURE = of_best(Panels(PANELS, (19, 9.5), columns=3), "reward")
