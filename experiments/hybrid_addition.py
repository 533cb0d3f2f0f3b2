"""Think, or answer at once, in a small transformer: does what the mode bandit shows hold where modes share parameters?

Claim     As in `hybrid_modes`: vanilla GRPO settles on thinking before the short mode has learned; a small weight of
          its own for the control token (DeGRPO), forced modes (HGPO), advantages without std, an entropy bonus or
          inverse probability leave that mode, earn more, and then the mode fits the difficulty.
Paper     Thinkless, arXiv 2505.13379, with alpha 0.001; HGPO, 2505.14631; both of language models. Ours: the sentences
          with their margins, set after a trial of one prior; right and wrong are worth 1 and 0, not 1 and -1.
Arms      TODO
Command   python -m experiments.hybrid_addition
Time      TODO
Expected  TODO
Doubt     TODO
Smoke     python -m experiments.hybrid_addition --preset=smoke
"""

import dataclasses
import itertools
from collections.abc import Iterator
from functools import partial

from ipsrl import study
from ipsrl.environments.addition_modes import AdditionModes
from ipsrl.fields import between, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.policies.transformer import Transformer
from ipsrl.study.claims import above, all_of, any_of, below
from ipsrl.study.tuning import of_best
from ipsrl.study.worlds.mode_adders import ModeAdders
from ipsrl.training.settings import TrainSettings

