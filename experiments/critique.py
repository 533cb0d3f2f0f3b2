"""Where rewards stop teaching, do words? Second attempts behind a critic's words, put into GRPO's groups.

Claim     Numbers stop teaching where no answer is right; words do not: a policy that reads what is wrong with an
          attempt repairs it, and learns from the repair, scored as an answer to the question alone (Critique-GRPO).
Paper     arXiv 2506.03106 (Qwen3-8B: pass@1 about +3.8 above compared methods), where the critic is a strong model, and
          by default the true answer is told. Ours: the task, scripted critics, their placebo, equal tokens, margins.
Arms      GRPO with n = 8 and 16 answers; with 8 answers and 8 second attempts GRPO, `unshaped` (Critique-GRPO without
          its shaping p / (p + 0.1)), Critique-GRPO, and supervised training on right answers, own and repaired. Critics
          name the first wrong digit, say right or wrong, tell the answer, are the policy itself, or (placebo) name the
          wrong digit of an attempt at another prompt. World: `worlds.wrong_digits`, small transformers that are sure of
          a wrong digit in half of 64 sums and were taught repairs of other sums. Each arm ends at 100,000 tokens that
          the policy sampled, its own critiques included; a scripted critic's words cost nothing. Its learning rate is
          the best of two for two other seeds. Scored by the exact probability of the right answer.
Command   python -m experiments.critique
Time      demo eight CPU minutes, smoke 20 CPU seconds; paper, not run, hours.
Expected  to be measured.
Doubt     A digit that is guessed is no reasoning, and prompts here share no rule that training on others could teach;
          a language model's words say more than a place. Seeds share prompts and wrong digits.
Smoke     python -m experiments.critique --preset=smoke
"""

import dataclasses
from collections.abc import Iterator

from ipsrl import study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below
from ipsrl.study.worlds.equal_tokens import Arm, EqualTokens
from ipsrl.study.worlds.wrong_digits import PRIOR, Repairers

