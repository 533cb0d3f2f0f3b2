"""Dialogues with three kinds of users: does a hierarchical manager collapse into one phase, and does MAML prevent it?

Claim     Without meta-learning the master of a hierarchical dialogue manager collapses to one action, whatever the
          user; MAML over kinds of users keeps it variable, and adapts it.
Paper     arXiv 2506.19652 (phases, kinds of users, rewards). The simulated users, acts, margins, equalised bonuses, the
          adaptation on one group and all numbers of training are ours: the paper's we do not know.
Arms      Flat policy and hierarchical GRPO, each on `interview`; + entropy bonus, IPS-GRPO with the commonest phase as
          outcome, a transformer that reads the dialogue (`context`), first-order MAML that adapts the master. The same
          without noise by exact gradients, there also MAML with second derivatives. Equally many dialogues; all but the
          transformer have one learning rate, chosen on other seeds. Each arm is measured before and after an
          adaptation by GRPO. Published bonuses (50, 100, 150, 200) make one phase pay more than others: the claim is
          only upheld if it also holds with equal ones. Placebo: MAML whose inner step is on a random user.
Command   python -m experiments.dialogue_users
Time      TIME
Expected  EXPECTED
Doubt     Users are a table of our own, in which engaging is the safe phase. A master with another observation, a longer
          training or another algorithm may differ; so may a manager that adapts by more than one group.
Smoke     python -m experiments.dialogue_users --preset=smoke

`--show` prints a dialogue with each kind of user, of the first seed after training and an adaptation.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import study
from ipsrl.environments.interview import BONUSES, Interview
from ipsrl.environments.interview_users import KINDS
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Bars
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study.claims import above, all_of, below, close
from ipsrl.study.worlds.interviews import Managers, measured_of_runs
from ipsrl.study.worlds.interviews_in_context import learned_in_context
from ipsrl.training.ensemble import train_ensemble

FLAT, PLAIN, ENTROPY, IPS, CONTEXT, FOMAML, PLACEBO = SAMPLED = (
    "flat", "hierarchy", "entropy", "ips", "context", "fomaml", "placebo"
)  # fmt: skip
EXACT = {"exact_hierarchy": (0.0, 0.0), "exact_fomaml": (1.0, 0.0), "exact_maml": (1.0, 1.0)}
OBJECTIVES = {ENTROPY: "grpo(entropy=0.1)", IPS: "ips_grpo"}
TRAINING, BY_TURN = "training", "by turn"


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`updates` are of `group_size` dialogues with each kind of user, of which `records` places are measured; `inner`
    is the step size of adaptations, and `show` prints dialogues.
    """

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
            raise ValueError(f"--updates is {self.updates}, it must be a multiple of 2 --records, {2 * self.records}")
        if self.turns % 4:
            raise ValueError(f"--turns is {self.turns}, it must be a multiple of 4")


PRESETS = {
    "smoke": Settings((PLAIN,), ("equalised",), seeds=(0, 1), updates=4, records=1, group_size=4, turns=8),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(10, 30)), updates=960, learning_rate=10.0),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for bonuses in settings.bonuses:
        for arm in settings.arms:
            labels = {"part": TRAINING, "bonuses": bonuses, "arm": arm}
            yield study.Curve(labels, functools.partial(points, settings, bonuses, arm))
            if arm not in (FLAT, CONTEXT):
                by_turn = functools.partial(entropies, settings, bonuses, arm)
                yield study.Curve(labels | {"part": BY_TURN}, by_turn, within=("kind",))


def managers_of(settings: Settings, bonuses: str, arm: str) -> Managers:
    """Managers of an arm; GRPO adapts them, whatever trains them."""
    task = Interview(users=3, bonuses=bonuses, hierarchy=arm != FLAT, turns=settings.turns)
    return Managers(task, "grpo", settings.group_size, settings.inner)