WEAK, COMPETENT = "weak", "competent"
RIGHT_SHORT = {WEAK: 0.3, COMPETENT: 0.9}  # Probability that a step of a short demonstration is right; it has 1 to 4.
GRPO, TOKENS, PAPERS, BETTER_ALPHA = "grpo", "grpo(aggregation=token_mean)", "degrpo(alpha=0.001)", "degrpo(alpha=0.01)"
FORCED_GRPO, FORCED_HGPO, THINKING = "forced_grpo", "forced_hgpo", "thinking_grpo"
# Arms with names of their own: their objectives, and which modes are forced.
WORDS = {FORCED_GRPO: (GRPO, "half"), FORCED_HGPO: ("hgpo(think_token=5)", "half"), THINKING: (GRPO, "think")}
DEGRPO = {PAPERS: 0.001, BETTER_ALPHA: 0.01, "degrpo(alpha=0.1)": 0.1}
REMEDIES = {
    "dr_grpo": "Dr. GRPO", **{arm: f"DeGRPO at alpha {alpha:g}" for arm, alpha in DEGRPO.items()},
    "grpo(entropy=0.1)": "an entropy bonus of 0.1", "ips_grpo": "IPS-GRPO", FORCED_GRPO: "GRPO with forced halves",
    FORCED_HGPO: "HGPO with forced halves",
}  # fmt: skip
NAMES = {GRPO: "GRPO", TOKENS: "GRPO with the mean over tokens"} | REMEDIES
CONTROLLED = (GRPO, BETTER_ALPHA)  # Arms that also begin with a competent short mode.


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`priors` are by their short mode; `answers` that think are sampled for each prompt to measure their skill."""

    arms: tuple[str, ...] = study.selecting(study.objectives((*NAMES, THINKING), also=tuple(WORDS)))
    priors: tuple[str, ...] = study.selecting(one_of(*RIGHT_SHORT, default=(WEAK, COMPETENT)))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
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
    "smoke": Settings(  # Training and measuring sample alike, so that there is one sampler to compile.
        (THINKING,), (WEAK,), (0, 1), (1e-3,), 4, hidden_size=8, num_layers=1, prior_steps=4, updates=1,
        prompts_per_step=4, group_size=4, answers=4,
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), problems=144, hidden_size=64, prior_steps=2000, updates=3000),
}  # fmt: skip


def curves(settings: Settings) -> Iterator[study.Curve]:
    task = AdditionModes(problems=settings.problems)
    policy = Transformer(task.vocabulary_size, hidden_size=settings.hidden_size, num_layers=settings.num_layers)
    training = TrainSettings(settings.updates, settings.prompts_per_step, settings.group_size)
    for prior in settings.priors:
        adders = ModeAdders(task, policy, RIGHT_SHORT[prior], settings.prior_steps, training, settings.answers)
        for arm, rate in itertools.product(settings.arms, settings.learning_rates):
            if prior == WEAK or arm in CONTROLLED:
                labels = {"prior": prior, "arm": arm, "learning_rate": rate}
                yield adders.curve(*WORDS.get(arm, (arm, "none")), rate, settings.seeds, labels)


def final(value: str, arm: str, prior: str = WEAK) -> study.Number:
    return at_best(study.final(value, prior=prior, arm=arm))


def more(arm: str, than: str = GRPO, prior: str = WEAK) -> study.Number:
    """By how much a reward is above that of another arm, paired by seed."""
    return at_best(study.difference("reward", {"prior": prior, "arm": arm}, {"prior": prior, "arm": than}))


at_best, at_rate, RATES = partial(of_best, score="reward"), partial(study.final, prior=WEAK), Settings().learning_rates
ONE_MODE, ALPHAS, SKILLED = "over 99 % of its answers", "alpha from 0.001 to 0.1", "with a competent short mode"
CLAIMS = {
    **{f"{NAMES[arm]} at a learning rate of {rate:g} ends with {ONE_MODE} thinking":
        above(at_rate("thinking", arm=arm, learning_rate=rate), 0.99) for arm in (GRPO, TOKENS) for rate in RATES},
    f"when GRPO at a learning rate of {RATES[-1]:g} first has {ONE_MODE} in one mode, the short skill is below 0.45":
        below(at_rate("short_then", arm=GRPO, learning_rate=RATES[-1]), 0.45),
    **{f"{name} ends with under 90 % of its answers thinking": below(final("thinking", arm), 0.9)
        for arm, name in REMEDIES.items()},
    **{f"{name} ends with a reward over 0.02 above GRPO's": above(more(arm), 0.02) for arm, name in REMEDIES.items()},
    f"DeGRPO with some {ALPHAS} thinks more often at the hardest than at the easiest, by over 0.1":
        lambda r: any_of(above(final("fits", arm), 0.1)(r) for arm in DEGRPO),
    f"DeGRPO at alpha 0.001 ends at most 0.02 in reward below each {ALPHAS}":
        lambda r: all_of(above(more(PAPERS, than), -0.02)(r) for than in DEGRPO if than != PAPERS),
    "HGPO with forced halves ends with a reward over 0.02 above GRPO with forced halves":
        above(more(FORCED_HGPO, FORCED_GRPO), 0.02),
    f"control: {SKILLED}, GRPO ends with under half of its answers thinking":
        below(final("thinking", GRPO, COMPETENT), 0.5),
    f"placebo: {SKILLED}, DeGRPO at alpha 0.01 ends with a reward at most 0.02 above GRPO's":
        below(more(BETTER_ALPHA, prior=COMPETENT), 0.02),
    "shared parameters: GRPO that is forced to think raises the short skill by over 0.05, at each learning rate":
        study.at_each("learning_rate", above(study.final("short_gain"), 0.05), prior=WEAK, arm=THINKING),
    "shared parameters: DeGRPO at alpha 0.01 ends with a thinking skill over 0.05 below that of the prior":
        below(final("think_gain", BETTER_ALPHA), -0.05),
}  # fmt: skip
SHOWN = {
    "reward": "reward", "thinking": "share of thinking", "fits": "share of thinking, hardest less easiest",
    "short": "short skill", "think": "thinking skill", "until": "updates until a mode has over 99 %",
}  # fmt: skip
NUMBERS = {f"{shown}, {NAMES[arm]}": final(value, arm) for value, shown in SHOWN.items() for arm in NAMES} | {
    f"{shown}, GRPO at {rate:g}": at_rate(value, arm=GRPO, learning_rate=rate)
    for value, shown in SHOWN.items()
    for rate in RATES
}
NUMBERS |= {
    f"short skill gained, only thinking at {rate:g}": at_rate("short_gain", arm=THINKING, learning_rate=rate)
    for rate in RATES
} | {
    f"{value}, {NAMES[arm]}, {SKILLED}": final(value, arm, COMPETENT)
    for value, arm in itertools.product(("reward", "thinking"), CONTROLLED)
}
LEVELS = [f"{name}_{level}" for name in ("thinking", "short", "think") for level in (1, 2, 3, 4)]
COLUMNS = ("reward", "thinking", "until", "short_then", *LEVELS, "short_gain", "think_gain", "learning_rate")
TABLE = at_best(study.Table(COLUMNS, "{prior} short mode", rows=("arm",), each="prior"))
LINES = {"thinking": "share of thinking", "short": "short skill", "think": "thinking skill"}
BARS = {"reward": "reward", "fits": "thinking, hardest less easiest", "until": "updates until a mode has over 99 %"}
UPPER = [Panel([Line(value, by="arm", where={"prior": WEAK})], title, "updates") for value, title in LINES.items()]
LOWER = [Panel([Bars(value, by="arm", where={"prior": WEAK})], title) for value, title in BARS.items()]
FIGURE = at_best(Panels([*UPPER, *LOWER], (19, 9.5), columns=3))

if __name__ == "__main__":
    study.main(__name__)
