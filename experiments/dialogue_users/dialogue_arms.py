"""The arms of the study of dialogues with three kinds of users: how each is trained, and its points."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.dialogue_users.interviews import Managers, measured_of_runs
from experiments.dialogue_users.interviews_in_context import learned_in_context
from ipsrl.environments.interview import Interview
from ipsrl.environments.interview_users import KINDS
from ipsrl.records.tidy import NotRecorded, Records
from ipsrl.study.curves import Curve, Points
from ipsrl.training.ensemble import train_ensemble

FLAT, PLAIN, ENTROPY, IPS, CONTEXT, FOMAML, PLACEBO = SAMPLED = (
    "flat",
    "hierarchy",
    "entropy",
    "ips",
    "context",
    "fomaml",
    "placebo",
)
EXACT_PLAIN, EXACT_FOMAML, EXACT_MAML = EXACT = "exact_hierarchy", "exact_fomaml", "exact_maml"
NAMES = {
    FLAT: "the flat policy",
    PLAIN: "the hierarchical policy without meta-learning",
    ENTROPY: "an entropy bonus of 0.1",
    IPS: "IPS-GRPO",
    CONTEXT: "a transformer that reads the dialogue",
    FOMAML: "first-order MAML",
    PLACEBO: "the placebo, MAML with random users,",
    EXACT_PLAIN: "the hierarchical policy without noise",
    EXACT_FOMAML: "first-order MAML without noise",
    EXACT_MAML: "MAML with second derivatives without noise",
}
"""Arm -> what claims call it."""
STEPS = {EXACT_PLAIN: (0.0, 0.0), EXACT_FOMAML: (1.0, 0.0), EXACT_MAML: (1.0, 1.0)}
"""Arms without noise -> `inner` and `second` of `Managers.exactly_learned`."""
OBJECTIVES = {ENTROPY: "grpo(entropy=0.1)", IPS: "ips_grpo"}
"""Of arms that are not trained by GRPO."""
TRAINING, BY_TURN = "training", "by turn"


def of(arm: str, bonuses: str) -> dict[str, str]:
    """The labels of an arm over training."""
    return {"part": TRAINING, "bonuses": bonuses, "arm": arm}


def curves_of(settings: Any, bonuses: str, arm: str) -> Iterator[Curve]:
    """What becomes of an arm over training, and, if it has a master that is measured exactly, at the end by turn.

    Args:
      settings: have `seeds`, `updates`, `records`, `group_size`, `turns`, `learning_rate` and `inner`.
    """
    yield Curve(of(arm, bonuses), functools.partial(points, settings, bonuses, arm))
    if arm not in (FLAT, CONTEXT):
        by_turn = functools.partial(entropies, settings, bonuses, arm)
        yield Curve(of(arm, bonuses) | {"part": BY_TURN}, by_turn, within=("kind",))


def managers_of(settings: Any, bonuses: str, arm: str) -> Managers:
    """Managers of an arm; GRPO adapts them, whatever trains them."""
    task = Interview(users=3, bonuses=bonuses, hierarchy=arm != FLAT, turns=settings.turns)
    return Managers(task, "grpo", settings.group_size, settings.inner)


@functools.cache
def learned(
    settings: Any, bonuses: str, arm: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What becomes of an arm, name -> `[S, U, ...]`, see `Managers.measured`; and the last policy of the first seed."""
    managers = managers_of(settings, bonuses, arm)
    if arm == CONTEXT:
        return learned_in_context(
            managers.environment, settings.seeds, settings.updates, settings.group_size
        ), {}
    seeds, every, rate = (
        jnp.asarray(settings.seeds),
        settings.updates // settings.records,
        settings.learning_rate,
    )
    if arm in (FOMAML, PLACEBO):
        # An update takes twice as many dialogues.
        each = functools.partial(
            managers.meta_learned, settings.updates // 2, every // 2, arm == PLACEBO, rate
        )
        policies = jax.jit(jax.vmap(each))(seeds)
    elif arm in EXACT:
        each = functools.partial(managers.exactly_learned, settings.updates, every, rate)
        policies = jax.jit(jax.vmap(each, (0, None, None)))(seeds, *map(jnp.float32, STEPS[arm]))
    else:
        trained = dataclasses.replace(managers, objective=OBJECTIVES.get(arm, "grpo"))
        trainer = trained.trainer(settings.updates, rate)
        policies = train_ensemble(
            trainer, seeds, dict, every, initial_parameters=jax.vmap(managers.prior)(seeds)
        )
    values = {
        name: np.asarray(each) for name, each in measured_of_runs(managers, policies, seeds).items()
    }
    return values, {name: np.asarray(leaf[0, -1]) for name, leaf in policies.items()}


def points(settings: Any, bonuses: str, arm: str) -> Points:
    """What became of the phases over training; `kept_reward` is that after an adaptation if it is better."""
    found, policy = learned(settings, bonuses, arm)
    values = {name: each for name, each in found.items() if each.ndim == 2}
    values["kept_reward"] = np.maximum(
        values["reward"], values.get("adapted_reward", values["reward"])
    )
    steps = np.linspace(0, settings.updates, settings.records + 1).astype(int)[
        -values["reward"].shape[1] :
    ]
    return Points(steps, values, settings.seeds, policy)


def entropies(settings: Any, bonuses: str, arm: str) -> Points:
    """At the end, the entropy of the master's choice at each turn where it chooses, for each kind of user."""
    found = {
        name: learned(settings, bonuses, arm)[0][name][:, -1]
        for name in ("entropies", "adapted_entropies")
    }
    seeds, kinds, blocks = found["entropies"].shape
    values = {name: each.reshape(seeds, -1) for name, each in found.items()}
    every = managers_of(settings, bonuses, arm).environment.every
    values["kind"] = np.repeat(tuple(KINDS), blocks)
    return Points(np.tile(every * np.arange(blocks), kinds), values, settings.seeds)


def dialogues(records: Records, settings: Any) -> Iterator[str]:
    """A dialogue in words with each kind of user, of the first seed of each arm after an adaptation."""
    for bonuses in settings.bonuses:
        for arm in settings.arms:
            with contextlib.suppress(NotRecorded):
                policy = {
                    name: records.array(name, **of(arm, bonuses))
                    for name in ("always", "block", "last")
                }
                spoken = managers_of(settings, bonuses, arm).dialogues(policy, settings.seeds[0])
                for kind, lines in zip(KINDS, spoken, strict=True):
                    yield "\n".join([f"{arm}, {bonuses} bonuses, a user who is {kind}", *lines])