@functools.cache
def learned(settings: Settings, bonuses: str, arm: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What becomes of an arm, name -> `[S, U, ...]`, see `Managers.measured`; and policies of the first seed."""
    managers = managers_of(settings, bonuses, arm)
    if arm == CONTEXT:
        return learned_in_context(managers.environment, settings.seeds, settings.updates, settings.group_size), {}
    seeds, every = jnp.asarray(settings.seeds), settings.updates // settings.records
    if arm in (FOMAML, PLACEBO):
        # An update takes twice as many dialogues.
        each = functools.partial(
            managers.meta_learned, settings.updates // 2, every // 2, arm == PLACEBO, settings.learning_rate
        )
        policies = jax.jit(jax.vmap(each))(seeds)
    elif arm in EXACT:
        each = functools.partial(managers.exactly_learned, settings.updates, every, settings.learning_rate)
        policies = jax.jit(jax.vmap(each, (0, None, None)))(seeds, *map(jnp.float32, EXACT[arm]))
    else:
        trained = dataclasses.replace(managers, objective=OBJECTIVES.get(arm, "grpo"))
        trainer = trained.trainer(settings.updates, settings.learning_rate)
        policies = train_ensemble(trainer, seeds, dict, every, initial_parameters=jax.vmap(managers.prior)(seeds))
    values = {name: np.asarray(each) for name, each in measured_of_runs(managers, policies, seeds).items()}
    return values, {name: np.asarray(leaf[0, -1]) for name, leaf in policies.items()}


def points(settings: Settings, bonuses: str, arm: str) -> study.Points:
    """What became of the phases over training."""
    found, policy = learned(settings, bonuses, arm)
    values = {name: each for name, each in found.items() if each.ndim == 2}
    values["kept_reward"] = np.maximum(values["reward"], values.get("adapted_reward", values["reward"]))
    steps = np.linspace(0, settings.updates, settings.records + 1).astype(int)[-values["reward"].shape[1] :]
    return study.Points(steps, values, settings.seeds, policy)


def entropies(settings: Settings, bonuses: str, arm: str) -> study.Points:
    """At the end, the entropy of the master's choice at each turn where it chooses, for each kind of user."""
    found = {name: learned(settings, bonuses, arm)[0][name][:, -1] for name in ("entropies", "adapted_entropies")}
    seeds, kinds, blocks = found["entropies"].shape
    values = {name: each.reshape(seeds, -1) for name, each in found.items()}
    kind = np.repeat(tuple(KINDS), blocks)
    return study.Points(np.tile(4 * np.arange(blocks), kinds), values | {"kind": kind}, settings.seeds)


def of(arm: str, bonuses: str) -> dict[str, str]:
    """The labels of an arm."""
    return {"part": TRAINING, "bonuses": bonuses, "arm": arm}


def last(value: str, arm: str, bonuses: str) -> study.Number:
    return study.final(value, **of(arm, bonuses))


def more(arm: str, than: str, bonuses: str) -> study.Number:
    """By how much the return, adapted if that is better, is above that of another arm, paired by seed."""
    return study.difference("kept_reward", of(arm, bonuses), of(than, bonuses))


NAMES = {
    FLAT: "the flat policy", PLAIN: "the hierarchical policy without meta-learning", ENTROPY: "an entropy bonus of 0.1",
    IPS: "IPS-GRPO", CONTEXT: "a transformer that reads the dialogue", FOMAML: "first-order MAML",
    PLACEBO: "the placebo, MAML with random users,", "exact_hierarchy": "the hierarchical policy without noise",
    "exact_fomaml": "first-order MAML without noise", "exact_maml": "MAML with second derivatives without noise",
}  # fmt: skip
COLLAPSED, VARIED = (FLAT, PLAIN, "exact_hierarchy"), (ENTROPY, IPS, CONTEXT, FOMAML, "exact_fomaml", "exact_maml")
OVER, UNDER = "has one phase in over 90 % of its choices", "has no phase in over 90 % of its choices"


def claims_of(bonuses: str) -> dict[str, study.Claim]:
    """The claims with published or equalised bonuses."""
    with_these = f"{bonuses} bonuses:"
    commonest = {arm: last("commonest", arm, bonuses) for arm in NAMES}
    after = f"{with_these} after an adaptation"
    claims = {f"{with_these} {NAMES[arm]} {OVER}": above(commonest[arm], 0.9) for arm in COLLAPSED}
    claims |= {f"{with_these} {NAMES[arm]} {UNDER}": below(commonest[arm], 0.9) for arm in VARIED}
    return claims | {
        f"{after} the phase of {NAMES[FOMAML]} tells over 0.1 nats about the kind of user":
            above(last("adapted_information", FOMAML, bonuses), 0.1),
        f"{after} the phase of {NAMES[PLAIN]} tells less than 0.1 nats about the kind of user":
            below(last("adapted_information", PLAIN, bonuses), 0.1),
        f"{with_these} {NAMES[FOMAML]} has over 0.02 more of the best return than {NAMES[PLAIN]}":
            above(more(FOMAML, PLAIN, bonuses), 0.02),
        f"{with_these} {NAMES[FOMAML]} has over 0.02 more of the best return than {NAMES[CONTEXT]}":
            above(more(FOMAML, CONTEXT, bonuses), 0.02),
        f"{with_these} {NAMES[PLACEBO]} has at most 0.02 more of the best return than {NAMES[PLAIN]}":
            below(more(PLACEBO, PLAIN, bonuses), 0.02),
        f"{with_these} without noise, second derivatives change MAML's share of the best return by less than 0.05":
            lambda records: close(more("exact_maml", "exact_fomaml", bonuses)(records), 0.0, 0.05),
    }  # fmt: skip


def whole(records: Records) -> bool | None:
    """The paper's claim: with both bonuses the hierarchical policy collapses, and first-order MAML does not."""
    parts = [(above, PLAIN), (below, FOMAML)]
    return all_of(side(last("commonest", arm, bonuses), 0.9)(records) for side, arm in parts for bonuses in BONUSES)


CLAIMS = claims_of("published") | claims_of("equalised") | {
    f"with both bonuses {NAMES[PLAIN]} {OVER}, and {NAMES[FOMAML]} {UNDER}": whole
}  # fmt: skip
VALUES = {
    "commonest": "share of the commonest phase", "entropy": "entropy of the phase",
    "reward": "share of the best return", "kept_reward": "the same, after an adaptation if that is better",
    "adapted_information": "information about the user after it",
}  # fmt: skip
NUMBERS = {
    f"{shown}, {bonuses}, {arm}": last(value, arm, bonuses)
    for value, shown in VALUES.items() for bonuses in BONUSES for arm in NAMES
    if arm != CONTEXT or not value.startswith("adapted")
}  # fmt: skip
COLUMNS = (
    "commonest", "entropy", "information", "reward", "adapted_commonest", "adapted_information", "adapted_reward", "kept_reward"
)  # fmt: skip
TABLES = study.Table(COLUMNS, "{bonuses} bonuses", {"part": TRAINING}, each="bonuses")


def TABLE(records: Records, settings: Settings) -> str:
    """The table, and with --show dialogues."""
    parts = [TABLES(records, settings)]
    for bonuses in settings.bonuses if settings.show else ():
        for arm in settings.arms:
            with contextlib.suppress(NotRecorded):
                policy = {name: records.array(name, **of(arm, bonuses)) for name in ("always", "block", "last")}
                dialogues = managers_of(settings, bonuses, arm).dialogues(policy, settings.seeds[0])
                for kind, dialogue in zip(KINDS, dialogues, strict=True):
                    parts.append("\n".join([f"{arm}, {bonuses} bonuses, a user who is {kind}", *dialogue]))
    return "\n\n".join(parts)


BARS = {
    "commonest": "share of the commonest phase", "adapted_information": "nats about the user, after an adaptation",
    "kept_reward": "share of the best return, adapted if that is better",
}  # fmt: skip
PANELS = [
    Panel([Bars(value, by="arm", where={"part": TRAINING, "bonuses": bonuses})], f"{bonuses}: {title}")
    for bonuses in BONUSES
    for value, title in BARS.items()
]
FIGURE = Panels(PANELS, (19, 9.5), columns=3)

if __name__ == "__main__":
    study.main(__name__)
