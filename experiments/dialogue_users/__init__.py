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
Expected  Share of the commonest phase at the end. Equal bonuses: the hierarchy collapses into engaging, 0.995, whether
          flat, exact or a transformer; first-order MAML keeps phases, 0.45, and returns more after an adaptation than
          the transformer. Published bonuses: the hierarchy keeps two phases, 0.71, engages for eight turns, then plans,
          whoever the user is; first-order MAML has 0.49 and returns less. So the escalating bonuses prevent the
          collapse, and MAML helps with equal ones alone. IPS-GRPO (0.32) and an entropy bonus keep phases with both.
Doubt     Users are a table of our own, in which engaging is the safe phase. The step size of adaptations suits MAML. A
          master with another observation, longer training, a transformer that explores more may differ.
Smoke     python -m experiments.dialogue_users --preset=smoke

`--show` prints a dialogue with each kind of user, of the first seed after training and an adaptation.
"""

import itertools

from experiments.dialogue_users.dialogue_arms import (
    BY_TURN,
    NAMES,
    TRAINING,
    Settings,
    curves_of,
    dialogues,
    of,
)
from ipsrl import study
from ipsrl.environments.agents.interview import BONUSES
from ipsrl.environments.agents.interview_users import KINDS
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records

PRESETS = {
    "smoke": Settings(
        ("hierarchy",), ("equalised",), seeds=(0, 1), updates=4, records=1, group_size=4, turns=8
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10, 30)), updates=960, learning_rate=10.0),
}


def curves(settings: Settings) -> study.Curves:
    for bonuses, arm in itertools.product(settings.bonuses, settings.arms):
        yield from curves_of(settings, bonuses, arm)


COLLAPSED = ("flat", "hierarchy", "exact_hierarchy")
VARIED = ("entropy", "ips", "context", "fomaml", "exact_fomaml", "exact_maml")
ONE_PHASE = "has one phase in over 90 % of its choices"
SEVERAL = "has no phase in over 90 % of its choices"
NATS = "0.1 nats about the kind of user, in the mean over choices"


def collapses(arm: str, bonuses: str) -> study.Claim:
    return study.above(study.final("commonest", **of(arm, bonuses)), 0.9)


def varies(arm: str, bonuses: str) -> study.Claim:
    return study.below(study.final("commonest", **of(arm, bonuses)), 0.9)


def claims_of(bonuses: str) -> dict[str, study.Claim]:
    """The claims with published or equalised bonuses."""

    def final(value: str, arm: str) -> study.Number:
        return study.final(value, **of(arm, bonuses))

    def more(arm: str, than: str) -> study.Number:
        """The return of one arm less that of another, each after adaptation if that is better."""
        return final("kept_reward", arm) - final("kept_reward", than)

    plain = NAMES["hierarchy"]
    claims = {
        **{f"{NAMES[arm]} {ONE_PHASE}": collapses(arm, bonuses) for arm in COLLAPSED},
        **{f"{NAMES[arm]} {SEVERAL}": varies(arm, bonuses) for arm in VARIED},
        f"first-order MAML has over 0.02 more of the best return than {plain}": study.above(
            more("fomaml", "hierarchy"), 0.02
        ),
        f"first-order MAML has over 0.02 more of the best return than {NAMES['context']}": study.above(
            more("fomaml", "context"), 0.02
        ),
        f"before an adaptation, the phase of {plain} tells under {NATS}": study.below(
            final("information", "hierarchy"), 0.1
        ),
        f"after an adaptation, the phase of {NAMES['fomaml']} tells over {NATS}": study.above(
            final("adapted_information", "fomaml"), 0.1
        ),
        f"after an adaptation, the phase of {plain} tells under {NATS}": study.below(
            final("adapted_information", "hierarchy"), 0.1
        ),
        f"{NAMES['placebo']} has at most 0.02 more of the best return than {plain}": study.below(
            more("placebo", "hierarchy"), 0.02
        ),
        "without noise, second derivatives change MAML's share of the best return by less than 0.05": study.near(
            more("exact_maml", "exact_fomaml"), 0.0, 0.05
        ),
    }
    return {f"{bonuses} bonuses: {sentence}": claim for sentence, claim in claims.items()}


CLAIMS = {
    f"with both bonuses {NAMES['hierarchy']} {ONE_PHASE}, and {NAMES['fomaml']} {SEVERAL}": study.every(
        [
            collapses("hierarchy", "equalised"),
            collapses("hierarchy", "published"),
            varies("fomaml", "equalised"),
            varies("fomaml", "published"),
        ]
    ),
    **claims_of("equalised"),
    **claims_of("published"),
}
HEADLINE = study.Headline(
    subject="Agents that search or talk",
    claim=(
        "A hierarchical dialogue manager collapses into one phase without meta-learning; MAML"
        " over kinds of users keeps it variable."
    ),
    scope="simulated interviews with three kinds of users, tables of logits",
    decided_by=tuple(
        f"{bonuses} bonuses: {arm} phase in over 90 % of its choices"
        for bonuses in ("equalised", "published")
        for arm in (
            "the hierarchical policy without meta-learning has one",
            "first-order MAML has no",
        )
    ),
)
COLUMNS = {
    "commonest": "share of the commonest phase",
    "entropy": "entropy of the phase",
    "reward": "share of the best return",
    "kept_reward": "return, adapted if better",
    "adapted_information": "nats about the user, adapted",
    "information": "nats about the user",
    "adapted_commonest": "share of the commonest phase, adapted",
    "adapted_reward": "share of the best return, adapted",
}
OF_ARMS = study.Table(tuple(COLUMNS), "{bonuses} bonuses", {"part": TRAINING}, each="bonuses")


def TABLE(records: Records, settings: Settings) -> str:
    """The table, and with --show dialogues."""
    shown = dialogues(records, settings) if settings.show else ()
    return "\n\n".join([OF_ARMS(records, settings), *shown])


def at_the_end(bonuses: str, value: str) -> Panel:
    return Panel(
        [Bars(value, by="arm", where={"part": TRAINING, "bonuses": bonuses})],
        f"{bonuses}: {COLUMNS[value]}",
    )


def by_turn(kind: str) -> Panel:
    """How varied the phases of an arm are with equalised bonuses and one kind of user."""
    where = {"part": BY_TURN, "bonuses": "equalised", "kind": kind}
    return Panel(
        [Line("entropies", by="arm", where=where)], f"equalised, {kind}", "turn", "entropy"
    )


DRAWN = ("commonest", "adapted_information", "kept_reward")
ENDS = [at_the_end(bonuses, value) for bonuses in BONUSES for value in DRAWN]
FIGURE = Panels([*ENDS, *map(by_turn, KINDS)], (19, 14), columns=3)
