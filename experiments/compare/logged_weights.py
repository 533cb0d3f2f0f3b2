"""How an objective would have weighed groups that were logged: which answers it pays, and whether rare ones gain."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from ipsrl.environments.group_log import GroupLog
from ipsrl.integrations.advantages_only import advantages_of_rows, reads_more
from ipsrl.integrations.guest import GuestObjective
from ipsrl.measures import diversity
from ipsrl.structures import is_right
from ipsrl.text_table import aligned

RIGHT_ABOVE = 0.0
"""The value of `Outcomes.right_above`: a log does not say which rewards wrong answers have."""


@dataclasses.dataclass(frozen=True)
class LoggedWeights:
    """Advantages of logged answers, divided by their root mean square over all of them.

    An answer is right if it has a valid outcome and the highest reward of its group, if that is right; all others are
    wrong. Groups are contested if they have right outcomes of different frequencies; their most and their least
    frequent ones are called common and rare.

    Attributes:
      weighed: share of the groups in which any answer has an advantage.
      wrong, right: mean advantage of answers.
      common, rare: mean advantage of answers in contested groups; NaN if there are none.
      drift: mean over contested groups of the change of log(p_rare / p_common) for a gradient step of size 1 on the
        logits of a policy whose probabilities are the shares of outcomes in the group. Negative: the common outcome
        gains on the rare one.
    """

    weighed: float
    wrong: float
    right: float
    common: float
    rare: float
    drift: float


def weights_of_log(objective: str, log: GroupLog) -> LoggedWeights:
    """The weights that an objective gives to the answers of a log, in one batch and in its initial state.

    Raises:
      ValueError: its weights read more than rewards and outcomes, or its groups must be larger.
    """
    group_size = log.rewards.shape[1]
    guest = GuestObjective(objective, group_size, "a log of groups", right_above=RIGHT_ABOVE)
    if refused := reads_more(guest.objective, group_size):
        raise ValueError(refused)
    prompts = np.repeat(log.prompt_index, group_size).tolist()
    outcomes = [None if number < 0 else number for number in log.outcome_id.ravel().tolist()]
    given = advantages_of_rows(guest, prompts, log.rewards.ravel(), outcomes)
    advantages = given.reshape(log.rewards.shape).astype(np.float64)
    advantages /= np.sqrt((advantages**2).mean()) or 1.0

    right, common, rare = sides(log.rewards, log.outcome_id)
    paid = {
        "wrong": ~right,
        "right": right,
        "common": common,
        "rare": rare,
    }
    means = {name: advantages[mask].mean() if mask.any() else np.nan for name, mask in paid.items()}
    contested = rare.any(axis=1)
    steps = logit_steps(advantages, log.outcome_id)
    gains = [steps[contested].mean(axis=1, where=of[contested]) for of in (rare, common)]
    drift = (gains[0] - gains[1]).mean() if contested.any() else np.nan
    # Less is rounding.
    weighed = (np.abs(advantages) > 1e-6).any(axis=1).mean()
    return LoggedWeights(weighed=weighed, drift=drift, **means)


def table(log: GroupLog, chosen: Sequence[str], verdicts: Mapping[str, str]) -> str:
    """A line on the log, a row of `LoggedWeights` for each objective, and why others cannot weigh a log.

    Args:
      log: of groups.
      chosen: specifications of objectives.
      verdicts: what is known of them, by specification.
    """
    groups, group_size = log.rewards.shape
    right = np.where(is_right(log.rewards, RIGHT_ABOVE), log.outcome_id, -1)
    effective = diversity.effective_outcomes(jnp.asarray(right))
    measured = {
        "mean reward": log.rewards.mean(),
        "effective rewarded outcomes of a group": effective.mean(),
        "share of groups with equal rewards": (np.ptp(log.rewards, axis=1) == 0).mean(),
    }
    head = f"the log: {groups} groups of {group_size} answers to {log.num_prompts} prompts; "
    cells = [["", *(field.name for field in dataclasses.fields(LoggedWeights)), "verdict"]]
    left_out = []
    for objective in chosen:
        try:
            weighed, *signed = dataclasses.astuple(weights_of_log(objective, log))
        except ValueError as error:
            left_out.append(f"left out: {objective}: {error}")
        else:
            numbers = [f"{weighed:.2f}", *(f"{value:+.2f}" for value in signed)]
            cells.append([objective, *numbers, verdicts.get(objective, "not published")])
    described = head + ", ".join(f"{name} {value:.2f}" for name, value in measured.items())
    return "\n".join([described, aligned(cells), *left_out])


def sides(rewards: np.ndarray, outcome_id: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which answers of groups `[N, G]` are right, and in contested groups common, and rare: `[N, G]` bool."""
    right = (
        is_right(rewards, RIGHT_ABOVE)
        & (rewards == rewards.max(axis=1, keepdims=True))
        & (outcome_id >= 0)
    )
    count = sums_of_outcomes(np.ones(outcome_id.shape, int), outcome_id)
    most = np.where(right, count, 0).max(axis=1, keepdims=True)
    least = np.where(right, count, count.shape[1] + 1).min(axis=1, keepdims=True)
    common = right & (count == most)
    rare = right & (count == least)
    contested = (common & ~rare).any(axis=1, keepdims=True)
    return right, common & contested, rare & contested


def sums_of_outcomes(values: np.ndarray, outcome_id: np.ndarray) -> np.ndarray:
    """`[N, G]`, for each answer the sum of the values of all answers of its group that have its outcome."""
    # Answer by answer: all pairs of a large log would take gigabytes.
    return np.stack(
        [(values * (outcome_id == column[:, None])).sum(axis=1) for column in outcome_id.T], axis=1
    )


def logit_steps(advantages: np.ndarray, outcome_id: np.ndarray) -> np.ndarray:
    """`[N, G]`, the step of the logit of each answer's outcome.

    sum over the outcome's answers of A_i / G - p sum_i A_i / G, where p is the share of its answers.
    """
    centred = advantages - advantages.mean(axis=1, keepdims=True)
    return sums_of_outcomes(centred, outcome_id) / advantages.shape[1]
