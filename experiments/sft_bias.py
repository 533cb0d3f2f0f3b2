"""Does a supervised start that is fitted too far make reinforcement learning collapse sooner, and invert the ranks?

Claim     The longer supervised training (SFT) on few demonstrations, the higher pass@1 before reinforcement learning,
          but the lower pass@k after it: ranks invert, and entropy before predicts better than pass@1 what is reached.
Paper     arXiv 2606.18487 (rank inversion by entropy collapse) and 2510.01624 (held-out likelihood and pass@k predict
          better than the SFT score), both for language models of billions of parameters; sizes and arms are ours.
Arms      A prior that knows each problem of countdown a little is taught one in two problems, by a few demonstrations
          each that favour some forms; after 1 to 32 epochs GRPO goes on with all problems. Placebos after the most
          epochs: reheated (logits divided until the entropy is that after the fewest), uniform (demonstrations favour
          no form), longer (twice the updates).
Command   python -m experiments.sft_bias
Time      demo eleven CPU minutes beside much other work, smoke one CPU minute; paper, not run, an hour.
Expected  Five seeds. From 1 to 32 epochs pass@1 before rises from 0.26 to 0.54 and effective right forms fall from 4.0
          to 2.0. GRPO levels nearly all of it: after it pass@1 is 0.96 to 0.97 from every start, pass@64 1.00 from 1
          epoch and 0.981 [0.972, 0.991] from 32, right forms 1.20 and 1.10. So ranks invert, by little: the correlation
          of pass@1 before with pass@64 after is -0.50 [-0.61, -0.40], that of entropy 0.55 [0.45, 0.66]. Reheating
          brings pass@64 to 0.984 [0.972, 0.997] only, demonstrations that favour no form to 0.997.
Doubt     Ranks that stay in a larger model although its entropy has fallen by half. The loss here is of two hundredths;
          what collapses right forms from 4 to 1.2 is GRPO, not the supervised start.
Smoke     python -m experiments.sft_bias --preset=smoke

Every seed has demonstrations of its own. Entropy is the mean over tokens of sampled answers, the held-out loss that of
a demonstration to a problem that was not taught, both in nats.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ipsrl import study
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.countdown import Countdown
from ipsrl.fields import between, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.figures.style import Drawing
from ipsrl.measures.rank_correlation import rank_correlations
from ipsrl.measures.seeds import Interval
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.training_runs import TrainingFlags, TrainingGrid
from ipsrl.study.worlds.demonstrations import Demonstrations, answer_entropy, reheated

TASK = Countdown(numbers=4, problems=64, largest_number=12, largest_target=40, least_solutions=4)
POLICY = Transformer(TASK.vocabulary_size, hidden_size=64, num_layers=2)
FAVOURING, UNIFORM = (Demonstrations(TASK, POLICY, exponent=exponent) for exponent in (1.5, 0.0))
PLACEBOS = ("reheated", "uniform", "longer")


@dataclasses.dataclass(frozen=True)
class Settings(TrainingFlags):
    """`sft_epochs` are those of supervised training, after a prior that is learned in `prior_steps`."""

    objectives: tuple[str, ...] = study.objectives(("grpo",))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
    steps: int = positive(60)
    prompts_per_step: int = positive(32)
    micro_batches: int = positive(1)
    learning_rate: float = positive(1e-3)
    evaluate_every: int = positive(60)
    sft_epochs: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    prior_steps: int = positive(1000)
    answers: int = between(64, 4096, 64)


SMALL = {"steps": 2, "prompts_per_step": 8, "group_size": 4, "evaluate_every": 2, "prior_steps": 10}
PRESETS = {
    "smoke": Settings(seeds=(0, 1), sft_epochs=(1, 2), **SMALL),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10)), steps=300, evaluate_every=100),
}


def curves(settings: Settings) -> Iterator[study.TrainingRun]:
    mesh, training, most = make_mesh(settings.mesh), settings.train_settings(), max(settings.sft_epochs)
    arms = [("taught", epochs) for epochs in settings.sft_epochs] + [(name, most) for name in PLACEBOS]
    evaluate = FAVOURING.evaluation(training, mesh, settings.answers)
    for (arm, epochs), seed in itertools.product(arms, settings.seeds):
        updates = dataclasses.replace(training, steps=training.steps * (2 if arm == "longer" else 1))
        grid = TrainingGrid(
            TASK, POLICY, settings.objectives, (seed,), updates, mesh, evaluate,
            folder=f"{arm}_{epochs}",
            identity={"arm": arm, "sft_epochs": epochs, "prior_steps": settings.prior_steps},
            start=functools.cache(functools.partial(start, settings, arm, epochs, seed)),
        )  # fmt: skip
        yield from grid.curves({"arm": arm, "epochs": epochs})


def start(settings: Settings, arm: str, epochs: int, seed: int) -> tuple[Parameters, None]:
    """The parameters of an arm before reinforcement learning, of which none are frozen."""
    taught = (UNIFORM if arm == "uniform" else FAVOURING).from_prior(settings.prior_steps, epochs, seed)
    if arm == "reheated":
        of_fewest = FAVOURING.from_prior(settings.prior_steps, min(settings.sft_epochs), seed)
        taught = reheated(TASK, POLICY, taught, answer_entropy(TASK, POLICY, of_fewest))
    return taught, None


def after(name: str, of_epochs: Callable[[Sequence[int]], int] = max, arm: str = "taught") -> study.Number:
    """A measure after reinforcement learning, from the most epochs or, by `min`, from the fewest."""
    return lambda records: records.final(name, arm=arm, epochs=of_epochs(records.distinct("epochs")))


def correlation(before: str, records: Records) -> Interval:
    """The rank correlation, over epochs, of a measure before with pass@64 after, mean over seeds."""
    by_epochs = [rows for _, rows in records.where(arm="taught").each("epochs")]
    first = np.array([rows.curve(before)[1][:, 0] for rows in by_epochs])
    last = np.array([rows.ends(MANY) for rows in by_epochs])
    return interval_of(rank_correlations(first.T, last.T))


MANY, FORMS = "pass_at_64", "effective_outcomes"
RANKS = {name: functools.partial(correlation, name) for name in ("pass_at_1", "entropy", MANY, "held_out_loss")}
NUMBERS = {
    **{f"rank correlation of {name} before with pass@64 after": of for name, of in RANKS.items()},
    **{f"pass@64 after the most epochs, {arm}": after(MANY, arm=arm) for arm in ("taught", *PLACEBOS)},
    "pass@64 after the fewest epochs": after(MANY, min),
    "effective right forms after the most epochs": after(FORMS),
    "effective right forms after the fewest": after(FORMS, min),
}
REHEATED = "modes are lost, not only entropy: reheated, pass@64 stays below that after the fewest"
CLAIMS = {
    "ranks invert: the higher pass@1 before, the lower pass@64 after": study.below(RANKS["pass_at_1"], 0),
    "the higher entropy before, the higher pass@64 after": study.above(RANKS["entropy"], 0),
    "the higher pass@64 before, the higher pass@64 after": study.above(RANKS[MANY], 0),
    "the lower the held-out loss before, the higher pass@64 after": study.below(RANKS["held_out_loss"], 0),
    "pass@64 is lower after the most epochs than after the fewest": study.below(after(MANY), after(MANY, min)),
    "effective right forms are fewer, too": study.below(after(FORMS), after(FORMS, min)),
    REHEATED: study.below(after(MANY, arm="reheated"), after(MANY, min)),
}
SHOWN = {"pass_at_1": "pass@1", MANY: "pass@64", FORMS: "effective right forms"}
TITLE = "after GRPO, mean over seeds {seeds} [95 % bootstrap interval]"
TABLE = study.Table(SHOWN | {"recovery": "recovery"}, TITLE, rows=("arm", "epochs"), decimals=2)
AXES = {"xlabel": "epochs of supervised training", "xscale": "log"}
PANELS = [Panel([Line(name, "epochs", "when")], ylabel=label, **AXES) for name, label in SHOWN.items()]


def FIGURE(records: Records, settings: Settings) -> Drawing:
    taught = records.where(arm="taught")
    moments = {"before GRPO": taught.where(step=0), "after GRPO": taught.at_end()}
    rows = [{**row, "when": when} for when, found in moments.items() for row in found.rows]
    return Panels(PANELS, size=(12, 3.4))(Records(rows, ("when", "epochs")), settings)


if __name__ == "__main__":
    study.main(__name__)
