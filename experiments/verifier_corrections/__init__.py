"""Rewards corrected for the rates at which a verifier errs: is it more than another step size?

Claim     Random errors of a verifier are undone by the rates at which it errs: subtract the false positive rate and
          divide by J (backward), or shift by the false negative rate (forward). Training becomes more accurate, and the
          rates must be right. Division by the group's standard deviation leaves nothing of either correction.
Paper     arXiv 2510.00915 and 2510.18924. That std undoes corrections is derived. One prompt, on which wrong
          rates cannot turn an update: between prompts they also reweigh prompts, which is not tested here.
Arms      Plain gradient ascent at 0.1. Errors of 0.3 both ways, J = 0.4, corrected with these rates, and with 0.2 and
          0.4; without std beside Dr. GRPO, with std beside GRPO (the negative control). Placebos: Dr. GRPO with a step
          1 / J times as large; REINFORCE, which is the forward correction without its shift.
Command   python -m experiments.verifier_corrections
Time      demo half a CPU minute, smoke a third of that; paper, not run, an estimated three minutes.
Expected  True accuracy at the end: Dr. GRPO 0.884 [0.870, 0.896], backward 0.971 [0.967, 0.974], and the placebo with
          the longer step the same; forward 0.908 [0.897, 0.917], REINFORCE 0.905 [0.895, 0.915]. Wrong rates rescale
          the expected update and do not turn it; rates that are too high end above the right ones, as the longest step.
          With std all are GRPO, 0.966. A correction by rates is a step size.
Doubt     Rates that differ between prompts: there a correction may change more than the step.
Smoke     python -m experiments.verifier_corrections --preset=smoke

Bandit and exact expected updates are those of `experiments.verifier_noise`. All arms sample equally many answers.
"""

import dataclasses
import functools

from experiments.verifiers.right_and_wrong import exact, trained_on, vanishes
from ipsrl import study
from ipsrl.checking.fields import any_of, at_least, positive
from ipsrl.dynamics.verifier_errors import verifier_of
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import above, every, final, near

LEFT = 0.4
"""Youden's J of the verifier: 1 less the rates of both kinds of errors."""
RATES = (0.3, 0.2, 0.4)
"""Rates of errors, the same both ways, by which rewards are corrected; the right rate first."""
BACKWARD = "backward_correction(false_positive_rate={0}, false_negative_rate={0}, standardise={1})"
FORWARD = "forward_correction(false_negative_rate={0}, standardise={1})"


def corrections(name: str, text: str, with_std: bool) -> dict[str, str]:
    """Arm -> objective, for each rate."""
    return {
        f"{name}({rate=}{', std=True' * with_std})": text.format(rate, with_std) for rate in RATES
    }


BACK = corrections("backward", BACKWARD, False)
FORE = corrections("forward", FORWARD, False)
STD = corrections("backward", BACKWARD, True) | corrections("forward", FORWARD, True)
PLACEBO = "dr_grpo_step_by_J"
ARMS = (
    {name: name for name in ("grpo", "dr_grpo", "reinforce")}
    | {PLACEBO: "dr_grpo"}
    | BACK
    | FORE
    | STD
)


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`objectives` are the arms' names; expected updates are those at policies with these `accuracies`."""

    objectives: tuple[str, ...] = any_of(ARMS)
    accuracies: tuple[float, ...] = study.rising((0.1, 0.3, 0.6, 0.9), least=0.01, most=0.99)
    seeds: tuple[int, ...] = study.seeds(range(32, 42), least=2)
    group_size: int = at_least(2, 8)
    steps: int = positive(500)
    record_every: int = positive(25)


SMALL = {"accuracies": (0.3,), "seeds": (32, 33), "group_size": 4, "steps": 100}
PRESETS = {
    "smoke": Settings(("dr_grpo", "backward(rate=0.3)"), **SMALL),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32, 96)), steps=5000, record_every=50),
}