FIRST, RIGHT, TRUE, SHUFFLED, OWN = CRITICS = (
    "first_mistake", "right_or_wrong", "true_answer", "shuffled(first_mistake)", "own",
)  # fmt: skip
N, PAPERS, UNSHAPED = 8, "critique_grpo", "dr_grpo(entropy=0.001)"
ARMS = {
    "grpo_8": Arm("grpo", N),
    "grpo_16": Arm("grpo", 2 * N),
    "grpo_first_mistake": Arm("grpo", N, FIRST),
    "grpo_shuffled": Arm("grpo", N, SHUFFLED),
    "unshaped": Arm(UNSHAPED, N, FIRST),
    "critique_first_mistake": Arm(PAPERS, N, FIRST),
    "critique_right_or_wrong": Arm(PAPERS, N, RIGHT),
    "critique_true_answer": Arm(PAPERS, N, TRUE),
    "critique_own": Arm(PAPERS, N, OWN),
    "critique_shuffled": Arm(PAPERS, N, SHUFFLED),
    "supervised": Arm("supervised", N, FIRST),
}
MARGIN, REPAIRED, PLATEAU = 0.05, 0.02, 0.1


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`asked` prompts are trained on; repairs of `taught` others are demonstrated. `budget` is of sampled tokens."""

    arms: tuple[str, ...] = study.selecting(one_of(*ARMS, default=tuple(ARMS)))
    critics: tuple[str, ...] = study.selecting(one_of(*CRITICS, default=CRITICS))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
    tuning_seeds: tuple[int, ...] = study.seeds((100, 101))
    learning_rates: tuple[float, ...] = positive((3e-4, 1e-3))
    asked: int = at_least(2, 64)
    taught: int = positive(3000)
    hidden_size: int = positive(32)
    num_layers: int = positive(2)
    prior_steps: int = positive(1500)
    prompts_per_step: int = at_least(2, 16)
    budget: int = positive(100_000)
    records: int = positive(10)


PRESETS = {
    "smoke": Settings(
        arms=("grpo_8", "critique_first_mistake"), critics=(FIRST,), seeds=(0, 1), learning_rates=(1e-3,), asked=8,
        taught=8, hidden_size=16, num_layers=1, prior_steps=4, prompts_per_step=4, budget=500, records=2,
    ),
    "demo": Settings(),
    "paper": Settings(
        seeds=tuple(range(20)), tuning_seeds=tuple(range(100, 104)), learning_rates=(1e-4, 3e-4, 1e-3, 3e-3), asked=256,
        hidden_size=64, prior_steps=6000, budget=2_000_000,
    ),
}  # fmt: skip


def curves(settings: Settings) -> Iterator[study.Curve]:
    names = ("asked", "taught", "hidden_size", "num_layers", "prior_steps")
    repairers = Repairers(**{name: getattr(settings, name) for name in names})
    runs = EqualTokens(repairers, settings.prompts_per_step, settings.budget, settings.records)
    for critic in settings.critics:
        yield repairers.curve(critic, settings.seeds)
    for name in settings.arms:
        yield runs.curve(name, ARMS[name], settings.seeds, settings.learning_rates, settings.tuning_seeds)


def of(arm: str, value: str = "hard") -> study.Number:
    """At the end of the budget, a mean over seeds."""
    return study.final(value, arm=arm)


def more(arm: str, than: str, value: str = "hard") -> study.Number:
    """Paired by seed."""
    return study.difference(value, {"arm": arm}, {"arm": than})


def repairs(critic: str, than: str) -> study.Number:
    """By how much more second attempts of a prior are right behind the words of one critic than of another."""
    return study.difference("repaired", {"arm": PRIOR, "critic": critic}, {"arm": PRIOR, "critic": than})


GRPO_8, GRPO_16, WORDS, PLACEBO = "grpo_8", "grpo_16", "critique_first_mistake", "critique_shuffled"
NAMES = {
    GRPO_8: "GRPO with 8 answers", GRPO_16: "GRPO with 16 answers",
    "grpo_first_mistake": "GRPO with repairs behind the first mistake", "grpo_shuffled": "GRPO with shuffled words",
    "unshaped": "Critique-GRPO without its shaping", WORDS: "Critique-GRPO with the first mistake",
    "critique_right_or_wrong": "Critique-GRPO with right or wrong",
    "critique_true_answer": "Critique-GRPO with the true answer",
    "critique_own": "Critique-GRPO with its own critiques", PLACEBO: "Critique-GRPO with shuffled words",
    "supervised": "supervised training on right answers and repairs",
}  # fmt: skip
HARD, BEFORE, ENDS = "on prompts without initial success", "before training, second attempts", "ends over 0.05 above"
PAIRS = [
    (WORDS, GRPO_8), (WORDS, GRPO_16), (WORDS, PLACEBO), (WORDS, "critique_right_or_wrong"), (WORDS, "unshaped"),
    (WORDS, "supervised"), ("critique_true_answer", WORDS), ("critique_own", GRPO_8), ("critique_own", PLACEBO),
    ("grpo_first_mistake", GRPO_8), ("grpo_first_mistake", GRPO_16), ("grpo_first_mistake", "grpo_shuffled"),
]  # fmt: skip
CLAIMS = {
    f"{BEFORE} behind the first mistake are right more often than behind {what}, by over 0.02":
        above(repairs(FIRST, than), REPAIRED)
    for than, what in {SHUFFLED: "shuffled words", RIGHT: "right or wrong", OWN: "the policy's own critique"}.items()
} | {
    f"{HARD} {NAMES[arm]} ends below 0.1": below(of(arm), PLATEAU) for arm in (GRPO_8, GRPO_16)
} | {
    f"{HARD} {NAMES[arm]} {ENDS} {NAMES[than]}": above(more(arm, than), MARGIN) for arm, than in PAIRS
} | {
    f"on all prompts {NAMES[WORDS]} {ENDS} {NAMES[than]}": above(more(WORDS, than, "score"), MARGIN)
    for than in (GRPO_8, GRPO_16)
}  # fmt: skip
NUMBERS = {f"{NAMES[arm]}, {HARD}": of(arm) for arm in ARMS} | {
    f"{NAMES[arm]}, all prompts": of(arm, "score") for arm in (GRPO_8, GRPO_16, WORDS, "supervised")
} | {
    f"{BEFORE} that are right behind {critic}": study.final("repaired", arm=PRIOR, critic=critic) for critic in CRITICS
}  # fmt: skip
TABLE = study.one_below_the_other(
    study.Table(("repaired", "of_8", "hard_prompts"), "priors", {"arm": PRIOR}, rows=("critic",)),
    study.Table(("hard", "others", "score", "updates", "learning_rate"), "after {budget} tokens", rows=("arm",)),
)
LEFT = Line("hard", by="arm", without=("grpo_16", "grpo_shuffled", "critique_own", "critique_right_or_wrong"))
FIGURE = Panels([
    Panel([LEFT], HARD, "sampled tokens", "probability of the right answer", width=1.6),
    Panel([Bars("hard", by="arm")], HARD, "at the end"),
    Panel([Bars("others", by="arm")], "on other prompts", "at the end"),
], (19, 5))  # fmt: skip

if __name__ == "__main__":
    study.main(__name__)
