"""Where rewards stop teaching, do words? Second attempts behind a critic's words, put into GRPO's groups.

Claim     Numbers stop teaching where no answer is right; words do not: a policy that reads what is wrong with an
          attempt repairs it, and learns from the repair, scored as an answer to the question alone (Critique-GRPO).
Paper     arXiv 2506.03106 (Qwen3-8B: pass@1 about +3.8), where the critic is a strong model that by default tells the
          true answer. The rest is ours. After a first demo, whose priors used words less (0.07), these were taught
          longer; budget and rates changed, and the claims on shuffled words without Critique-GRPO were added.
Arms      GRPO with n = 8 and 16 answers; with 8 answers and the best of 8 second attempts GRPO, Critique-GRPO, that
          without its shaping p / (p + 0.1), and supervised training on right answers and repairs. Critics name the
          first wrong digit, say right or wrong, tell the answer, are the policy itself, or (placebo) name the wrong
          digit of another prompt's attempt. World: `wrong_digits`, small transformers that are sure of a wrong
          digit in half of 64 sums and were taught repairs of other sums. Arms end at 80,000 tokens that the policy
          samples, its critiques included; scripted words are free. The learning rate is the best of three for another
          seed, by all prompts. Accuracy is the exact probability of the right answer.
Command   python -m experiments.critique
Time      demo nine CPU minutes, smoke 25 CPU seconds; paper, not run, hours.
Expected  second attempts right behind the first mistake 0.12, right or wrong 0.05, shuffled 0.05, own 0.06, the answer
          0.93. Accuracy where 32 first answers failed: GRPO 0.12 (16 answers: 0.05), with first mistakes 0.62 [0.52,
          0.71], shuffled 0.31; supervised 0.71, shuffled 0.38; Critique-GRPO 0.11, shuffled 0.08, own 0.09, right or
          wrong 0.10, the answer 0.16, without its shaping 0.60. Words teach, and so do, half as much, second attempts
          that ignore them; but the shaping scales the push on a token of probability p << 0.1 by p / 0.1.
Doubt     Deciding tokens have p near 0.001 here; near 0.1, as may be in Qwen3, shaping would push most. A guessed digit
          is no reasoning, and no rule is shared by prompts. Seeds share prompts; most arms take the largest rate.
Smoke     python -m experiments.critique --preset=smoke
"""

import dataclasses
from collections.abc import Iterator

from experiments.critique.equal_tokens import EqualTokens, Learner
from experiments.critique.wrong_digits import Repairers
from ipsrl import study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below