def curves(settings: Settings) -> study.Curves:
    for name in settings.objectives:
        step = settings.learning_rate / (LEFT if name == PLACEBO else 1)
        labels = {"kind": "trained", "arm": name}
        yield trained_on(verifier_of(LEFT), ARMS[name], settings, labels, learning_rate=step)
        of_arm = functools.partial(
            exact,
            ARMS[name],
            "both",
            (LEFT,),
            settings.accuracies,
            settings.group_size,
            without="reinforce" if name in FORE else "dr_grpo",
        )
        yield study.Curve({"kind": "exact", "arm": name}, of_arm, ["J", "start"])


def accuracy(arm: str) -> study.Number:
    return final("accuracy", kind="trained", arm=arm)


def zero(distance: str, *arms: str) -> study.Claim:
    """Whether the expected updates of arms have no such distance at any policy."""
    return every(vanishes(distance, arm=arm) for arm in arms)


RIGHT_BACK, *WRONG_BACK = BACK
RIGHT_FORE, *WRONG_FORE = FORE
RIGHT_STD = "backward(rate=0.3, std=True)"
BETTER = {
    "backward correction ends over 0.01 more accurate than Dr. GRPO": (RIGHT_BACK, "dr_grpo"),
    "forward correction ends over 0.01 more accurate than Dr. GRPO": (RIGHT_FORE, "dr_grpo"),
    "backward correction ends over 0.01 more accurate than Dr. GRPO with a step 1 / J times as large": (
        RIGHT_BACK,
        PLACEBO,
    ),
    "forward correction ends over 0.01 more accurate than REINFORCE": (RIGHT_FORE, "reinforce"),
    "backward correction with right rates ends over 0.01 more accurate than with rates of 0.2": (
        RIGHT_BACK,
        "backward(rate=0.2)",
    ),
    "backward correction with right rates ends over 0.01 more accurate than with rates of 0.4": (
        RIGHT_BACK,
        "backward(rate=0.4)",
    ),
}
CLAIMS = {  # What follows by algebra on one prompt is called derived.
    "derived: without std the backward correction has the clean expected update": zero(
        "from_clean", RIGHT_BACK
    ),
    "derived: without std the forward correction has J x the clean expected update": zero(
        "from_scaled", RIGHT_FORE
    ),
    "derived: without std wrong rates rescale the update, and do not turn it": zero(
        "turned", *WRONG_BACK, *WRONG_FORE
    ),
    "derived: with std no correction changes the expected update": zero("from_grpo", *STD),
    "with std each correction ends within 0.01 of the accuracy of GRPO": every(
        near(accuracy(arm), accuracy("grpo"), 0.01) for arm in STD
    ),
    **{
        sentence: above(accuracy(arm), accuracy(other), by=0.01)
        for sentence, (arm, other) in BETTER.items()
    },
}
HEADLINE = study.Headline(
    subject="Verifiers and reward models",
    claim="A verifier's random errors are undone by the rates at which it errs.",
    scope="a bandit with three right and three wrong outcomes",
    decided_by=(
        "backward correction ends over 0.01 more accurate than Dr. GRPO",
        "forward correction ends over 0.01 more accurate than Dr. GRPO",
        (
            "backward correction ends over 0.01 more accurate than Dr. GRPO with a step 1"
            " / J times as large"
        ),
    ),
)
TRAINED = {"kind": "trained"}
TABLE = study.Table(("accuracy", "effective"), where=TRAINED, rows=("arm",))
FEW = tuple(name for name in STD if name != RIGHT_STD)
LINES = Line("accuracy", by="arm", where=TRAINED, without=(*WRONG_BACK, *WRONG_FORE, *FEW))
BARS = Bars("accuracy", by="arm", where=TRAINED, without=FEW)
FIGURE = Panels(
    [
        Panel([LINES], xlabel="updates", ylabel="true accuracy"),
        Panel([BARS], xlabel="true accuracy after {steps} updates"),
    ],
    size=(13.0, 3.9),
)
