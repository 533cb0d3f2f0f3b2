"""Supervised training that goes on longer: does it leave less after reinforcement learning, and invert the ranks?

Claim     The longer supervised training (SFT) on few demonstrations, the higher pass@1 before reinforcement learning,
          but the lower pass@k after it, and the fewer right forms: ranks invert. Entropy, pass@k and held-out
          likelihood before predict what is reached better than pass@1 does.
Paper     arXiv 2606.18487 (rank inversion by entropy collapse) and 2510.01624 (held-out likelihood and pass@k predict
          better than the SFT score), both for language models of billions of parameters; sizes and arms are ours.
Arms      A prior that knows each problem of countdown a little is taught one in two problems, by a few demonstrations
          each that favour some forms; after 1 to 32 epochs GRPO goes on with all problems. Controls after the most
          epochs: reheated (logits divided until the entropy is that after the fewest), uniform (demonstrations favour
          no form), longer (twice the updates of GRPO).
Command   python -m experiments.sft_bias
Time      demo eleven CPU minutes beside much other work, smoke one CPU minute; paper, not run, an hour.
Expected  From the fewest to the most epochs pass@1 before GRPO rises from 0.26 to 0.54, and effective right forms
          halve. GRPO levels nearly all of it: after it there is hardly more than one right form from every start. Ranks
          invert, by little: pass@1 before and pass@64 after correlate by -0.50 [-0.68, -0.33], but the loss of pass@64,
          0.019 [0.003, 0.035], is hardly one. Whether entropy predicts better than pass@1 is undecided.
Doubt     Ranks that stay in a larger model although its entropy has fallen by half. Of 320 problems (five seeds) 6 are
          lost from 32 epochs and none from 1: pass@64 is at its ceiling, and a harder task could show more. What
          collapses right forms from 4 to 1.2 is GRPO, not the supervised start.
Smoke     python -m experiments.sft_bias --preset=smoke

Every seed has demonstrations of its own. Entropy is the mean over tokens of sampled answers, the held-out loss that of
a demonstration to a problem that was not taught, both in nats: the one falls and the other rises with the epochs, so
that as predictors they are nearly one. A correlation is Spearman's over epochs, for each seed.
"""

import dataclasses
import functools
import itertools

from experiments.sft_bias.before_and_after import correlation, strength
from experiments.sft_bias.demonstrations import FewDemonstrations
from ipsrl import study
from ipsrl.checking.fields import between, positive
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.records.tidy import Records
from ipsrl.study import below
from ipsrl.study.training_runs import TrainingFlags, TrainingGrid

TASK = Countdown(numbers=4, problems=64, largest_number=12, largest_target=40, least_solutions=4)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=64, num_layers=2)
FAVOURING, UNIFORM = (FewDemonstrations(TASK, POLICY, exponent=exponent) for exponent in (1.5, 0.0))
EPOCHS = (1, 2, 4, 8, 16, 32)
CONTROLS = ("reheated", "uniform", "longer")


@dataclasses.dataclass(frozen=True)
class Settings(TrainingFlags):
    """`sft_epochs` are those of supervised training, after a prior that is learned in `prior_steps`."""

    objectives: tuple[str, ...] = study.objectives(("grpo",))
    seeds: tuple[int, ...] = study.seeds(range(5), least=2)
    steps: int = positive(60)
    prompts_per_step: int = positive(32)
    micro_batches: int = positive(1)
    learning_rate: float = positive(1e-3)
    evaluate_every: int = positive(60)
    sft_epochs: tuple[int, ...] = study.rising(EPOCHS, least=1, most=1024)
    prior_steps: int = positive(1000)
    answers: int = between(64, 4096, 64)


SMALL = {"steps": 2, "prompts_per_step": 8, "group_size": 4, "evaluate_every": 2, "prior_steps": 10}
PRESETS = {
    "smoke": Settings(seeds=(0, 1), sft_epochs=(1, 2), **SMALL),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10)), steps=300, evaluate_every=100),
}


