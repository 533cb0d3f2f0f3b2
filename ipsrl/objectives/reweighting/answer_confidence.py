"""Advantages shifted against the policy's confidence in its answer (ARM): `[P, G, T]` -> `[P, G, T]`."""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.fields import non_negative, share
from ipsrl.objectives.estimators.permutations import permuted_among
from ipsrl.objectives.estimators.ranks import kth_largest
from ipsrl.objectives.objective import RolloutPart, all_equal
from ipsrl.structures import Rollouts, masked_sum


def low_probability_confidence(log_probs: Array, mask: Array, fraction: float) -> Array:
    """Geometric mean probability of the least likely tokens of each row, `[..., T]` -> `[...]` in (0, 1].

        c = exp( mean of the k smallest log-probabilities ),   k = max(1, ceil(fraction * length))

    The rounding is our reading (arXiv 2602.05281 does not state it). A row without tokens gets 1.
    """
    length = mask.sum(axis=-1)
    # The offset undoes float32 rounding in products such as 0.2 * 10, whose ceiling must be 2.
    count = jnp.clip(jnp.ceil(fraction * length - 1e-4), 1, jnp.maximum(length, 1))
    highest = -kth_largest(-log_probs, mask, count, axis=-1)
    below = mask & (log_probs < highest[..., None])
    # The rest of the k tokens tie at the largest of the k values.
    total = masked_sum(log_probs, below, axis=-1) + (count - below.sum(axis=-1)) * highest
    return jnp.where(length > 0, jnp.exp(total / count), 1.0)


@dataclasses.dataclass(frozen=True)
class AnswerConfidence(RolloutPart):
    """ARM: shifts advantages against the policy's confidence in its own answer (ProGRPO, arXiv 2602.05281).

        A~_g = A_g + alpha (c(q) - c(o_g))      in groups that pass the gate, A_g elsewhere

    c(o_g) is the geometric mean probability of the `low_fraction` least likely tokens of the answer; c(q) is a
    reference level. Both use the behaviour policy's log-probabilities and are constants for the gradient.
    |A~ - A| <= alpha.

    The paper's full text was not at hand; where the sources leave a choice, it is a field (our reading: the defaults).

    Attributes:
      alpha: weight of the shift; 0.3 comes from a third-party adaptation.
      low_fraction: share of an answer's tokens that enters its confidence.
      reference: `prompt`, exp of the mean log-probability of the prompt's tokens, one number for a group; `correct`,
        mean confidence of the group's correct answers, which needs no prompt log-probabilities; `other_prompt`, a
        placebo: the numbers of `prompt`, permuted over the prompts of the batch by `Rollouts.keys`.
      shifted: `all` answers of the group (the quoted equation), or the `correct` ones only; `permuted`, a placebo: all,
        but the shifts of the correct answers are permuted among these by `Rollouts.keys`.
      gate: `any_correct`, groups with at least one right answer (the quoted equation, which also shifts groups
        that are all correct); `mixed`, groups whose rewards differ.
      prompt_part: prompt tokens averaged in c(q): `all`, the `lowest` (the same low_fraction), or the `question`
        (without the template around it).
    """

    CALLED: ClassVar[str] = "answer confidence (ARM)"
    alpha: float = non_negative(0.3)
    low_fraction: float = share(0.2)
    reference: Literal["prompt", "correct", "other_prompt"] = "prompt"
    shifted: Literal["all", "correct", "permuted"] = "all"
    gate: Literal["any_correct", "mixed"] = "any_correct"
    prompt_part: Literal["all", "lowest", "question"] = "all"

    @property
    def needs(self) -> frozenset[str]:
        random = {"keys"} if self.reference == "other_prompt" or self.shifted == "permuted" else set()
        of_prompt = {"prompt_log_probs"} if self.reference != "correct" else set()
        question = {"question_mask"} if of_prompt and self.prompt_part == "question" else set()
        return frozenset(random | of_prompt | question)

    def __call__(self, values: Array, rollouts: Rollouts) -> Array:
        confidence = low_probability_confidence(rollouts.behaviour_log_probs, rollouts.token_mask, self.low_fraction)
        correct = rollouts.right
        shift = self.alpha * (self._reference_level(rollouts, confidence, correct)[:, None] - confidence)
        if self.shifted == "permuted":
            shift = jnp.where(correct, permuted_among(shift, correct, rollouts.keys), shift)
        gate = correct.any(axis=-1) if self.gate == "any_correct" else ~all_equal(rollouts.rewards)
        moved = gate[:, None] & (correct | (self.shifted != "correct"))
        return values + jnp.where(moved, shift, 0.0)[..., None]

    def _reference_level(self, rollouts: Rollouts, confidence: Array, correct: Array) -> Array:
        if self.reference == "correct":
            return masked_sum(confidence, correct, axis=-1) / jnp.maximum(correct.sum(axis=-1), 1)
        mask = rollouts.prompt_mask
        if self.prompt_part == "question":
            mask = mask & rollouts.question_mask
        fraction = self.low_fraction if self.prompt_part == "lowest" else 1.0
        level = low_probability_confidence(rollouts.prompt_log_probs, mask, fraction)
        return jax.random.permutation(rollouts.keys[0], level) if self.reference == "other_prompt" else level
