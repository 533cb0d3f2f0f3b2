"""The arms of the study of dialogues with three kinds of users: how each is trained, and its points."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from experiments.dialogue_users.interviews import Managers, measured_of_runs
from experiments.dialogue_users.interviews_in_context import learned_in_context
from ipsrl import study
from ipsrl.checking.fields import any_of, at_least, positive
from ipsrl.environments.agents.interview import BONUSES, Interview
from ipsrl.environments.agents.interview_users import KINDS
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.training.ensemble import train_ensemble

NAMES = {
    "flat": "the flat policy",
    "hierarchy": "the hierarchical policy without meta-learning",
    "entropy": "an entropy bonus of 0.1",
    "ips": "IPS-GRPO",
    "context": "a transformer that reads the dialogue",
    "fomaml": "first-order MAML",
    "placebo": "the placebo, MAML with random users,",
    "exact_hierarchy": "the hierarchical policy without noise",
    "exact_fomaml": "first-order MAML without noise",
    "exact_maml": "MAML with second derivatives without noise",
}
"""Arm -> what claims call it."""
STEPS = {"exact_hierarchy": (0.0, 0.0), "exact_fomaml": (1.0, 0.0), "exact_maml": (1.0, 1.0)}
"""Arms without noise -> `inner` and `second` of `Managers.exactly_learned`."""
OBJECTIVES = {"entropy": "grpo(entropy=0.1)", "ips": "ips_grpo"}
"""The objectives of the arms that are not trained by GRPO."""
TRAINING = "training"
BY_TURN = "by turn"


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """Updates are of a group with each kind of user; `inner` is the step size of adaptations."""

    arms: tuple[str, ...] = study.selecting(any_of(NAMES))
    bonuses: tuple[str, ...] = study.selecting(any_of(BONUSES))
    seeds: tuple[int, ...] = study.seeds(range(10, 15), least=2)
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


def of(arm: str, bonuses: str) -> dict[str, str]:
    """The labels of an arm over training."""
    return {"part": TRAINING, "bonuses": bonuses, "arm": arm}


def curves_of(settings: Settings, bonuses: str, arm: str) -> study.Curves:
    """Curves of an arm over training and, if its master is measured exactly, of its entropies by turn at the end."""
    yield study.Curve(of(arm, bonuses), functools.partial(points, settings, bonuses, arm))
    if arm not in ("flat", "context"):
        by_turn = functools.partial(entropies, settings, bonuses, arm)
        yield study.Curve(of(arm, bonuses) | {"part": BY_TURN}, by_turn, within=("kind",))


def managers_of(settings: Settings, bonuses: str, arm: str) -> Managers:
    """Managers of an arm; GRPO adapts them, whatever trains them."""
    task = Interview(users=3, bonuses=bonuses, hierarchy=arm != "flat", turns=settings.turns)
    return Managers(task, "grpo", settings.group_size, settings.inner)


@functools.cache
def learned(
    settings: Settings, bonuses: str, arm: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Measures of an arm in training, name -> `[S, U, ...]` (see `Managers.measured`); the first seed's last policy."""
    managers = managers_of(settings, bonuses, arm)
    if arm == "context":
        return learned_in_context(managers, settings.seeds, settings.updates), {}
    seeds = jnp.asarray(settings.seeds)
    updates = settings.updates
    every = updates // settings.records
    rate = settings.learning_rate
    if arm in ("fomaml", "placebo"):
        # An update takes twice as many dialogues.
        each = functools.partial(
            managers.meta_learned, updates // 2, every // 2, arm == "placebo", rate
        )
        policies = jax.jit(jax.vmap(each))(seeds)
    elif arm in STEPS:
        each = functools.partial(managers.exactly_learned, updates, every, rate)
        policies = jax.jit(jax.vmap(each, (0, None, None)))(seeds, *map(jnp.float32, STEPS[arm]))
    else:
        trained = dataclasses.replace(managers, objective=OBJECTIVES.get(arm, "grpo"))
        trainer, priors = trained.trainer(updates, rate), jax.vmap(managers.prior)(seeds)
        policies = train_ensemble(trainer, seeds, dict, every, initial_parameters=priors)
    found = jax.device_get(measured_of_runs(managers, policies, seeds))
    return found, {name: np.asarray(leaf[0, -1]) for name, leaf in policies.items()}


def points(settings: Settings, bonuses: str, arm: str) -> study.Points:
    """The measures of the phases over training; `kept_reward` is the reward, after an adaptation if that is better."""
    found, policy = learned(settings, bonuses, arm)
    values = {name: each for name, each in found.items() if each.ndim == 2}
    reward = values["reward"]
    values["kept_reward"] = np.maximum(reward, values.get("adapted_reward", reward))
    steps = np.linspace(0, settings.updates, settings.records + 1).astype(int)
    # The transformer is measured at the end alone.
    return study.Points(steps[-reward.shape[1] :], values, settings.seeds, policy)


def entropies(settings: Settings, bonuses: str, arm: str) -> study.Points:
    """The final entropy of the master's choice at each turn where it chooses, for each kind of user."""
    found, _ = learned(settings, bonuses, arm)
    every = managers_of(settings, bonuses, arm).environment.every
    seeds, _, kinds, blocks = found["entropies"].shape
    values = {
        name: found[name][:, -1].reshape(seeds, -1) for name in ("entropies", "adapted_entropies")
    }
    values["kind"] = np.repeat(tuple(KINDS), blocks)
    return study.Points(np.tile(every * np.arange(blocks), kinds), values, settings.seeds)


def dialogues(records: Records, settings: Settings) -> Iterator[str]:
    """A dialogue in words with each kind of user, of the first seed of each arm after an adaptation."""
    for bonuses, arm in itertools.product(settings.bonuses, settings.arms):
        with contextlib.suppress(NotRecorded):
            names = ("always", "block", "last")
            policy = {name: records.array(name, **of(arm, bonuses)) for name in names}
            spoken = managers_of(settings, bonuses, arm).dialogues(policy, settings.seeds[0])
            for kind, lines in zip(KINDS, spoken, strict=True):
                yield "\n".join([f"{arm}, {bonuses} bonuses, a user who is {kind}", *lines])
