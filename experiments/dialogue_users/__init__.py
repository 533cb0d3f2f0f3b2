"""Dialogues with three kinds of users: does a hierarchical manager collapse into one phase, and does MAML prevent it?

Claim     Without meta-learning the master of a hierarchical dialogue manager collapses to one action, whatever the
          user; MAML over kinds of users keeps it variable, and adapts it.
Paper     arXiv 2506.19652 (phases, kinds of users, rewards). The simulated users, acts, margins, equalised bonuses, the
          adaptation on one group and all numbers of training are ours: the paper's we do not know.
Arms      Flat policy and hierarchical GRPO, each on `interview`; + entropy bonus, IPS-GRPO with the commonest phase as
          outcome, a transformer that reads the dialogue (`context`), first-order MAML that adapts the master. The same
          without noise by exact gradients, there also MAML with second derivatives. Equally many dialogues; one
          learning rate and inner step, chosen for GRPO and MAML on seeds 0 to 2, for all but the transformer, untuned.
          All are measured before and after an adaptation by GRPO, exactly; the transformer by samples, unadapted. The
          published bonuses (50, 100, 150, 200) are one reason to collapse, so that the claim has to hold with equal
          ones as well. Placebo: MAML whose inner step is on any user.
Command   python -m experiments.dialogue_users
Time      demo five CPU minutes, smoke 25 CPU seconds; paper, not run, hours.
Expected  share of the commonest phase; share of the best return before and after an adaptation, five seeds (+- 0.1).
          Equal bonuses: hierarchy 0.995; 0.62, 0.62; flat policy and transformer 0.998; 0.63 or 0.64; first-order MAML
          0.45; 0.43, 0.72; placebo 0.92; 0.62, 0.66; entropy bonus 0.57; 0.48, 0.59; IPS-GRPO 0.32; 0.41, 0.64. Those
          that collapse engage. Published ones: hierarchy 0.70; 0.71, 0.55, it engages for 8 turns, then plans, whoever
          the user is; first-order MAML 0.49; 0.39, 0.65. So the escalating bonuses prevent the collapse, and MAML
          returns more with equal ones alone. An entropy bonus or IPS-GRPO keep phases too. Kept is the better of both.
Doubt     Users are a table of our own, in which engaging is the safe phase. The step size of adaptations suits MAML. A
          master with another observation, longer training, a transformer that explores more may differ.
Smoke     python -m experiments.dialogue_users --preset=smoke

`--show` prints a dialogue with each kind of user, of the first seed after training and an adaptation.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from experiments.dialogue_users.dialogue_arms import (
    BY_TURN,
    EXACT,
    NAMES,
    SAMPLED,
    TRAINING,
    curves_of,
    dialogues,
    of,
)
from ipsrl import study
from ipsrl.environments.interview import BONUSES
from ipsrl.environments.interview_users import KINDS
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study.claims import above, all_of, below, close

FLAT, PLAIN, ENTROPY, IPS, CONTEXT, FOMAML, PLACEBO = SAMPLED
EXACT_PLAIN, EXACT_FOMAML, EXACT_MAML = EXACT


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """Updates are of a group with each kind of user; `inner` is the step size of adaptations."""

    arms: tuple[str, ...] = study.selecting(one_of(*SAMPLED, *EXACT, default=(*SAMPLED, *EXACT)))
    bonuses: tuple[str, ...] = study.selecting(one_of(*BONUSES, default=tuple(BONUSES)))
    seeds: tuple[int, ...] = study.seeds((10, 11, 12, 13, 14), least=2)
    updates: int = at_least(4, 120)
    records: int = at_least(1, 6)
    group_size: int = at_least(2, 16)
    turns: int = at_least(4, 40)
    learning_rate: float = positive(30.0)
    inner: float = positive(400.0)
    show: bool = study.selecting(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.updates % (2 * self.records):
            raise ValueError(
                f"--updates is {self.updates}, it must be a multiple of 2 --records, {2 * self.records}"
            )
        if self.turns % 4:
            raise ValueError(f"--turns is {self.turns}, it must be a multiple of 4")


PRESETS = {
    "smoke": Settings(
        (PLAIN,), ("equalised",), seeds=(0, 1), updates=4, records=1, group_size=4, turns=8
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10, 30)), updates=960, learning_rate=10.0),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for bonuses, arm in itertools.product(settings.bonuses, settings.arms):
        yield from curves_of(settings, bonuses, arm)


def more(arm: str, than: str, bonuses: str) -> study.Number:
    """By how much the return, adapted if that is better, is above that of another arm, paired by seed."""
    return study.difference("kept_reward", of(arm, bonuses), of(than, bonuses))


COLLAPSED, VARIED = (
    (FLAT, PLAIN, EXACT_PLAIN),
    (ENTROPY, IPS, CONTEXT, FOMAML, EXACT_FOMAML, EXACT_MAML),
)
OVER, UNDER = (
    "has one phase in over 90 % of its choices",
    "has no phase in over 90 % of its choices",
)
TELLS = (
    "adaptation, the phase of {} tells {} 0.1 nats about the kind of user, in the mean over choices"
)
MAML_HAS = "{} first-order MAML has over 0.02 more of the best return than {}"


def claims_of(bonuses: str) -> dict[str, study.Claim]:
    """The claims with published or equalised bonuses."""
    these, commonest = (
        f"{bonuses} bonuses:",
        {arm: study.final("commonest", **of(arm, bonuses)) for arm in NAMES},
    )
    tells = {arm: study.final("adapted_information", **of(arm, bonuses)) for arm in (FOMAML, PLAIN)}
    claims = {f"{these} {NAMES[arm]} {OVER}": above(commonest[arm], 0.9) for arm in COLLAPSED}
    claims |= {f"{these} {NAMES[arm]} {UNDER}": below(commonest[arm], 0.9) for arm in VARIED}
    claims |= {
        MAML_HAS.format(these, NAMES[it]): above(more(FOMAML, it, bonuses), 0.02)
        for it in (PLAIN, CONTEXT)
    }
    return claims | {
        f"{these} before an {TELLS.format(NAMES[PLAIN], 'under')}": below(
            study.final("information", **of(PLAIN, bonuses)), 0.1
        ),
        f"{these} after an {TELLS.format(NAMES[FOMAML], 'over')}": above(tells[FOMAML], 0.1),
        f"{these} after an {TELLS.format(NAMES[PLAIN], 'under')}": below(tells[PLAIN], 0.1),
        f"{these} {NAMES[PLACEBO]} has at most 0.02 more of the best return than {NAMES[PLAIN]}": below(
            more(PLACEBO, PLAIN, bonuses), 0.02
        ),
        f"{these} without noise, second derivatives change MAML's share of the best return by less than 0.05": lambda records: (
            close(more(EXACT_MAML, EXACT_FOMAML, bonuses)(records), 0.0, 0.05)
        ),
    }


def whole(records: Records) -> bool | None:
    """The paper's claim: with both bonuses the hierarchical policy collapses, and first-order MAML does not."""
    parts = [(above, PLAIN), (below, FOMAML)]
    return all_of(
        side(study.final("commonest", **of(arm, bonuses)), 0.9)(records)
        for side, arm in parts
        for bonuses in BONUSES
    )


