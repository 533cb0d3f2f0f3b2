"""Refusals of objectives that a trainer cannot compute from its rows, or not in its configuration."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ipsrl.objectives.objective import Objective
from ipsrl.training.behaviour import fields_read

REFERENCE = frozenset({"reference_log_probs"})
WITH_EXACT_TEXT = REFERENCE | {"log_backward"}
"""The optional fields that trainers of language models can give. The text of an answer is an outcome to which only this
answer leads, so that the backward policy gives it 1."""
DRAWN = "keys"
"""The field of `Rollouts` that is drawn here, and needs no trainer."""


NOT_PROPORTIONAL = (
    "the loss of the objective is not proportional to its advantages, so that it cannot be corrected for the "
    "probabilities of the sampler: set "
)

UNSEEN_SAMPLER = (
    "the correction of the objective would read the trainer's probabilities in the place of the sampler's: leave it out"
)


def provided_with(outcome_of: Callable | None, exact_text: Callable) -> frozenset[str]:
    """The optional fields that trainers of language models give, by what an outcome is."""
    return WITH_EXACT_TEXT if outcome_of in (None, exact_text) else REFERENCE


def refusal(objective: Objective, group_size: int, trainer: str, provides: frozenset[str]) -> str | None:
    """Why a trainer whose rows have these optional fields of `Rollouts` cannot compute an objective; None if it can."""
    if objective.num_steps > 1:
        return f"the objective takes {objective.num_steps} optimiser steps for each mini-batch, and {trainer} takes one"
    if objective.separates and "proximal_log_probs" not in provides:
        return (
            f"the objective corrects for the sampler, whose probabilities {trainer} does not give: leave correction "
            f"out, and set that of {trainer}, if it has one"
        )
    if missing := objective.needs - provides - {DRAWN}:
        given = ", ".join(sorted(provides)) or "no optional field"
        return f"the objective needs {', '.join(sorted(missing))}, which {trainer} does not give; it gives {given}"
    smallest = max(part.smallest_group for part in objective.parts)
    if group_size < smallest:
        return (
            f"the objective compares the answers of a group, so a group needs {smallest} or more, not {group_size}: "
            "sample more answers to each prompt"
        )
    return None


def require_outcomes(
    objective: Objective, group_size: int, outcome_of: Callable | None, setting: str = "outcome_of"
) -> None:
    """Raises ValueError where an objective reads outcomes, and nothing says what they are."""
    if outcome_of is None and "outcome_id" in fields_read(objective, group_size):
        raise ValueError(
            f"the objective reads outcomes: give {setting}, as last_number of ipsrl.integrations.outcomes, or a "
            "function (prompt, completion, **columns) of your own"
        )


def require_defaults(config: Any, kind: type, names: Sequence[str]) -> None:
    """Raises ValueError where one of these settings, in whose place an objective stands, is not that of the dataclass
    `kind`.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    changed = [name for name in names if getattr(config, name, None) != defaults.get(name)]
    require_unchanged(kind.__name__, changed)


def require_unchanged(configuration: str, changed: Sequence[str]) -> None:
    """Raises ValueError if settings in whose place an objective stands were changed."""
    if changed:
        raise ValueError(
            f"{configuration} sets {', '.join(changed)}, in whose place the objective stands: write it there, as in "
            'objective="grpo(clip=0.1, kl=0.04)"'
        )
