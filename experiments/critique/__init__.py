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
          samples, its critiques included; scripted words are free. All train by Adam; each half of the seeds has the
          learning rate, one of three, that is best for the other half, by all prompts. Accuracy is the exact
          probability of the right answer.
Command   python -m experiments.critique
Time      demo about seventeen CPU minutes, smoke 25 CPU seconds.
Expected  Right second attempts of the prior behind the first mistake 0.12, behind shuffled words 0.05. Accuracy at the
          end where no first answer was right: GRPO 0.11 [0.07, 0.16], GRPO with first mistakes 0.62, Critique-GRPO
          0.13. Words teach, and so do, half as much, second attempts that ignore them; but the shaping scales the push
          on a token of small probability down nearly to nothing, and without it Critique-GRPO learns as GRPO with first
          mistakes does.
Doubt     Deciding tokens have p near 0.001 here; near 0.1, as may be in Qwen3, shaping would push most. A guessed digit
          is no reasoning, and no rule is shared by prompts. Seeds share prompts; most arms take the largest rate.
Smoke     python -m experiments.critique --preset=smoke
"""

import dataclasses
import itertools

from experiments.critique.equal_tokens import EqualTokens, Learner
from experiments.critique.wrong_digits import Repairers, sums
from ipsrl import study
from ipsrl.checking.fields import any_of, at_least, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.tuning import of_best

FIRST, RIGHT, TRUE, SHUFFLED, OWN = CRITICS = (
    "first_mistake",
    "right_or_wrong",
    "true_answer",
    "shuffled(critic=first_mistake)",
    "own",
)
GRPO_8 = "grpo_8"
GRPO_16 = "grpo_16"
WORDS = "critique_first_mistake"
CRITIQUE_GRPO = "critique_grpo"
ARMS = {
    GRPO_8: Learner("GRPO with 8 answers", "grpo", 8),
    GRPO_16: Learner("GRPO with 16 answers", "grpo", 16),
    "grpo_first_mistake": Learner("GRPO with repairs behind the first mistake", "grpo", 8, FIRST),
    "grpo_shuffled": Learner("GRPO with shuffled words", "grpo", 8, SHUFFLED),
    "unshaped": Learner("Critique-GRPO without its shaping", "dr_grpo(entropy=0.001)", 8, FIRST),
    WORDS: Learner("Critique-GRPO with the first mistake", CRITIQUE_GRPO, 8, FIRST),
    "critique_right_or_wrong": Learner(
        "Critique-GRPO with right or wrong", CRITIQUE_GRPO, 8, RIGHT
    ),
    "critique_true_answer": Learner("Critique-GRPO with the true answer", CRITIQUE_GRPO, 8, TRUE),
    "critique_own": Learner("Critique-GRPO with its own critiques", CRITIQUE_GRPO, 8, OWN),
    "critique_shuffled": Learner("Critique-GRPO with shuffled words", CRITIQUE_GRPO, 8, SHUFFLED),
    "supervised": Learner(
        "supervised training on right answers and repairs", "supervised", 8, FIRST
    ),
    "supervised_shuffled": Learner(
        "supervised training with shuffled words", "supervised", 8, SHUFFLED
    ),
}


@dataclasses.dataclass(frozen=True)
class Settings(study.SmallTransformers):
    """`asked` prompts are trained on; repairs of `taught` others are demonstrated. `budget` is of sampled tokens."""

    arms: tuple[str, ...] = study.selecting(any_of(ARMS))
    critics: tuple[str, ...] = study.selecting(any_of(CRITICS))
    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
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
        arms=(WORDS,),
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
}


def curves(settings: Settings) -> study.Curves:
    task = sums(settings.asked + settings.taught)
    policy = settings.transformer(task)
    repairers = Repairers(task, policy, settings.asked, settings.prior_steps)
    runs = EqualTokens(repairers, settings.prompts_per_step, settings.budget, settings.records)
    for critic in settings.critics:
        yield repairers.curve(critic, settings.seeds)
    for arm, rate in itertools.product(settings.arms, settings.learning_rates):
        yield runs.curve(arm, ARMS[arm], rate, settings.seeds)


HARD = "on prompts without initial success"
PROMPTS = {"hard": HARD, "score": "on all prompts"}
COMPARED = {
    "hard": {
        WORDS: (
            GRPO_8,
            GRPO_16,
            "critique_shuffled",
            "critique_right_or_wrong",
            "unshaped",
            "supervised",
        ),
        "critique_true_answer": (WORDS,),
        "critique_own": (GRPO_8, "critique_shuffled"),
        "grpo_first_mistake": (GRPO_8, GRPO_16, "grpo_shuffled"),
        "grpo_shuffled": (GRPO_8,),
        "supervised": ("supervised_shuffled",),
    },
    "score": {WORDS: (GRPO_8, GRPO_16)},
}
"""Accuracy on which prompts -> arm -> the arms than which it learns more, each at its best learning rate."""
OTHER_WORDS = {
    SHUFFLED: "shuffled words",
    RIGHT: "right or wrong",
    OWN: "the policy's own critique",
}
CLAIMS = {
    **{
        "before training, second attempts behind the first mistake are right more often than "
        f"behind {name}, by over 0.02": study.above(
            study.difference("repaired", {"critic": FIRST}, {"critic": than}), 0.02
        )
        for than, name in OTHER_WORDS.items()
    },
    **{
        f"{HARD}, at equal tokens, {ARMS[arm].words} ends with an accuracy below 0.1": study.below(
            study.Best(study.final("hard", arm=arm), "score"), 0.1
        )
        for arm in (GRPO_8, GRPO_16)
    },
    **{
        f"{PROMPTS[value]}, at equal tokens, {ARMS[arm].words} "
        f"ends with an accuracy over 0.05 above that of {ARMS[than].words}": study.above(
            study.Best(study.difference(value, {"arm": arm}, {"arm": than}), "score"), 0.05
        )
        for value, arms in COMPARED.items()
        for arm, others in arms.items()
        for than in others
    },
}
HEADLINE = study.Headline(
    subject="Imitation, critiques and preferences",
    claim=(
        "Where no answer is right, Critique-GRPO learns from repairs behind a critic's words what rewards cannot teach."
    ),
    scope="sums, small transformers that repair digits",
    decided_by=(
        (
            "on prompts without initial success, at equal tokens, Critique-GRPO with the first "
            "mistake ends with an accuracy over 0.05 above that of GRPO with 16 answers"
        ),
        (
            "on prompts without initial success, at equal tokens, Critique-GRPO with the first "
            "mistake ends with an accuracy over 0.05 above that of Critique-GRPO with shuffled "
            "words"
        ),
    ),
)
PRIORS = study.Table(("repaired", "of_8", "hard_prompts"), "priors", rows=("critic",))
ENDS = study.Table(
    ("hard", "others", "score", "updates", "learning_rate"), "after {budget} tokens", rows=("arm",)
)
TABLE = of_best(study.one_below_the_other(PRIORS, ENDS), "score")
NOT_DRAWN = (GRPO_16, "unshaped", "critique_own", "critique_right_or_wrong", "supervised_shuffled")
OVER_TRAINING = Line("hard", by="arm", without=NOT_DRAWN)
PANELS = Panels(
    [
        Panel([OVER_TRAINING], HARD, "sampled tokens", "accuracy", width=1.6),
        Panel([Bars("hard", by="arm")], HARD, "accuracy at the end"),
        Panel([Bars("others", by="arm")], "on other prompts", "accuracy at the end"),
    ],
    (19, 5),
)
FIGURE = of_best(PANELS, "score")