def curves(settings: Settings) -> study.Curves:
    mesh = make_mesh(settings.mesh)
    training = settings.train_settings()
    evaluate = FAVOURING.evaluation(training, mesh, settings.answers)
    arms = [("taught", epochs) for epochs in settings.sft_epochs]
    arms += [(control, max(settings.sft_epochs)) for control in CONTROLS]
    for (arm, epochs), seed in itertools.product(arms, settings.seeds):
        steps = training.steps * (2 if arm == "longer" else 1)
        grid = TrainingGrid(
            TASK,
            POLICY,
            settings.objectives,
            (seed,),
            dataclasses.replace(training, steps=steps),
            mesh,
            evaluate,
            folder=f"{arm}_{epochs}",
            identity={"arm": arm, "sft_epochs": epochs, "prior_steps": settings.prior_steps},
            start=functools.cache(functools.partial(start, settings, arm, epochs, seed)),
        )
        yield from grid.curves({"arm": arm, "epochs": epochs})


def start(settings: Settings, arm: str, epochs: int, seed: int) -> tuple[Parameters, None]:
    """The parameters of an arm before reinforcement learning, of which none are frozen."""
    demonstrations = UNIFORM if arm == "uniform" else FAVOURING
    taught = demonstrations.from_prior(settings.prior_steps, epochs, seed)
    if arm == "reheated":
        of_fewest = FAVOURING.from_prior(settings.prior_steps, min(settings.sft_epochs), seed)
        taught = FAVOURING.reheated(taught, FAVOURING.answer_entropy(of_fewest))
    return taught, None


PASS, FORMS = "pass_at_64", "effective_outcomes"


def left(value: str, arm: str = "taught", epochs: int = EPOCHS[-1]) -> study.Number:
    """A value after reinforcement learning; by default after the most epochs."""
    return study.final(value, arm=arm, epochs=epochs)


FEWEST = left(PASS, epochs=EPOCHS[0])
PREDICTORS = {"entropy": "entropy", PASS: "pass@64", "held_out_loss": "held-out loss"}
CLAIMS = {
    "ranks invert: the higher pass@1 before, the lower pass@64 after": below(
        correlation("pass_at_1", PASS), 0
    ),
    "the higher pass@1 before, the fewer right forms after": below(
        correlation("pass_at_1", FORMS), 0
    ),
    "right forms after the most epochs are over 0.1 fewer than after the fewest": below(
        left(FORMS), left(FORMS, epochs=EPOCHS[0]), 0.1
    ),
    "pass@64 is over 0.02 lower after the most epochs than after the fewest": below(
        left(PASS), FEWEST, 0.02
    ),
    "pass@64 is over 0.02 lower after the most epochs, reheated to the entropy of the fewest, than"
    " after the fewest": below(left(PASS, "reheated"), FEWEST, 0.02),
    "pass@64 is over 0.02 lower after the most epochs and twice the updates than after the fewest"
    " epochs": below(left(PASS, "longer"), FEWEST, 0.02),
    "pass@64 is over 0.02 lower after demonstrations that favour some forms than after such that"
    " favour none": below(left(PASS), left(PASS, "uniform"), 0.02),
    **{
        f"{label} before correlates with pass@64 after by over 0.1 more strongly than"
        " pass@1": study.above(strength(name, PASS), strength("pass_at_1", PASS), 0.1)
        for name, label in PREDICTORS.items()
    },
}
HEADLINE = study.Headline(
    subject="Imitation, critiques and preferences",
    claim=(
        "The higher the pass@1 that supervised training leaves, the lower pass@k "
        "and the fewer forms after reinforcement learning."
    ),
    scope="forms of sums, small transformers",
    decided_by=(
        "ranks invert: the higher pass@1 before, the lower pass@64 after",
        "the higher pass@1 before, the fewer right forms after",
        "pass@64 is over 0.02 lower after the most epochs than after the fewest",
    ),
)
SHOWN = {"pass_at_1": "pass@1", PASS: "pass@64", FORMS: "effective right forms"}
TITLE = "after GRPO, mean over seeds {seeds} [95 % interval]"
TABLE = study.Table(SHOWN | {"recovery": "recovery"}, TITLE, rows=("arm", "epochs"), decimals=2)
AXES = {"xlabel": "epochs of supervised training", "xscale": "log"}
PANELS = [
    Panel([Line(name, "epochs", "when")], ylabel=label, **AXES) for name, label in SHOWN.items()
]


def FIGURE(records: Records, settings: Settings) -> Drawing:
    taught = records.where(arm="taught")
    moments = {"before GRPO": taught.where(step=0), "after GRPO": taught.at_end()}
    rows = [{**row, "when": when} for when, found in moments.items() for row in found.rows]
    return Panels(PANELS, size=(12, 3.4))(Records(rows, ("when", "epochs")), settings)
