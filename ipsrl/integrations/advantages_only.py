"""Advantages of flat batches, for every trainer that takes them from outside."""

import math
import numbers
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np

from ipsrl import objectives
from ipsrl.checking.arguments import accepted, shown
from ipsrl.integrations.guest import GuestObjective, check_rewards
from ipsrl.integrations.rows import Rows, numbered, prompt_name
from ipsrl.objectives.objective import Objective
from ipsrl.structures import Sizes
from ipsrl.training.behaviour import fields_read

GIVEN = frozenset({"rewards", "outcome_id", "right_above", "keys"})


class MoreThanAdvantages(UserWarning):
    """The objective differs from GRPO in more than its advantages; the rest is up to the trainer."""


def advantages(
    objective: Objective | str,
    rewards: Sequence[float] | np.ndarray,
    outcomes: Sequence[Hashable | None] | None,
    groups: Sequence[Hashable],
    seed: int = 0,
    right_above: float | None = None,
) -> np.ndarray:
    """`[B]` float32, the advantages of B answers under an objective; all tokens of an answer have its advantage.

    With GRPO's loss (ratio clipped to 0.8 to 1.2, mean over each answer's tokens, no divergence) a trainer computes the
    objective exactly, if it differs from GRPO only in what it weighs. A warning (`MoreThanAdvantages`) names the parts
    in which it differs beside.

    Args:
      objective: or its specification, such as "ips_grpo(floor=0.2)".
      rewards: `[B]`.
      outcomes: what each answer is, any hashable; None or NaN for an answer without a valid outcome. Objectives that
        read no outcomes need none.
      groups: the prompt of each answer, any hashable, or messages. Groups must have the same size, in any order.
      seed: of objectives that draw at random: take another one for each batch.
      right_above: an answer is right if its reward is above this number. None is 0, but rewards of several positive
        sizes are then refused where the objective tells right answers from wrong ones.

    Raises:
      ValueError: the weights read more than rewards and outcomes, or are carried from batch to batch; outcomes are
        needed and missing; lengths or group sizes differ; a reward is not finite, or of an impossible size; nothing
        says which of several positive rewards are right.
    """
    made = objectives.make(objective) if isinstance(objective, str) else accepted("objective", objective, Objective)
    accepted("seed", seed, int)
    rewards, groups = _listed("rewards", rewards), _listed("groups", groups)
    outcomes = None if outcomes is None else _listed("outcomes", outcomes)
    groups = numbered([prompt if _is_hashable(prompt) else prompt_name(prompt) for prompt in groups]).tolist()
    sizes = sorted(set(Counter(groups).values()))
    if len(sizes) != 1:
        raise ValueError(
            f"groups have {', '.join(map(str, sizes)) or 'no'} answers: they must all have the same number"
        )
    for name, values in {"rewards": rewards, "outcomes": outcomes}.items():
        if values is not None and len(values) != len(groups):
            raise ValueError(
                f"{name} has {len(values)} entries, and groups has {len(groups)}: give one for each answer"
            )
    guest = GuestObjective(made, sizes[0], "a trainer that takes advantages", seed=seed, right_above=right_above)
    if refused := not_advantages(made, sizes[0]):
        raise ValueError(f"the objective has no advantages of rewards and outcomes alone: {refused}")
    if outcomes is None and "outcome_id" in fields_read(made, sizes[0], loss=False):
        raise ValueError("the objective reads outcomes: give one for each answer, such as its last number")
    if differing := beyond_advantages(made):
        warnings.warn(
            f"the objective differs from GRPO in its {' and '.join(differing)} as well, which the trainer must have: "
            + "; ".join(f"{name} is {getattr(made, name)!r}" for name in differing),
            MoreThanAdvantages,
            stacklevel=2,
        )
    return advantages_of_rows(guest, groups, _numbers(rewards), [0] * len(rewards) if outcomes is None else outcomes)


def _listed(name: str, values: Any) -> list:
    """Values in their order; also those of a tensor or of a column of pandas."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, Sequence):
        raise ValueError(f"{name} is {shown(values)}, it must be a list, with one entry for each answer in their order")
    return list(values)


def _numbers(rewards: list) -> np.ndarray:
    """`[B]` float32; raises ValueError unless rewards are numbers that can be weighed."""
    try:
        found = np.array([np.nan if reward is None else _float(reward) for reward in rewards])
    except ValueError:
        found = np.array(None)
    if found.ndim != 1 or found.dtype.kind not in "biuf":
        raise ValueError(f"rewards is {shown(rewards)}, it must hold one number for each answer")
    # As they were given: in float32 some would be infinite or 0.
    check_rewards(found.astype(np.float64))
    return found.astype(np.float32)


def _float(reward: Any) -> Any:
    """A number that may be too large for NumPy's integers, or for any float, as a float; all else as it is."""
    if not isinstance(reward, numbers.Real):
        return reward
    try:
        return float(reward)
    except OverflowError:
        return math.inf if reward > 0 else -math.inf


def _is_hashable(prompt: Any) -> bool:
    try:
        hash(prompt)
    except TypeError:
        return False
    return True


def advantages_of_rows(
    guest: GuestObjective, prompts: Sequence[Hashable], rewards: np.ndarray, outcomes: Sequence[Hashable | None]
) -> np.ndarray:
    """`[B]` float32, the weights of answers of which only prompt, reward and outcome are known, `[B]` each."""
    rows = Rows(
        prompt_index=guest.prompt_index(prompts),
        rewards=rewards,
        outcome_id=guest.outcome_id(prompts, outcomes),
        tokens=np.zeros((len(rewards), 1), np.int32),
        token_mask=np.ones((len(rewards), 1), bool),
        truncated=np.zeros(len(rewards), bool),
    )
    weights, _ = guest.weigh(rows)
    return np.asarray(weights.advantages[:, 0])


def not_advantages(objective: Objective, group_size: int) -> str | None:
    """Why an objective's weights are no function of the rewards and outcomes of a batch; None if they are."""
    if refused := reads_more(objective, group_size):
        return refused
    if jax.tree.leaves(objective.init(Sizes(1, 1))):
        return "it carries state from batch to batch, for which `ipsrl.integrations.guest.GuestObjective` has a place"
    return None


def reads_more(objective: Objective, group_size: int) -> str | None:
    """The end of a sentence with the fields of rollouts, beside rewards and outcomes, on which an objective's weights
    depend; None if there are none.
    """
    unknown = fields_read(objective, group_size, loss=False) - GIVEN
    return f"its weights read {', '.join(sorted(unknown))}" if unknown else None


def beyond_advantages(objective: Objective) -> list[str]:
    """The parts after the weights in which an objective is not GRPO."""
    grpo = objectives.make("grpo")
    parts = ("surrogate", "penalties", "aggregation", "first", "correction")
    return [name for name in parts if getattr(objective, name) != getattr(grpo, name)]
