"""Optional fields of rollouts that the training step gives: by a forward pass over the answers, or at random."""

import dataclasses
from typing import cast

import jax
from jax import Array

from ipsrl.policies.policy import Parameters, Policy, ReadsTexts, union
from ipsrl.structures import PolicyScores, Trajectories

OF_REFERENCE = frozenset({"reference_log_probs", "answer_features"})
"""Fields that the reference policy gives."""
PROXIMAL = frozenset({"proximal_log_probs", "proximal_mean_log_probs"})
"""Fields of the policy before the first optimiser step on a batch."""
OF_EVERY_STEP = PROXIMAL | {"reference_log_probs", "keys"}
"""Fields that the step gives with any policy; others are among the policy's `optional_fields`."""


def reading(policy: Policy) -> ReadsTexts:
    """The policy, whose methods for texts are known to exist: an objective that needs them was refused otherwise."""
    return cast(ReadsTexts, policy)


def optional_fields(
    needs: frozenset[str],
    policy: Policy,
    parameters: Parameters,
    reference: Parameters | None,
    frozen: Parameters | None,
    trajectories: Trajectories,
    temperature: float,
) -> dict[str, Array]:
    """The optional fields of `Rollouts` among `needs` that take a forward pass, with their axes after `[P]`.

    Args:
      needs: names of fields.
      parameters: of the policy before the first optimiser step on the batch.
      reference: of the reference policy; None if nothing in `needs` is `OF_REFERENCE`.
      frozen: parameters that both read beside their own; None for none.
    """
    found = {}
    if "prompt_log_probs" in needs:
        log_probs, mask = reading(policy).prompt_log_probs(union(parameters, frozen), trajectories.prompts, temperature)
        found |= {"prompt_log_probs": log_probs, "prompt_mask": mask}
    if "reference_log_probs" in needs:
        scores = policy.score(union(reference, frozen), trajectories, temperature)
        found["reference_log_probs"] = scores.log_probs
    if "answer_features" in needs:
        found["answer_features"] = reading(policy).answer_features(union(reference, frozen), trajectories)
    if wanted := PROXIMAL & needs:
        scores = policy.score(union(parameters, frozen), trajectories, temperature)
        found |= {name: getattr(scores, name.removeprefix("proximal_")) for name in wanted}
    return found


def random_fields(needs: frozenset[str], key: Array, prompts: int) -> dict[str, Array]:
    """The optional fields of `Rollouts` among `needs` that are drawn: `keys`, one for each prompt."""
    return {"keys": jax.random.split(key, prompts)} if "keys" in needs else {}


def policy_scores(
    needs: frozenset[str],
    policy: Policy,
    parameters: Parameters,
    frozen: Parameters | None,
    trajectories: Trajectories,
    temperature: float,
) -> PolicyScores:
    """The scores of the sampled tokens by the policy being trained, and those of the prompts' tokens if they are among
    `needs`; differentiable in `parameters`.
    """
    actor = union(parameters, frozen)
    scores = policy.score(actor, trajectories, temperature)
    if "prompt_log_probs" not in needs:
        return scores
    of_prompts, _ = reading(policy).prompt_log_probs(actor, trajectories.prompts, temperature)
    return dataclasses.replace(scores, prompt_log_probs=of_prompts)