FIRST, RIGHT, TRUE, SHUFFLED, OWN = CRITICS = (
    "first_mistake",
    "right_or_wrong",
    "true_answer",
    "shuffled(critic=first_mistake)",
    "own",
)
N, PAPERS, UNSHAPED = 8, "critique_grpo", "dr_grpo(entropy=0.001)"
ARMS = {
    "grpo_8": Learner("grpo", N),
    "grpo_16": Learner("grpo", 2 * N),
    "grpo_first_mistake": Learner("grpo", N, FIRST),
    "grpo_shuffled": Learner("grpo", N, SHUFFLED),
    "unshaped": Learner(UNSHAPED, N, FIRST),
    "critique_first_mistake": Learner(PAPERS, N, FIRST),
    "critique_right_or_wrong": Learner(PAPERS, N, RIGHT),
    "critique_true_answer": Learner(PAPERS, N, TRUE),
    "critique_own": Learner(PAPERS, N, OWN),
    "critique_shuffled": Learner(PAPERS, N, SHUFFLED),
    "supervised": Learner("supervised", N, FIRST),
    "supervised_shuffled": Learner("supervised", N, SHUFFLED),
}
MARGIN, REPAIRED, PLATEAU = 0.05, 0.02, 0.1


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`asked` prompts are trained on; repairs of `taught` others are demonstrated. `budget` is of sampled tokens."""

    arms: tuple[str, ...] = study.selecting(one_of(*ARMS, default=tuple(ARMS)))
    critics: tuple[str, ...] = study.selecting(one_of(*CRITICS, default=CRITICS))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
    tuning_seeds: tuple[int, ...] = study.seeds((100,))
    learning_rates: tuple[float, ...] = positive((5e-4, 1e-3, 2e-3))
    asked: int = at_least(2, 64)
    taught: int = positive(3000)
    hidden_size: int = positive(32)
    num_layers: int = positive(2)
    prior_steps: int = positive(2000)
    prompts_per_step: int = at_least(2, 16)
    budget: int = positive(80_000)
    records: int = positive(10)


PRESETS = {
    "smoke": Settings(
        arms=("critique_first_mistake",),
        critics=(FIRST,),
        seeds=(0, 1),
        learning_rates=(1e-3,),
        asked=8,
        taught=8,
        hidden_size=16,
        num_layers=1,
        prior_steps=4,
        prompts_per_step=4,
        budget=500,
        records=2,
    ),
    "demo": Settings(),
    "paper": Settings(
        seeds=tuple(range(20)),
        tuning_seeds=tuple(range(100, 104)),
        learning_rates=(1e-4, 3e-4, 1e-3, 3e-3),
        asked=256,
        hidden_size=64,
        prior_steps=6000,
        budget=2_000_000,
    ),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    names = ("asked", "taught", "hidden_size", "num_layers", "prior_steps")
    repairers = Repairers(**{name: getattr(settings, name) for name in names})
    runs = EqualTokens(repairers, settings.prompts_per_step, settings.budget, settings.records)
    yield from (repairers.curve(critic, settings.seeds) for critic in settings.critics)
    for name in settings.arms:
        yield runs.curve(
            name, ARMS[name], settings.seeds, settings.learning_rates, settings.tuning_seeds
        )


def more(arm: str, than: str, value: str = "hard") -> study.Number:
    """Paired by seed."""
    return study.difference(value, {"arm": arm}, {"arm": than})


GRPO_8, GRPO_16, WORDS = "grpo_8", "grpo_16", "critique_first_mistake"
NAMES = {
    GRPO_8: "GRPO with 8 answers",
    GRPO_16: "GRPO with 16 answers",
    "grpo_first_mistake": "GRPO with repairs behind the first mistake",
    "grpo_shuffled": "GRPO with shuffled words",
    "unshaped": "Critique-GRPO without its shaping",
    WORDS: "Critique-GRPO with the first mistake",
    "critique_right_or_wrong": "Critique-GRPO with right or wrong",
    "critique_true_answer": "Critique-GRPO with the true answer",
    "critique_own": "Critique-GRPO with its own critiques",
    "critique_shuffled": "Critique-GRPO with shuffled words",
    "supervised": "supervised training on right answers and repairs",
    "supervised_shuffled": "supervised training with shuffled words",
}
HARD, BEFORE = "on prompts without initial success", "before training, second attempts"
AT, ENDS = f"{HARD}, at equal tokens,", "ends with an accuracy over 0.05 above that of"
PAIRS = [
    *(
        (WORDS, than)
        for than in (GRPO_8, GRPO_16, "critique_shuffled", "critique_right_or_wrong", "unshaped")
    ),
    (WORDS, "supervised"),
    ("critique_true_answer", WORDS),
    *(("critique_own", than) for than in (GRPO_8, "critique_shuffled")),
    *(("grpo_first_mistake", than) for than in (GRPO_8, GRPO_16, "grpo_shuffled")),
    ("grpo_shuffled", GRPO_8),
    ("supervised", "supervised_shuffled"),
]
CLAIMS = (
    {
        f"{BEFORE} behind the first mistake are right more often than behind {what}, by over 0.02": above(
            study.difference("repaired", {"critic": FIRST}, {"critic": than}), REPAIRED
        )
        for than, what in {
            SHUFFLED: "shuffled words",
            RIGHT: "right or wrong",
            OWN: "the policy's own critique",
        }.items()
    }
    | {
        f"{AT} {NAMES[arm]} ends with an accuracy below 0.1": below(
            study.final("hard", arm=arm), PLATEAU
        )
        for arm in (GRPO_8, GRPO_16)
    }
    | {
        f"{AT} {NAMES[arm]} {ENDS} {NAMES[than]}": above(more(arm, than), MARGIN)
        for arm, than in PAIRS
    }
    | {
        f"on all prompts, at equal tokens, {NAMES[WORDS]} {ENDS} {NAMES[than]}": above(
            more(WORDS, than, "score"), MARGIN
        )
        for than in (GRPO_8, GRPO_16)
    }
)
NUMBERS = (
    {f"accuracy of {NAMES[arm]}, {HARD}": study.final("hard", arm=arm) for arm in ARMS}
    | {
        f"accuracy of {NAMES[arm]}, all prompts": study.final("score", arm=arm)
        for arm in (GRPO_8, GRPO_16, WORDS, "grpo_first_mistake", "supervised")
    }
    | {
        f"{BEFORE} that are right behind {critic}": study.final("repaired", critic=critic)
        for critic in CRITICS
    }
)
TABLE = study.one_below_the_other(
    study.Table(("repaired", "of_8", "hard_prompts"), "priors", rows=("critic",)),
    study.Table(
        ("hard", "others", "score", "updates", "learning_rate"),
        "after {budget} tokens",
        rows=("arm",),
    ),
)
HIDDEN = "grpo_16", "unshaped", "critique_own", "critique_right_or_wrong", "supervised_shuffled"
FIGURE = Panels(
    [
        Panel(
            [Line("hard", by="arm", without=HIDDEN)], HARD, "sampled tokens", "accuracy", width=1.6
        ),
        Panel([Bars("hard", by="arm")], HARD, "accuracy at the end"),
        Panel([Bars("others", by="arm")], "on other prompts", "accuracy at the end"),
    ],
    (19, 5),
)
