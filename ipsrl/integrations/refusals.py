"""Which objectives a trainer can compute from the rows that it has."""

from ipsrl.objectives.objective import Objective

REFERENCE = frozenset({"reference_log_probs"})
WITH_EXACT_TEXT = REFERENCE | {"log_backward"}
"""The optional fields that trainers of language models can give. The text of an answer is an outcome to which only this
answer leads, so that the backward policy gives it 1."""
DRAWN = "keys"
"""The field of `Rollouts` that is drawn here, and needs no trainer."""


def refusal(objective: Objective, group_size: int, trainer: str, provides: frozenset[str]) -> str | None:
    """Why a trainer whose rows have these optional fields of `Rollouts` cannot compute an objective; None if it can."""
    if objective.num_steps > 1:
        return f"the objective takes {objective.num_steps} optimiser steps for each mini-batch, and {trainer} takes one"
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