CLAIMS = {f"with both bonuses {NAMES[PLAIN]} {OVER}, and {NAMES[FOMAML]} {UNDER}": whole}
CLAIMS |= claims_of("equalised") | claims_of("published")
VALUES = {
    "commonest": "share of the commonest phase",
    "entropy": "entropy of the phase",
    "reward": "share of the best return",
    "kept_reward": "return, adapted if better",
    "adapted_information": "nats about the user, adapted",
}
NUMBERS = {
    f"{shown}, {bonuses}, {arm}": study.final(value, **of(arm, bonuses))
    for (value, shown), bonuses, arm in itertools.product(VALUES.items(), BONUSES, NAMES)
}
COLUMNS = (*VALUES, "information", "adapted_commonest", "adapted_reward")
OF_ARMS = study.Table(COLUMNS, "{bonuses} bonuses", {"part": TRAINING}, each="bonuses")


def TABLE(records: Records, settings: Settings) -> str:
    """The table, and with --show dialogues."""
    shown = dialogues(records, settings) if settings.show else ()
    return "\n\n".join([OF_ARMS(records, settings), *shown])


PANELS = [
    Panel(
        [Bars(value, by="arm", where={"part": TRAINING, "bonuses": bonuses})],
        f"{bonuses}: {VALUES[value]}",
    )
    for bonuses, value in itertools.product(
        BONUSES, ("commonest", "adapted_information", "kept_reward")
    )
]
WHERE = {kind: {"part": BY_TURN, "bonuses": "equalised", "kind": kind} for kind in KINDS}
PANELS += [
    Panel([Line("entropies", by="arm", where=WHERE[k])], f"equalised, {k}", "turn", "entropy")
    for k in KINDS
]
FIGURE = Panels(PANELS, (19, 14), columns=3)
